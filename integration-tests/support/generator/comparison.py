"""Whether two results of a statement are the same, as far as SQL fixes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from spark_dynamic_filters.testing._rows import canonical, multiset_difference

from .model import Statement

Rows = Sequence[Any]
_SHOWN = 4


def difference(statement: Statement, expected: Rows, actual: Rows, unlimited: Callable[[], Rows]) -> str:
    """What is wrong with the rows of a statement; empty if nothing is.

    Where a LIMIT may choose among ties, the sort keys must be the same, and each row must be one of those
    without the LIMIT.

    Args:
        unlimited: the rows without LIMIT; asked for only if the answers are not simply equal.
    """
    missing, extra = multiset_difference(expected, actual, 0.0)
    if not missing and not extra:
        return ""
    if statement.limit is None:
        return _shown(expected, actual, missing, extra)
    if len(expected) != len(actual):
        return _shown(expected, actual, missing, extra)
    keys = [o.by for o in statement.order]
    missing, extra = multiset_difference(_project(expected, keys), _project(actual, keys), 0.0)
    if missing or extra:
        return f"sort keys {', '.join(keys)}: " + _shown(expected, actual, missing, extra)
    possible = Counter(canonical(tuple(row)) for row in unlimited())
    invented = Counter(canonical(tuple(row)) for row in actual) - possible
    if invented:
        return f"rows that are not in the result without LIMIT: {list(invented)[:_SHOWN]}"
    return ""


def _project(rows: Rows, keys: list[str]) -> list[tuple[Any, ...]]:
    return [tuple(row[key] for key in keys) for row in rows]


def _shown(expected: Rows, actual: Rows, missing: Rows, extra: Rows) -> str:
    return (
        f"{len(expected)} rows without filters, {len(actual)} with them; "
        f"missing ({len(missing)}): {[tuple(m) for m in missing[:_SHOWN]]}, "
        f"extra ({len(extra)}): {[tuple(e) for e in extra[:_SHOWN]]}"
    )
