"""Statements whose joins adaptive execution plans anew while a scan waits for their filters.

A large table is joined with a grouped one, which is small enough for a broadcast once its rows are there, and
with one that comes late, so that the large table's scan waits for two filters. The same joins occur several
times, with another condition on the groups each time: their exchanges are equal, and what is above differs.

In a chain the large table is joined with groups of a middle table, and these with the other groups: the
filter of the inner join narrows the build side of the outer one. Adaptive execution may plan one of the two
anew without the other. Other statements read a cached result of such joins beside the joins themselves; the
cached plan may know fewer files of a table than the query around it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from . import predicates
from .data import Table
from .kinds import PLAIN_KEYS
from .model import Cte, Item, Join, Select, SetOperation, Source, Statement
from .predicates import Visible
from .relations import Maker

_SECONDS = ("0.0", "0.8", "0.8", "0.8")
_TESTS = ("count(*) > 0", "count(*) > 1", "count(*) < 3", "max({id}) % 2 = 0", "min({id}) < 40")


@dataclass(frozen=True)
class _Grouped:
    """A table whose rows are put into groups by the key of a join, in one or two steps.

    Attributes:
        where: on its rows, with {} for its alias.
        how: grouped | twice | distinct | narrowed (by a join below).
    """

    table: Table
    where: str
    how: str
    narrowing: Table


def statement(r: random.Random, tables: list[Table]) -> Statement:
    """A random statement whose rows SQL fixes. It needs the function of `joins.register_slow`.

    Args:
        tables: with older views, of `data.older`.
    """
    return _Maker(r, tables).statement()


class _Maker(Maker):
    def __init__(self, r: random.Random, tables: list[Table]) -> None:
        super().__init__(r, [t for t in tables if not t.is_cached and not t.is_older])
        self.older = {t.name: t for t in tables if t.is_older}
        self.facts = r.choice(self.large)
        self.x, self.y = r.sample(PLAIN_KEYS, 2)
        others = [t for t in self.tables if t.rows >= 3 and t is not self.facts]
        # Short tables have keys close to each other: joined twice, hardly a row would be left.
        longer = [t for t in others if t.rows >= 100]
        source = r.choice(longer if r.random() < 0.7 else others)
        self.grouped = _Grouped(
            source,
            predicates.where(r, Visible.of(source, "{}"), selective=r.random() < 0.6),
            r.choice(("grouped", "grouped", "twice", "distinct", "narrowed")),
            r.choice(others),
        )
        self.late = r.choice(longer if r.random() < 0.8 else others)
        self.where = predicates.where(r, Visible.of(self.late, "{}"), selective=r.random() < 0.3)
        self.slow = min(others, key=lambda t: t.rows)
        self.seconds = r.choice(_SECONDS)
        self.middle = r.choice(longer)
        self.last = r.choice([t for t in others if t.rows <= 300 and t is not self.middle])
        self.is_chain = r.random() < 0.4
        # Mostly the same joins each time, but for the conditions on groups: so Spark shares much of them.
        self.repeated = 0.8 if r.random() < 0.6 else 0.0
        self.chance, self.seed = r, r.random()

    # ---- build sides

    def _groups(self) -> Source:
        """The groups, with a test of their own; their key is `x`."""
        r, of = self.r, self.grouped
        alias, inner = self.alias("g"), self.alias("d")
        key = f"{inner}.{self.x}"
        select = Select([Item(key, "x")], Source(inner, of.table.name), where=[of.where.replace("{}", inner)])
        if of.how == "distinct":
            select.distinct = True
            select = Select([Item(f"{alias}d.x", "x")], Source(f"{alias}d", select=select))
            if r.random() < 0.5:
                select.where = [f"hash({alias}d.x) % 3 <> {r.randrange(3)}"]
        elif of.how == "twice":
            select.items += [Item(f"{inner}.g", "g"), Item("count(*)", "n")]
            select.group, select.having = [key, f"{inner}.g"], ["count(*) > 0"]
            again = f"{alias}t"
            select = Select([Item(f"{again}.x", "x")], Source(again, select=select), group=[f"{again}.x"])
            select.having = [f"sum({again}.n) {r.choice(('> 0', '> 1', '< 4'))}"]
        else:
            # Another one each time.
            select.group, select.having = [key], [self.chance.choice(_TESTS).format(id=f"{inner}.id")]
        if of.how == "narrowed" and r.random() < 0.6:
            other = self.alias("n")
            kind = r.choice(("LEFT SEMI JOIN", "JOIN", "LEFT ANTI JOIN"))
            join = Join(kind, Source(other, of.narrowing.name))
            join.on = [f"{inner}.g = {other}.g", f"{other}.id < {r.choice((1, 5, 50))}"]
            select.joins = [join]
        return Source(alias, select=select)

    def _comes_late(self) -> Source:
        """The rows of a table, by its key `y`, when a function of Python has seen them all."""
        alias, inner, other = self.alias("l"), self.alias("e"), self.alias("s")
        slow = Select([Item(f"{other}e.g", "g")], Source(f"{other}e", self.slow.name))
        slow.where = [f"slow({other}e.id % 8, {self.seconds}) >= 0"]
        # In a broadcast: a build side with a function of Python gives no filter. It leaves most rows.
        select = Select([Item(f"{inner}.{self.y}", "y")], Source(inner, self.late.name))
        select.hints = [f"BROADCAST({other})"]
        select.joins = [Join("LEFT SEMI JOIN", Source(other, select=slow), [f"{inner}.g <> {other}.g"])]
        select.where = [self.where.replace("{}", inner)]
        return Source(alias, select=select)

    def _keys(self) -> Source:
        """What the large table is joined with, by its key `x`: the groups, or in a chain those of the middle
        table that are left by a join with the groups.
        """
        if not self.is_chain or self.r.random() < 0.1:
            return self._groups()
        alias, outer, inner, last = (self.alias(name) for name in ("k", "o", "m", "l"))
        late = Select([Item(f"{last}.{self.y}", "y")], Source(last, self.last.name))
        late.where = [f"slow({last}.id, {self.seconds}) >= 0"]
        middle = Select([Item(f"{inner}.{self.x}", "x")], Source(inner, self.middle.name))
        middle.hints = [f"BROADCAST({last}s)", f"DYNAMIC_FILTER({inner})"]
        middle.joins = [Join("JOIN", Source(f"{last}s", select=late), [f"{inner}.{self.y} = {last}s.y"])]
        middle.group = [f"{inner}.{self.x}"]
        groups = self._groups()
        select = Select([Item(f"{outer}.x", "x")], Source(outer, select=middle))
        kind = self.r.choice(("JOIN", "JOIN", "LEFT SEMI JOIN"))
        select.joins = [Join(kind, groups, [f"{outer}.x = {groups.alias}.x"])]
        return Source(alias, select=select)

    # ---- the joins

    def _star(self) -> tuple[Select, str]:
        """The large table with its joins, still without items; and its alias."""
        if self.chance.random() < self.repeated:
            self.r = random.Random(self.seed)
        r = self.r
        fact = self.alias("f")
        select = Select([], Source(fact, self.facts.name))
        if r.random() < 0.85:
            select.hints = [f"DYNAMIC_FILTER({fact})"]
        keys = self._keys()
        kind = r.choices(("JOIN", "LEFT SEMI JOIN", "LEFT OUTER JOIN"), (7, 3, 1))[0]
        joins = [Join(kind, keys, [f"{fact}.{self.x} = {keys.alias}.x"])]
        if r.random() < 0.85:
            late = self._comes_late()
            kind = r.choice(("JOIN", "LEFT SEMI JOIN"))
            joins.append(Join(kind, late, [f"{fact}.{self.y} = {late.alias}.y"]))
        r.shuffle(joins)
        select.joins = joins
        self.r = self.chance
        return select, fact

    def _value(self) -> Select:
        """The joins as one value."""
        select, fact = self._star()
        column = self.r.choice(("id", "g", self.x))
        text = self.r.choice(("count({})", "count(DISTINCT {})", "hex(CAST(max({}) AS STRING))"))
        select.items = [Item(text.format(f"{fact}.{column}"), "v")]
        return select

    def _rows(self) -> Select:
        """The joins as rows of the large table."""
        select, fact = self._star()
        select.items = _shown(fact)
        return select

    # ---- statements

    def statement(self) -> Statement:
        shapes = (self._values, self._union, self._nested, self._beside)
        result = self.r.choices(shapes, (7, 3, 3, 3))[0]()
        result.cached = not result.kept and self.r.random() < 0.15
        return result

    def _values(self) -> Statement:
        """Two or three subqueries, each of them one value, and sometimes the groups alone."""
        items = [Item(f"({self._value().sql()})", f"v{i}") for i in range(self.r.choice((1, 2, 2, 3)))]
        if self.r.random() < 0.4:
            alone = Select([Item("count(*)", "n")], self._groups())
            items.insert(self.r.randrange(len(items) + 1), Item(f"({alone.sql()})", "n"))
        return Statement(Select(items, Source("one", "(VALUES (1))")))

    def _union(self) -> Statement:
        kind = self.r.choice(("UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT"))
        return Statement(SetOperation(kind, [self._rows() for _ in range(self.r.choice((2, 2, 3)))]))

    def _nested(self) -> Statement:
        """The groups are left by a join with the large table."""
        groups, other, fact = self._groups(), self.alias("p"), self.alias("f")
        select = Select([Item(f"{groups.alias}.x", "x")], groups)
        join = Join("LEFT SEMI JOIN", Source(other, self.facts.name))
        join.on = [f"{groups.alias}.x = {other}.{self.x}", f"{other}.g < {self.r.randrange(1, 9)}"]
        select.joins = [join]
        outer = Select(_shown(fact), Source(fact, self.facts.name), hints=[f"DYNAMIC_FILTER({fact})"])
        nested = Source(self.alias("q"), select=select)
        outer.joins = [Join("JOIN", nested, [f"{fact}.{self.x} = {nested.alias}.x"])]
        if self.r.random() < 0.5:
            late = self._comes_late()
            outer.joins.append(Join("JOIN", late, [f"{fact}.{self.y} = {late.alias}.y"]))
        return Statement(outer)

    def _beside(self) -> Statement:
        """Rows of the joins, and rows of a cached result of the same joins."""
        r = self.r
        old = r.choice((None, "kept", "kept", "now"))
        kept, now = (self._rows_of(is_older=old == place) for place in ("kept", "now"))
        alias = self.alias("q")
        read = Select([Item(f"{alias}.{c}", c) for c in ("c0", "c1")], Source(alias, "kept"))
        body: Select | SetOperation = read
        if r.random() < 0.7:
            kind = r.choice(("UNION ALL", "EXCEPT", "INTERSECT"))
            body = SetOperation(kind, [now, read] if r.random() < 0.5 else [read, now])
        else:
            read.where = [self.compared(f"{alias}.c0", now, now.items[0].text, "in")]
        return Statement(body, kept=[Cte("kept", kept)])

    def _rows_of(self, is_older: bool) -> Select:
        """Rows of the joins, in which some tables may be as they were before their last file."""
        grouped, middle = self.grouped, self.middle
        if is_older:
            older = (self.older.get(f"older_{t.name}", t) for t in (grouped.table, middle))
            table, self.middle = older
            self.grouped = replace(grouped, table=table)
        made = self._rows()
        self.grouped, self.middle = grouped, middle
        return made


def _shown(fact: str) -> list[Item]:
    return [Item(f"{fact}.id", "c0"), Item(f"{fact}.g", "c1")]
