"""Statements whose build sides compute their keys: by casts and arithmetic, above and below an exchange, by
groups, in branches of a union, and from other joins.

What a filter has of a key must be what the join has of it: of its type there, of NULL, and of negative,
extreme and special values.
"""

from __future__ import annotations

import random

from . import predicates
from .data import Table
from .kinds import Kind
from .model import Item, Join, Select, SetOperation, Source, Statement
from .predicates import Visible

# By family of a column {y}, with another column {g} of the same table: what stays near its values. Where an
# end of a type would be an error, the result is NULL.
_WIDER = ("SMALLINT", "INT", "BIGINT", "BIGINT")
_EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "integer": (
        *(f"try_cast({{y}} AS {name})" for name in _WIDER),
        "try_add(try_add(CAST({y} AS BIGINT), CAST({g} AS BIGINT)), -{g})",
        "try_add(try_add(try_add({g}, {g}), CAST({y} AS BIGINT)), 3L)",
        "try_multiply(CAST({y} AS BIGINT), -1L)",
        "try_cast(try_subtract(0L, CAST({y} AS BIGINT)) AS INT)",
        "CASE WHEN {g} % 2 = 0 THEN {y} WHEN {g} > 6 THEN NULL ELSE {g} END",
        "coalesce({y}, {g}, -1)",
        "nullif({y}, 0)",
        "CAST({g} - 5 AS SMALLINT) + CAST({g} AS SMALLINT) + CAST(1 AS SMALLINT)",
        "({y} & -1)",
        "({y} | 0)",
        "aggregate(array({g}, 5), 0, (s, i) -> s + i - 3)",
        "greatest({y}, -{g})",
        "length(repeat('x', {g})) - 3",
    ),
    "float": (
        "CAST({y} AS DOUBLE)",
        "CAST({y} AS FLOAT)",
        "({y} + {g} + -{g})",
        "({g} + {y} + 1e16D + -1e16D)",
        "(-{y})",
        "nanvl({y}, -0.0D)",
        "(0.25D * {g} * {g})",
        "coalesce({y}, 0.0D)",
    ),
    "decimal": (
        "try_cast({y} AS DECIMAL(18, 4))",
        "try_cast({y} AS DECIMAL(38, 6))",
        "try_cast({y} AS DECIMAL(9, 2))",
        "try_add(try_cast({y} AS DECIMAL(20, 2)), CAST(0 AS DECIMAL(5, 2)))",
        "CAST({g} AS DECIMAL(7, 2)) / 4",
    ),
    "string": ("concat({y}, '')", "upper({y})", "substring({y}, 1, 5)", "lpad({g}, 5, '0')", "trim({y})"),
    "binary": ("concat({y}, X'')", "CAST(lpad({g}, 5, '0') AS BINARY)"),
    "date": ("date_add(DATE '2020-01-01', {g})", "coalesce({y}, DATE '2020-01-05')", "trunc({y}, 'MONTH')"),
    "TIMESTAMP": ("coalesce({y}, TIMESTAMP '2020-01-02 03:00:00')", "date_trunc('DAY', {y})"),
    "TIMESTAMP_NTZ": ("coalesce({y}, TIMESTAMP_NTZ '2020-01-02 03:00:00')", "nullif({y}, {y})"),
}
#: With it Spark brings sums of three into a canonical order, and not only those of thousands.
SETTINGS = {"spark.sql.analyzer.canonicalization.multiCommutativeOpMemoryOptThreshold": "1000"}

_AGGREGATES = ("min({y})", "max({y})", "count({y})", "try_cast(avg({y}) AS BIGINT)", "try_sum({y})")
_KINDS = ("JOIN",) * 6 + ("LEFT SEMI JOIN", "LEFT ANTI JOIN", "RIGHT OUTER JOIN", "LEFT OUTER JOIN")
_HINTS = ("", "", "BROADCAST", "MERGE", "SHUFFLE_HASH")


def statement(r: random.Random, tables: list[Table]) -> Statement:
    """A random statement whose rows SQL fixes."""
    return _Maker(r, tables).statement()


class _Maker:
    def __init__(self, r: random.Random, tables: list[Table]) -> None:
        self.r = r
        self.facts = r.choice([t for t in tables if t.is_large])
        self.others = [t for t in tables if t.rows >= 3 and t is not self.facts]
        self._aliases = 0

    def alias(self) -> str:
        self._aliases += 1
        return f"a{self._aliases}"

    def statement(self) -> Statement:
        """The large table, joined with one or two build sides by one or two keys each."""
        r = self.r
        fact = self.alias()
        v = Visible.of(self.facts, fact)
        names = [k for k in v.key_columns() if k != "k_boolean"]
        select = Select([], Source(fact, self.facts.name), hints=[f"DYNAMIC_FILTER({fact})"])
        shown = [f"{fact}.id"]
        for _ in range(r.choice((1, 1, 2))):
            keys = r.sample(names, r.choice((1, 1, 1, 2)))
            build, computed = self.build(keys)
            join = Join(r.choice(_KINDS), build)
            for i, key in enumerate(keys):
                side = f"{build.alias}.y{i}"
                if computed:
                    side = self._expression(key, side, build.alias)
                join.on.append(f"{fact}.{key} {r.choice(('=', '=', '=', '<=>'))} {side}")
            if r.random() < 0.2:
                join.on.append(f"{fact}.g >= {build.alias}.g")
            select.joins.append(join)
            if hint := r.choice(_HINTS):
                select.hints.append(f"{hint}({build.alias})")
            if "SEMI" not in join.kind and "ANTI" not in join.kind:
                shown.append(f"{build.alias}.g")
        if r.random() < 0.3:
            select.where = [predicates.where(r, v, selective=False)]
        if r.random() < 0.4:
            select.items = [Item("count(*)", "n"), *(Item(f"sum({c})", f"c{i}") for i, c in enumerate(shown))]
        else:
            select.items = [Item(c, f"c{i}") for i, c in enumerate(shown)]
        return Statement(select)

    def build(self, keys: list[str]) -> tuple[Source, bool]:
        """A build side with columns y0, y1 and g; and whether the join is to compute its keys of these."""
        r = self.r
        make = r.choice((self._plain, self._plain, self._joined, self._grouped, self._union, self._moved))
        # As the column is, or computed in the subquery; or above, in the condition of the join.
        above = r.random() < 0.35
        return Source(self.alias(), select=make(keys, computes=not above)), above

    def _part(self, keys: list[str], computes: bool, table: Table | None = None) -> Select:
        r = self.r
        table = table or r.choice(self.others)
        v = Visible.of(table, self.alias())
        items = [self._key(v, f"{v.alias}.{k}", k, i, computes) for i, k in enumerate(keys)]
        items.append(Item(f"{v.alias}.g", "g"))
        where = [predicates.where(r, v, selective=table.rows > 60)] if r.random() < 0.8 else []
        return Select(items, Source(v.alias, table.name), where=where)

    def _key(self, v: Visible, column: str, key: str, number: int, computes: bool) -> Item:
        text = column
        if computes and self.r.random() < 0.8:
            text = self._expression(key, column, v.alias)
        return Item(text, f"y{number}")

    def _expression(self, key: str, column: str, alias: str) -> str:
        """Something that the large table's key can be compared with, of a column and of `g` beside it."""
        family = self.facts.columns[key].family
        return self.r.choice(_EXPRESSIONS[family]).format(y=column, g=f"{alias}.g")

    def _plain(self, keys: list[str], computes: bool) -> Select:
        return self._part(keys, computes)

    def _joined(self, keys: list[str], computes: bool) -> Select:
        """Its key may be computed above the exchange of another join."""
        r = self.r
        select = self._part(keys, computes)
        table = r.choice(self.others)
        v = Visible.of(table, self.alias())
        mine = Visible(select.base.alias, self._columns(select.base.table), ("id",), 0)
        x, y = predicates.pair(r, mine, v)
        join = Join(r.choice(("JOIN", "JOIN", "LEFT SEMI JOIN")), Source(v.alias, table.name))
        join.on = [f"{mine.alias}.{x} = {v.alias}.{y}"]
        select.joins = [join]
        select.hints = [f"{r.choice(('MERGE', 'MERGE', 'BROADCAST'))}({v.alias})"]
        return select

    def _columns(self, name: str) -> dict[str, Kind]:
        return next(t.columns for t in self.others if t.name == name)

    def _grouped(self, keys: list[str], computes: bool) -> Select:
        r = self.r
        select = self._part(keys, computes)
        *made, g = select.items
        if r.random() < 0.35 and all(self.facts.columns[k].family == "integer" for k in keys):
            function = r.choice(_AGGREGATES)
            select.items = [Item(function.format(y=made[0].text), "y0"), *made[1:], Item(g.text, "g")]
            select.group = [g.text, *(i.text for i in made[1:])]
        else:
            select.group = [i.text for i in made]
            select.items = [*made, Item(f"CAST(count(*) AS {r.choice(('INT', 'BIGINT'))})", "g")]
        if r.random() < 0.4:
            select.having = [r.choice(("count(*) > 1", "max({g}) > 2", "avg({g}) > 2.5")).format(g=g.text)]
        return select

    def _union(self, keys: list[str], computes: bool) -> SetOperation:
        parts = [self._part(keys, computes) for _ in range(2)]
        return SetOperation(self.r.choice(("UNION ALL", "UNION")), parts)

    def _moved(self, keys: list[str], computes: bool) -> Select:
        """An exchange of its own below the projection."""
        inner = self._part(keys, computes=self.r.random() < 0.5)
        inner.hints = ["REPARTITION(3)"]
        alias = self.alias()
        items = []
        for i, key in enumerate(keys):
            text = f"{alias}.y{i}"
            if computes:
                text = self._expression(key, text, alias)
            items.append(Item(text, f"y{i}"))
        return Select([*items, Item(f"{alias}.g", "g")], Source(alias, select=inner))
