"""The joins that are measured: what is joined, how, and what an oracle would add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import join_tables
import star_tables
import tpch
from join_tables import SMALL_KEPT
from runs import ORACLE, STOCK

CLUSTERED, STAR, USELESS, TAP = PARTS = ("clustered", "star", "useless", "tap")
TPCH = "tpch"
MILLION = 1_000_000
NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}

BLOOM, OURS = "bloom", "ours"
VARIANTS = (STOCK, ORACLE, BLOOM, OURS)

#: Spark's own runtime filter, applied whatever the size of the probe side (Spark's default asks for 10 GB).
BLOOM_CONFS = {
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
}
BLOOM_BUILD = "spark.sql.optimizer.runtime.bloomFilter.creationSideThreshold"  # a larger one gets none

#: How Spark is told to join, by hint and setting.
STRATEGIES = {"broadcast": {}, "merge": NO_BROADCAST, "shuffle_hash": NO_BROADCAST}

CLUSTERED_SQL = """
SELECT /*+ {hint}(s) */ count(*), sum(quantity), sum(price), sum(cost), max(score), sum(visits), min(day),
  max(city), max(ticket)
FROM big b JOIN small s ON b.k = s.k
WHERE s.rank < {kept}{bound}
"""
STAR_SQL = """
SELECT /*+ {hint}(d, c, p) */ d.month, p.brand, count(*), sum(quantity), sum(amount), max(discount),
  max(ticket)
FROM fact f JOIN dates d ON f.date_id = d.date_id
  JOIN customers c ON f.customer_id = c.customer_id
  JOIN products p ON f.product_id = p.product_id
WHERE d.year = 2021 AND d.quarter = 3 AND c.segment = 3 AND p.category = 7{bound}
GROUP BY d.month, p.brand
"""
USELESS_SQL = {
    "all keys": (
        "SELECT /*+ {hint}(s) */ count(*), sum(price), max(ticket) FROM big b JOIN keys s ON b.k = s.k "
        "WHERE s.active >= 0",
        "one key for ten rows, all present; both sides are in the order of the key",
    ),
    "all customers": (
        "SELECT /*+ {hint}(s) */ count(*), sum(amount), max(ticket) FROM fact f "
        "JOIN customers s ON f.customer_id = s.customer_id WHERE s.active >= 0",
        "500,000 keys, all present, in no order",
    ),
    "all products": (
        "SELECT /*+ {hint}(s) */ count(*), sum(amount), max(ticket) FROM fact f "
        "JOIN products s ON f.product_id = s.product_id WHERE s.active >= 0",
        "20,000 keys, all present, in no order",
    ),
}
TAP_SQL = """
SELECT /*+ MERGE(s){force} */ count(*), sum(r.v), max(s.v)
FROM refs r JOIN scattered s ON r.k = s.k
WHERE s.v >= 0
"""
TAP_HINTS = {
    "as planned": ("", "the planner decides whether there is a tap"),
    "by hint": (", DYNAMIC_FILTER(r)", "a filter is asked for: there is a tap, if there can be one at all"),
}


@dataclass(frozen=True)
class Case:
    """One query on tables of one size. ``size`` is in millions of rows, for TPC-H the scale factor."""

    part: str
    name: str
    size: float
    sql: str
    views: Mapping[str, Path]
    oracle: str | None = None
    confs: Mapping[str, str] = field(default_factory=dict)
    why: str = ""

    @property
    def label(self) -> str:
        """What the tables are."""
        return f"SF {self.size:g}" if self.part == TPCH else f"{self.size:g}M rows"

    @property
    def title(self) -> str:
        """For progress and problems."""
        return f"{self.part}, {self.name}, {self.label}"

    @property
    def variants(self) -> tuple[str, ...]:
        """Those that it can be measured in."""
        without = {ORACLE} if self.oracle is None else set()
        without |= {BLOOM} if self.part in (USELESS, TAP) else set()
        return tuple(variant for variant in VARIANTS if variant not in without)

    def text(self, variant: str) -> str:
        """The query as ``variant`` has it."""
        return self.oracle if variant == ORACLE and self.oracle else self.sql

    def settings(self, variant: str) -> dict[str, str]:
        """What ``variant`` runs with, beside the master switch."""
        return {**self.confs, **(BLOOM_CONFS if variant == BLOOM else {})}


def clustered(data: Path, rows: int, strategies: Sequence[str]) -> list[Case]:
    """The small table joined to ``rows`` rows that are clustered on the key."""
    views = {"big": join_tables.big(data, rows), "small": join_tables.small(data, rows)}
    low, high = join_tables.kept_keys(views["small"])
    bound = f" AND b.k BETWEEN {low} AND {high}"
    return list(_cases(CLUSTERED, rows, CLUSTERED_SQL, bound, views, strategies))


def star(data: Path, rows: int, strategies: Sequence[str]) -> list[Case]:
    """The star join. Its oracle knows the dates and the products; there are too many customers to write."""
    dimensions = star_tables.dimensions(data)
    days = star_tables.kept_ids(dimensions["dates"], "date_id", [("year", "==", 2021), ("quarter", "==", 3)])
    products = star_tables.kept_ids(dimensions["products"], "product_id", [("category", "==", 7)])
    bound = f" AND f.date_id BETWEEN {days[0]} AND {days[-1]}"
    bound += f" AND f.product_id IN ({', '.join(map(str, products))})"
    views = {"fact": star_tables.fact(data, rows), **dimensions}
    return list(_cases(STAR, rows, STAR_SQL, bound, views, strategies))


def useless(data: Path, rows: int, strategies: Sequence[str]) -> list[Case]:
    """Joins in which every row of the probe side has a match, though the build side looks filtered."""
    views = {
        "big": join_tables.big(data, rows),
        "keys": join_tables.keys(data, rows),
        "fact": star_tables.fact(data, rows),
        **star_tables.dimensions(data),
    }
    return [
        Case(
            USELESS,
            f"{name}, {strategy}",
            rows / MILLION,
            text.format(hint=strategy.upper()),
            views,
            confs=STRATEGIES[strategy],
            why=why,
        )
        for name, (text, why) in USELESS_SQL.items()
        for strategy in strategies
    ]


def tap(data: Path, keys: int) -> list[Case]:
    """A shuffled join with ``keys`` distinct keys on its build side, each with two rows on the other."""
    views = {"scattered": star_tables.scattered(data, keys), "refs": star_tables.references(data, keys)}
    return [
        Case(
            TAP, name, keys / MILLION, TAP_SQL.format(force=force).strip(), views, confs=NO_BROADCAST, why=why
        )
        for name, (force, why) in TAP_HINTS.items()
    ]


def all_of_tpch(data: Path, scale: float) -> list[Case]:
    """TPC-H's queries at scale factor ``scale``."""
    views = tpch.tables(data, scale)
    return [Case(TPCH, name, scale, sql, views) for name, sql in tpch.queries(scale).items()]


def _cases(
    part: str, rows: int, text: str, bound: str, views: Mapping[str, Path], strategies: Sequence[str]
) -> Iterator[Case]:
    for strategy in strategies:
        stock, oracle = (
            text.format(hint=strategy.upper(), kept=SMALL_KEPT, bound=added).strip() for added in ("", bound)
        )
        yield Case(part, strategy, rows / MILLION, stock, views, oracle, STRATEGIES[strategy])
