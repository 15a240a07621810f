"""Statements that read one result in several places and narrow it in each of them in another way.

The result has a name (WITH): groups, unions, windows or joins over a large table, whose exchanges Spark makes
once for all places. A small table that keeps few of its rows may make it worth a copy in one place, or for
the filter to have the keys of one place only, while the other places use the same exchange.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from . import predicates
from .data import Table
from .kinds import PLAIN_KEYS
from .model import Cte, Item, Join, Select, SetOperation, Source, Statement, Subquery
from .predicates import Visible
from .relations import SIDE_HINTS, Maker

# What all results and all uses of them have: keys, a number, and a column of few values.
_NAMES = ("x", "y", "v", "g")


@dataclass(frozen=True)
class _Small:
    """A small table with a condition that keeps few of its rows, before it has an alias."""

    table: Table
    where: str
    grouped: bool


def statement(r: random.Random, tables: list[Table]) -> Statement:
    """A random statement whose rows SQL fixes."""
    return _Maker(r, [t for t in tables if not t.is_cached]).statement()


class _Maker(Maker):
    def __init__(self, r: random.Random, tables: list[Table]) -> None:
        super().__init__(r, tables)
        self.x, self.y = r.sample(PLAIN_KEYS, 2)
        # The same few again and again: equal build sides are what places have in common.
        self.dimensions = [self._dimension() for _ in range(r.choice((1, 2, 2, 3)))]
        self.hinted = r.random() < 0.6

    def _dimension(self) -> _Small:
        r = self.r
        table = r.choice(self.small)
        v = Visible.of(table, "{}")
        key = f"{{}}.{self.x}"
        literal = table.columns[self.x].literal(table.columns[self.x].value(r.randrange(300)))
        where = r.choice(
            (
                *(f"{{}}.g = {r.randrange(10)}", f"{{}}.g = {r.randrange(10)} AND {{}}.p = {r.randrange(5)}"),
                *(f"{{}}.id = {r.randrange(max(table.rows, 1))}", f"{key} = {literal}"),
                *(predicates.where(r, v, selective=True), predicates.where(r, v, selective=True)),
            )
        )
        return _Small(table, where, grouped=r.random() < 0.15)

    # ---- results that are read in several places

    def _rows(self) -> Select:
        r = self.r
        table = r.choice(self.large)
        v = Visible.of(table, self.alias())
        names = zip((self.x, self.y, "id", "g"), _NAMES, strict=True)
        select = Select([Item(f"{v.alias}.{n}", to) for n, to in names], Source(v.alias, table.name))
        if r.random() < 0.4:
            select.where = [predicates.where(r, v, selective=False)]
        if self.hinted:
            select.hints = [f"DYNAMIC_FILTER({v.alias})"]
        return select

    def _result(self, before: list[str]) -> Select | SetOperation:
        """Of a large table, or of a result that has a name already."""
        r, alias = self.r, self.alias()
        again = before and r.random() < 0.7
        source = Source(alias, r.choice(before)) if again else Source(alias, select=self._rows())
        x, y, v, g = (f"{alias}.{n}" for n in _NAMES)
        made = {"x": x, "y": y, "v": v, "g": g}
        select = Select([], source)
        how = r.choice(
            ("plain", "plain", "sums", "counts", "distinct", "moved", "joined", "window", "union", "rollup")
        )
        if how in ("sums", "rollup"):
            made |= {"v": f"sum({v})", "g": f"max({g})"}
            select.group, select.rollup = [x, y], how == "rollup"
        elif how == "counts":
            made |= {"y": f"max({y})", "v": "count(*)", "g": f"min({g})"}
            select.group = [x]
        elif how == "distinct":
            made["v"] = f"{v} % 5"
            select.distinct = True
        elif how == "moved":
            select.hints = [r.choice((f"REPARTITION(3, {x})", "REBALANCE", "REPARTITION(4)"))]
        elif how == "window":
            made["v"] = f"sum({v}) OVER (PARTITION BY {x})"
        elif how == "joined":
            self._join(alias, r.choice(("JOIN", "LEFT OUTER JOIN")), select)
        select.items = [Item(text, name) for name, text in made.items()]
        return SetOperation("UNION ALL", [select, self._rows()]) if how == "union" else select

    # ---- uses of a result

    def _join(self, alias: str, kind: str, select: Select) -> None:
        """With one of the small tables; its condition holds where the kind of join lets it."""
        r, small, other = self.r, self.r.choice(self.dimensions), self.alias()
        source = Source(other, small.table.name)
        where = small.where.replace("{}", other)
        keys = [("x", self.x), ("y", self.y)]
        if r.random() < 0.15:
            keys.reverse()
        (name, by), (second, second_by) = keys
        if small.grouped:
            inner = self.alias()
            columns = (f"{inner}.{self.x}", f"{inner}.{self.y}")
            of = Select([Item(columns[0], self.x), Item(columns[1], self.y)], Source(inner, small.table.name))
            of.where, of.group = [small.where.replace("{}", inner)], list(columns)
            source = Source(other, select=of)
        join = Join(kind, source, [f"{alias}.{name} {r.choice(('=', '=', '=', '=', '<=>'))} {other}.{by}"])
        if r.random() < 0.15:
            join.on.append(f"{alias}.{second} = {other}.{second_by}")
        if not small.grouped:
            (select.where if kind == "JOIN" else join.on).append(where)
        if r.random() < 0.2:
            select.hints.append(f"{r.choice(SIDE_HINTS)}({other})")
        select.joins.append(join)

    def _use(self, name: str) -> Select:
        """One place where a result is read: its columns `x` and `v`."""
        r, alias = self.r, self.alias()
        select = Select([Item(f"{alias}.x", "x"), Item(f"{alias}.v", "v")], Source(alias, name))
        how = r.choice(("join",) * 8 + ("twice", "semi", "anti", "left", "in", "groups", "itself", "whole"))
        kinds = {"semi": "LEFT SEMI JOIN", "anti": "LEFT ANTI JOIN", "left": "LEFT OUTER JOIN"}
        if how not in ("in", "whole"):
            self._join(alias, kinds.get(how, "JOIN"), select)
        if how == "twice":
            self._join(alias, "JOIN", select)
        elif how == "in":
            small, other = r.choice(self.dimensions), self.alias()
            inner = Select([Item(f"{other}.{self.x}", "x")], Source(other, small.table.name))
            inner.where = [small.where.replace("{}", other)]
            select.where.append(Subquery(f"{alias}.x IN", inner))
        elif how == "groups":
            select.items[1] = Item(f"sum({alias}.v)", "v")
            select.group = [f"{alias}.x"]
        elif how == "itself":
            again = self.alias()
            select.joins.append(Join("JOIN", Source(again, name), [f"{alias}.x = {again}.x"]))
            select.items[1] = Item(f"{again}.v", "v")
        return select

    # ---- statements

    def _body(self, names: list[str]) -> Select | SetOperation:
        r = self.r
        name = r.choice(names[-2:])

        def use() -> Select:
            return self._use(name if r.random() < 0.9 else r.choice(names))

        how = r.choice(("union",) * 4 + ("joined", "extreme", "in", "set", "exists", "around"))
        if how == "union":
            return SetOperation("UNION ALL", [use() for _ in range(r.choice((2, 2, 3, 4)))])
        if how == "set":
            return SetOperation(r.choice(("INTERSECT", "EXCEPT", "UNION")), [use(), use()])
        alias, other = self.alias(), self.alias()
        select = Select([Item(f"{alias}.x", "x"), Item(f"{alias}.v", "v")], Source(alias, select=use()))
        if how in ("joined", "around"):
            kind = r.choice(("JOIN", "JOIN", "FULL OUTER JOIN", "LEFT OUTER JOIN"))
            select.joins = [Join(kind, Source(other, select=use()), [f"{alias}.x = {other}.x"])]
            select.items[1] = Item(f"{other}.v", "v")
            if how == "around":
                select.base = Source(alias, name)
        else:
            wanted = Select([], Source(other, select=use()))
            column = "v" if how == "extreme" else "x"
            select.where = [self.compared(f"{alias}.{column}", wanted, f"{other}.{column}", how)]
            if how == "exists":
                wanted.where = [f"{other}.x = {alias}.x"]
        return select

    def statement(self) -> Statement:
        r = self.r
        ctes: list[Cte] = []
        for i in range(r.choice((1, 1, 1, 2, 2, 3))):
            ctes.append(Cte(f"c{i}", self._result([c.name for c in ctes])))
        body = self._body([c.name for c in ctes])
        alias, text = self.alias(), any(t.columns[self.x].as_text for t in self.large)
        x, v = f"{alias}.x", f"{alias}.v"
        whole = Select([Item(x, "x", text), Item(v, "v")], Source(alias, select=body))
        if r.random() < 0.7:
            whole.items[1:] = [Item("count(*)", "n"), Item(f"sum({v})", "v"), Item(f"max({v})", "m")]
            whole.group = [x]
        return Statement(whole, ctes)
