"""What the tests assert again and again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

from spark_dynamic_filters.testing import SameResult

#: The fixture `assert_same_result`.
Check = Callable[..., SameResult]

# Direction and place of nulls, as in ORDER BY.
ORDERS = ("ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST")


def cases(names: Iterable[str], everywhere: Collection[str]) -> list[Any]:
    """Parameters for a test: those of `everywhere` run in all modes, the others in the classic mode only."""
    return [
        name if name in everywhere else pytest.param(name, marks=pytest.mark.exhaustive) for name in names
    ]


def assert_row_groups_pruned(result: SameResult) -> None:
    """Whole row groups were never read."""
    skipped = any(s["row_groups_pruned"] > 0 or s["files_pruned"] > 0 for s in result.scans)
    assert skipped, f"no row group was skipped:\n{result.analysis}"


def assert_rejected(result: SameResult, *words: str, producer: str = "topk") -> None:
    """The planner considered a filter, made none, and says why with all of `words`."""
    filters = [f for f in result.filters if f["producer"] == producer]
    assert not any(f["generation"] for f in filters), f"a filter was built:\n{result.analysis}"
    reasons = [f["reason"] for f in filters if f["state"] == "disabled"]
    assert reasons, f"no reason is given:\n{result.analysis}"
    assert contains_all(reasons[0], words), f"the reason is {reasons[0]!r}, expected {words}"


def contains_all(text: str, words: Iterable[str]) -> bool:
    """Whether all words are in the text, in upper or lower case."""
    return all(word.lower() in text.lower() for word in words)
