"""The joins that are measured: what is joined, how, and what an oracle would add."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import join_tables
import star_tables
from case import Case, twice, variants
from datafiles import DATA
from join_tables import SMALL_KEPT

JOINS = DATA / "joins"
MILLION = 1_000_000
NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}

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
#: The rows of the clustered join by a key that the join computes.
COMPUTED_SQL = CLUSTERED_SQL.replace("b.k = s.k", "b.k DIV 10 = s.k DIV 10")
#: The keys from the least kept one on, a thousandth of them.
RANGE_SQL = """
SELECT /*+ BROADCAST(s) */ count(*), sum(quantity), sum(price), sum(cost), max(score), sum(visits), min(day),
  max(city), max(ticket)
FROM big b JOIN (SELECT min(k) AS lo, min(k) + {span} AS hi FROM small WHERE rank < {kept}) s
  ON b.k >= s.lo AND b.k < s.hi{bound}
"""
#: The newest rows of the large table with what another large table knows of them.
OUTER_SQL = """
SELECT b.*, s.active FROM big b LEFT JOIN keys s ON b.k = s.k{bound} ORDER BY b.k DESC LIMIT 10
"""
#: The least and the greatest key of the small table are a subquery's values, or literals.
VALUES_SQL = """
SELECT count(*), sum(quantity), sum(price), sum(cost), max(score), sum(visits), min(day), max(city),
  max(ticket)
FROM big b
WHERE b.k BETWEEN {low} AND {high}
"""
VALUE_SQL = f"(SELECT {{}}(k) FROM small WHERE rank < {SMALL_KEPT})"
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
SHORT_SQL = {
    "short TopK": "SELECT k, score FROM big WHERE k < 100 ORDER BY score LIMIT 5",
    "short join": "SELECT count(*) FROM small s JOIN small t ON s.k = t.k WHERE t.rank < 10",
}
TAP_HINTS = {
    "as planned": ("", "the planner decides whether there is a tap"),
    "by hint": (", DYNAMIC_FILTER(r)", "a filter is asked for: there is a tap, if there can be one at all"),
}


def clustered(millions: float) -> Iterator[Case]:
    """The small table joined to rows that are clustered on the key."""
    yield from _by_small("clustered", CLUSTERED_SQL, millions)


def computed(millions: float) -> Iterator[Case]:
    """The same by a key that is computed on both sides: ten keys give one."""
    yield from _by_small("computed", COMPUTED_SQL, millions, step=10)


def _by_small(part: str, sql: str, millions: float, step: int = 1) -> Iterator[Case]:
    """Joins of the small and the large table; `step` keys of the tables are one key of the join."""
    rows = int(millions * MILLION)
    small = partial(join_tables.small, JOINS, rows)

    def bound() -> str:
        low, high = (key // step * step for key in join_tables.kept_keys(small()))
        return f" AND b.k BETWEEN {low} AND {high + step - 1}"

    views = {"big": partial(join_tables.big, JOINS, rows), "small": small}
    yield from _compared(part, f"{millions:g}M rows", sql, bound, views)


def ranges(millions: float) -> Iterator[Case]:
    """The large table joined to one interval of a thousandth of its keys, without an equal key."""
    rows = int(millions * MILLION)
    small = partial(join_tables.small, JOINS, rows)
    span = max(1, rows // join_tables.ROWS_A_KEY // 1_000)
    text = partial(RANGE_SQL.format, span=span, kept=SMALL_KEPT)

    def oracle(_: object) -> str:
        low, _high = join_tables.kept_keys(small())
        return text(bound=f" AND b.k BETWEEN {low} AND {low + span - 1}")

    views = {"big": partial(join_tables.big, JOINS, rows), "small": small}
    yield Case("ranges", "one interval", variants(text(bound=""), oracle), f"{millions:g}M rows", views=views)


def outer(millions: float) -> Iterator[Case]:
    """A TopK over a merge join that keeps all rows of the large table."""
    rows = int(millions * MILLION)
    views = {"big": partial(join_tables.big, JOINS, rows), "keys": partial(join_tables.keys, JOINS, rows)}
    newest = (rows - 1) // join_tables.ROWS_A_KEY
    oracle = OUTER_SQL.format(bound=f" WHERE b.k >= {newest}")
    sql = variants(OUTER_SQL.format(bound=""), oracle)
    yield Case("outer", "TopK over a left join", sql, f"{millions:g}M rows", views=views, confs=NO_BROADCAST)


def values(millions: float) -> Iterator[Case]:
    """The same rows by values of subqueries; the oracle has them as literals."""
    rows = int(millions * MILLION)
    small = partial(join_tables.small, JOINS, rows)

    def oracle(_: object) -> str:
        low, high = join_tables.kept_keys(small())
        return VALUES_SQL.format(low=low, high=high)

    text = VALUES_SQL.format(low=VALUE_SQL.format("min"), high=VALUE_SQL.format("max"))
    views = {"big": partial(join_tables.big, JOINS, rows), "small": small}
    yield Case("subquery", "BETWEEN", variants(text, oracle), f"{millions:g}M rows", views=views)


def star(millions: float) -> Iterator[Case]:
    """The star join. Its oracle knows the dates and the products; there are too many customers to write."""

    def bound() -> str:
        tables = star_tables.dimensions(JOINS)
        days = star_tables.kept_ids(tables["dates"], "date_id", [("year", "==", 2021), ("quarter", "==", 3)])
        products = star_tables.kept_ids(tables["products"], "product_id", [("category", "==", 7)])
        listed = ", ".join(map(str, products))
        return f" AND f.date_id BETWEEN {days[0]} AND {days[-1]} AND f.product_id IN ({listed})"

    views = {"fact": partial(star_tables.fact, JOINS, int(millions * MILLION)), **_dimensions()}
    yield from _compared("star", f"{millions:g}M rows", STAR_SQL, bound, views)


def useless(millions: float) -> Iterator[Case]:
    """Joins in which every row of the probe side has a match, though the build side looks filtered."""
    rows = int(millions * MILLION)
    views = {
        "big": partial(join_tables.big, JOINS, rows),
        "keys": partial(join_tables.keys, JOINS, rows),
        "fact": partial(star_tables.fact, JOINS, rows),
        **_dimensions(),
    }
    for name, (text, why) in USELESS_SQL.items():
        for strategy, confs in STRATEGIES.items():
            sql = twice(text.format(hint=strategy.upper()))
            yield Case("useless", f"{name}, {strategy}", sql, f"{millions:g}M rows", why, views, confs)


def tap(millions: float) -> Iterator[Case]:
    """A shuffled join with distinct keys on its build side, each with two rows on the other."""
    keys = int(millions * MILLION)
    views = {
        "scattered": partial(star_tables.scattered, JOINS, keys),
        "refs": partial(star_tables.references, JOINS, keys),
    }
    for name, (force, why) in TAP_HINTS.items():
        sql = twice(TAP_SQL.format(force=force))
        yield Case("tap", name, sql, f"{millions:g}M keys", why, views, NO_BROADCAST)


def short(millions: float) -> Iterator[Case]:
    """Queries that take tens of milliseconds."""
    rows = int(millions * MILLION)
    views = {
        "big": partial(join_tables.big, JOINS, rows),
        "small": partial(join_tables.small, JOINS, rows),
    }
    for name, text in SHORT_SQL.items():
        yield Case("short", name, twice(text), f"{millions:g}M rows", views=views, repeats=10)


def _dimensions() -> dict[str, Callable[[], Path]]:
    names = ("dates", "customers", "products")
    return {name: partial(_dimension, name) for name in names}


def _dimension(name: str) -> Path:
    return star_tables.dimensions(JOINS)[name]


def _compared(
    part: str, table: str, text: str, bound: Callable[[], str], views: Mapping[str, Callable[[], Path]]
) -> Iterator[Case]:
    for strategy, confs in STRATEGIES.items():

        def sql(added: str = "", strategy: str = strategy) -> str:
            return text.format(hint=strategy.upper(), kept=SMALL_KEPT, bound=added).strip()

        ways = variants(sql(), lambda _, sql=sql: sql(bound()), bloom=True)
        yield Case(part, strategy, ways, table, views=views, confs=confs)
