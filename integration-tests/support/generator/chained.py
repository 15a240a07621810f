"""Statements in which filters narrow the build sides of others, and in which cached plans have filters.

The large table is joined with groups of a middle table, and these with other groups: the filter of the
inner join narrows the build side of the outer one. Adaptive execution may plan one of the two anew without
the other. Other statements read a cached result of such joins beside the joins themselves; the cached plan
may know fewer files of a table than the query around it.
"""

from __future__ import annotations

import random
from dataclasses import replace

from . import replanned
from .data import Table
from .model import Cte, Item, Join, Select, SetOperation, Source, Statement, Subquery


def statement(r: random.Random, tables: list[Table]) -> Statement:
    """A random statement whose rows SQL fixes. It needs the function of `joins.register_slow`.

    Args:
        tables: with older views, of `data.older`.
    """
    return _Maker(r, tables).statement()


class _Maker(replanned.Maker):
    def __init__(self, r: random.Random, tables: list[Table]) -> None:
        now = [t for t in tables if not t.is_cached and not t.is_older]
        super().__init__(r, now)
        self.older = {t.name: t for t in tables if t.is_older}
        self.middle = r.choice([t for t in now if t.rows >= 100 and t is not self.facts])
        self.last = r.choice([t for t in now if 3 <= t.rows <= 300 and t is not self.middle])
        self.is_chain = r.random() < 0.7
        self.chance, self.seed = r, r.random()

    def star(self) -> tuple[Select, str]:
        """Mostly the same joins each time, but for the conditions on groups: so Spark shares much of them."""
        if self.chance.random() < 0.2:
            return super().star()
        self.r = random.Random(self.seed)
        try:
            return super().star()
        finally:
            self.r = self.chance

    def having(self) -> str:
        """Another condition each time."""
        self.r, used = self.chance, self.r
        try:
            return super().having()
        finally:
            self.r = used

    def keys(self) -> Source:
        """Groups of the middle table that are left by a join with the groups."""
        if not self.is_chain or self.r.random() < 0.1:
            return self.groups()
        r = self.r
        alias, outer, inner, last = self.alias("k"), self.alias("o"), self.alias("m"), self.alias("l")
        late = Select([Item(f"{last}.{self.y}", "y")], Source(last, self.last.name))
        late.where = [f"slow({last}.id, {self.seconds}) >= 0"]
        middle = Select([Item(f"{inner}.{self.x}", "x")], Source(inner, self.middle.name))
        middle.hints = [f"BROADCAST({last}s)", f"DYNAMIC_FILTER({inner})"]
        middle.joins = [Join("JOIN", Source(f"{last}s", select=late), [f"{inner}.{self.y} = {last}s.y"])]
        middle.group = [f"{inner}.{self.x}"]
        groups = self.groups()
        select = Select([Item(f"{outer}.x", "x")], Source(outer, select=middle))
        kind = r.choice(("JOIN", "JOIN", "LEFT SEMI JOIN"))
        select.joins = [Join(kind, groups, [f"{outer}.x = {groups.alias}.x"])]
        return Source(alias, select=select)

    def statement(self) -> Statement:
        """The joins several times in one statement, or beside what the cache has of them."""
        r = self.r
        return r.choices((self.values, self.union, self._beside), (3, 1, 3))[0]()

    def _beside(self) -> Statement:
        """Rows of the joins, and rows of a cached result of the same joins."""
        r, grouped, middle = self.r, self.grouped, self.middle
        old = r.random() < 0.7

        def rows(is_old: bool) -> Select:
            if is_old:
                self.grouped = replace(grouped, table=self._older(grouped.table))
                self.middle = self._older(middle)
            made = self.rows()[0]
            self.grouped, self.middle = grouped, middle
            return made

        cached_is_old = r.random() < 0.7
        kept, now = rows(old and cached_is_old), rows(old and not cached_is_old)
        alias = self.alias("q")
        read = Select([Item(f"{alias}.{c}", c) for c in ("c0", "c1")], Source(alias, "kept"))
        if r.random() < 0.7:
            kind = r.choice(("UNION ALL", "EXCEPT", "INTERSECT"))
            body: Select | SetOperation = SetOperation(kind, [now, read] if r.random() < 0.5 else [read, now])
        else:
            read.where = [Subquery(f"{alias}.c0 {r.choice(('IN', 'NOT IN'))}", _first(now))]
            body = read
        return Statement(body, kept=[Cte("kept", kept)])

    def _older(self, table: Table) -> Table:
        return self.older.get(f"older_{table.name}", table)


def _first(rows: Select) -> Select:
    return replace(rows, items=rows.items[:1])
