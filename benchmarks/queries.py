"""The TopKs that are measured, and what makes two answers to one of them equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import layouts
from case import Case, Variant, twice
from results import FIRST, ORACLE, REPEATED, STOCK

LARGEST_TOPK_LIMIT = 100_000  # the default of spark.dynamicFilters.topk.maxLimit
UNPRUNABLE_LIMIT = layouts.UNPRUNABLE_ROWS


@dataclass(frozen=True)
class Query:
    """A query over ``{table}``; ``{bound}`` is where the oracle's perfect predicate goes."""

    name: str
    text: str
    keys: tuple[str, ...]
    limit: int
    bound: str | None = None  # the oracle's predicate on the last row's key, written {k}
    why: str = ""

    def sql(self, table: str) -> str:
        """The query as a user writes it."""
        return self.text.format(table=table, bound="")

    def oracle_sql(self, table: str, answer: Sequence[Any]) -> str:
        """The query with the best predicate anyone could add who knew ``answer`` beforehand."""
        if self.bound is None:
            raise ValueError(f"{self.name} has no oracle")
        k = _literal(answer[-1][self.keys[0]])
        return self.text.format(table=table, bound=self.bound.format(k=k))

    def difference(self, expected: Sequence[Any], actual: Sequence[Any]) -> str | None:
        """Why ``actual`` is not an answer equal to ``expected``, or None where it is.

        SQL leaves open which of the rows that tie for the last place are returned: of those only keys count.
        """
        expected_keys, actual_keys = self._keys(expected), self._keys(actual)
        if expected_keys != actual_keys:
            return f"{self.name}: the sort keys differ"
        full = len(expected) == self.limit  # else nothing was cut off, and no tie is free
        last = expected_keys[-1] if full and expected_keys else None
        decided = [
            Counter(tuple(row) for row, key in zip(rows, expected_keys, strict=True) if key != last)
            for rows in (expected, actual)
        ]
        return None if decided[0] == decided[1] else f"{self.name}: the keys agree but the rows differ"

    def _keys(self, rows: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [tuple(row[key] for key in self.keys) for row in rows]


def _literal(value: Any) -> str:
    # Not a TIMESTAMP literal: its meaning would depend on the session's time zone.
    return f"timestamp_seconds({int(value.timestamp())})" if isinstance(value, datetime) else str(value)


#: Measured at every size and layout: stock, oracle, first run, repeated run.
SCALING = (
    Query(
        "q23",
        "SELECT * FROM {table} WHERE URL LIKE '%google%'{bound} ORDER BY EventTime LIMIT 10",
        ("EventTime",),
        10,
        " AND EventTime <= {k}",
        "query 23 of ClickBench",
    ),
    Query(
        "latest1000",
        "SELECT * FROM {table}{bound} ORDER BY EventTime DESC LIMIT 1000",
        ("EventTime",),
        1000,
        " WHERE EventTime >= {k}",
        "the newest events: the rows wanted arrive last",
    ),
)

#: Measured against stock only, in pairs. A filter helps little or not at all here: what counts is its cost.
USELESS = (
    Query(
        "random_top10",
        "SELECT * FROM {table} ORDER BY RandomKey LIMIT 10",
        ("RandomKey",),
        10,
        why="random order, few rows kept: rows can be dropped, row groups hardly",
    ),
    Query(
        "random_narrow",
        "SELECT RandomKey, WatchID FROM {table} ORDER BY RandomKey LIMIT 10",
        ("RandomKey",),
        10,
        why="random order, no wide column whose reading could be saved",
    ),
    Query(
        "random_many",
        "SELECT RandomKey, WatchID, URL FROM {table} ORDER BY RandomKey LIMIT 20000",
        ("RandomKey",),
        20_000,
        why="random order, so many rows kept that every page holds some",
    ),
    Query(
        "random_two_keys",
        "SELECT * FROM {table} ORDER BY IsMobile, RandomKey LIMIT 10",
        ("IsMobile", "RandomKey"),
        10,
        why="the first key has two values: a bound on it alone lets most rows pass",
    ),
    Query(
        "worst_order",
        "SELECT * FROM {table} ORDER BY WorstKey LIMIT 10",
        ("WorstKey",),
        10,
        why="every row is better than all before it; statistics can turn the order round",
    ),
    Query(
        "never_full",
        "SELECT RandomKey, URL FROM {table} WHERE RandomKey % 1000 = 7 ORDER BY RandomKey LIMIT 100000",
        ("RandomKey",),
        LARGEST_TOPK_LIMIT,
        why="fewer rows match than the limit asks for: there is never a bound",
    ),
    Query(
        "over_limit",
        "SELECT RandomKey FROM {table} ORDER BY RandomKey LIMIT 100001",
        ("RandomKey",),
        LARGEST_TOPK_LIMIT + 1,
        why="a limit above topk.maxLimit: no filter at all",
    ),
)

#: The same, over the table in which nothing can be pruned (layouts.unprunable_table).
UNPRUNABLE = (
    Query(
        "unprunable",
        "SELECT * FROM {table} ORDER BY WorstKey LIMIT 10000",
        ("WorstKey",),
        UNPRUNABLE_LIMIT,
        why="every row passes the bound of its time, and no statistics say so beforehand",
    ),
    Query(
        "unprunable_narrow",
        "SELECT WorstKey, WatchID FROM {table} ORDER BY WorstKey LIMIT 10000",
        ("WorstKey",),
        UNPRUNABLE_LIMIT,
        why="the same with narrow rows: the share of the filter's own work is largest",
    ),
)


def scaling(layout: str, millions: int) -> Iterator[Case]:
    """Queries that a filter helps; with the perfect predicate, and with nothing learned of the files."""
    for query in SCALING:
        text = query.sql("hits")
        variants = {
            STOCK: Variant(text),
            ORACLE: Variant(partial(query.oracle_sql, "hits")),
            FIRST: Variant(text, filters=True, forgets=True),
            REPEATED: Variant(text, filters=True),
        }
        yield _case("scaling", query, f"{layout}, {millions:g}M rows", variants, layout, millions)


def useless(layout: str, millions: int, part: str = "of little use") -> Iterator[Case]:
    """Queries that a filter helps little or not at all: what counts is its cost."""
    for query in USELESS:
        yield _case(part, query, f"{layout}, {millions:g}M rows", twice(query.sql("hits")), layout, millions)


def unprunable() -> Iterator[Case]:
    """Queries over a table in which nothing can be pruned."""
    for query in UNPRUNABLE:
        case = _case("of little use", query, "unprunable", twice(query.sql("hits")))
        # Two tasks would be a second chance: the better rows of one make the other's prunable.
        yield replace(case, confs={"spark.sql.files.minPartitionNum": "1"})


def _case(
    part: str,
    query: Query,
    table: str,
    variants: Mapping[str, Variant],
    layout: str | None = None,
    millions: int = 0,
) -> Case:
    data = layouts.DEFAULT_DATA
    make = (
        partial(layouts.table, data, layout, millions) if layout else partial(layouts.unprunable_table, data)
    )
    views = {"hits": make}
    return Case(part, query.name, variants, table, query.why, views, difference=query.difference)
