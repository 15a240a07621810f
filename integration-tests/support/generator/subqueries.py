"""Statements whose subqueries repeat the joins of the query around them, or nearly do.

Spark plans a query and each of its subqueries apart, and computes equal exchanges once. So each statement
here is made of one star, a large table with chains of small ones, which occurs several times: as it is,
without some of its joins, or narrowed in another way.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from . import predicates
from .data import Table
from .model import Cte, Item, Join, Order, Select, SetOperation, Source, Statement, Subquery
from .predicates import Visible

# Stands before each alias of a star until it is written into a statement, each time under other aliases.
_MARK = "\N{SECTION SIGN}"
_DIRECTIONS = ("", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST")
_LIMITS = (1, 5, 40, 1_000)
_KINDS = (
    ("JOIN", 8),
    ("LEFT OUTER JOIN", 2),
    ("RIGHT OUTER JOIN", 1),
    ("FULL OUTER JOIN", 1),
    ("LEFT SEMI JOIN", 2),
    ("LEFT ANTI JOIN", 1),
)
_SIDE_HINTS = ("BROADCAST", "MERGE", "MERGE", "SHUFFLE_HASH")


@dataclass(frozen=True)
class _Link:
    """A small table that is joined.

    Attributes:
        kind: of the join.
        on: with what stands before it.
        below: tables that are joined with it before it is joined itself: it is then a subquery.
    """

    v: Visible
    table: str
    kind: str
    on: tuple[str, ...]
    where: tuple[str, ...] = ()
    hint: str = ""
    below: tuple[_Link, ...] = ()

    @property
    def is_seen(self) -> bool:
        return "SEMI" not in self.kind and "ANTI" not in self.kind

    @property
    def keeps_ids(self) -> bool:
        return self.kind in ("JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


@dataclass(frozen=True)
class _Star:
    """A large table and the tables that are joined with it."""

    v: Visible
    table: str
    links: tuple[_Link, ...]
    where: tuple[str, ...] = ()
    hinted: bool = False


@dataclass
class _Written:
    """A star under aliases of its own.

    Attributes:
        fact: of the large table.
        keys: columns that can be compared with those of the same star under other aliases, as `k_int`.
    """

    select: Select
    fact: str
    keys: list[str]
    visible: list[Visible]

    def column(self, name: str) -> str:
        return f"{self.fact}.{name}"


def statement(r: random.Random, tables: list[Table]) -> Statement:
    """A random statement whose rows SQL fixes, but for ties at a LIMIT."""
    return _Maker(r, tables).statement()


class _Maker:
    def __init__(self, r: random.Random, tables: list[Table]) -> None:
        self.r = r
        # Cached tables are seldom: filters of joins hardly go there.
        plain = [t for t in tables if not t.is_cached]
        self.tables = tables if r.random() < 0.2 else plain
        self._aliases = 0
        self._written = 0

    # ---- stars

    def star(self) -> _Star:
        r = self.r
        table = r.choice([t for t in self.tables if t.is_large])
        v = Visible.of(table, f"{_MARK}f")
        links: list[_Link] = []
        for _ in range(r.choice((1, 1, 2, 2, 3))):
            before = [v, *(x.v for x in links if x.is_seen)]
            links.append(self._link(r.choice((v, r.choice(before))), depth=r.choice((0, 1, 1, 2, 3))))
        if r.random() < 0.2:
            # The same table once more, by the same or another key.
            links.append(self._link(v, depth=0, table=r.choice(links).table))
        where = (predicates.where(r, v, selective=False),) if r.random() < 0.3 else ()
        return _Star(v, table.name, tuple(links), where, hinted=r.random() < 0.6)

    def _link(self, other: Visible, depth: int, table: str = "") -> _Link:
        r = self.r
        self._aliases += 1
        small = [t for t in self.tables if not t.is_large]
        chosen = next(t for t in self.tables if t.name == table) if table else r.choice(small)
        v = Visible.of(chosen, f"{_MARK}d{self._aliases}")
        kind = r.choices([k for k, _ in _KINDS], [w for _, w in _KINDS])[0]
        x, y = predicates.pair(r, other, v)
        on = (
            (f"{other.alias}.{x} = {v.alias}.{y}",)
            if r.random() < 0.8
            else tuple(predicates.equal(r, other, v))
        )
        if r.random() < 0.15:
            on += tuple(predicates.equal(r, other, v)[:1])
        where: tuple[str, ...] = ()
        if r.random() < 0.8:
            where = (predicates.where(r, v, selective=r.random() < 0.7),)
        elif r.random() < 0.3:
            where = (f"{v.alias}.id < 0",)
        below = []
        for _ in range(1 if depth > 0 else 0):
            link = self._link(v, depth - 1)
            # By the key of the join above, so that a shuffle by it serves both.
            if r.random() < 0.6 and y in link.v.columns and link.v.columns[y].family == v.columns[y].family:
                link = replace(link, on=(f"{v.alias}.{y} = {link.v.alias}.{y}",))
            below.append(link)
        hint = r.choice(_SIDE_HINTS) if r.random() < 0.35 else ""
        return _Link(v, chosen.name, kind, on, where, hint, tuple(below))

    def like(self, star: _Star) -> _Star:
        """The star as it is, or with a difference."""
        r = self.r
        how = r.random()
        links = list(star.links)
        if how < 0.35:
            return star
        if how < 0.75:
            # A join less, below one of them if there are.
            i = r.choice([i for i, link in enumerate(links) if link.below] or range(len(links)))
            if links[i].below:
                links[i] = self._without(links[i])
            elif len(links) > 1 and i == len(links) - 1:
                links.pop()
        elif how < 0.9:
            i = r.randrange(len(links))
            links[i] = replace(links[i], where=(predicates.where(r, links[i].v, selective=True),))
        else:
            return replace(star, where=(predicates.where(r, star.v, selective=True),))
        return replace(star, links=tuple(links))

    def _without(self, link: _Link) -> _Link:
        inner = link.below[0]
        if inner.below and self.r.random() < 0.5:
            return replace(link, below=(self._without(inner), *link.below[1:]))
        return replace(link, below=link.below[1:])

    # ---- as parts of statements

    def write(self, star: _Star) -> _Written:
        """Under aliases that no other part of the statement has."""
        self._written += 1
        prefix = f"x{self._written}_"
        fact = f"{prefix}f"
        base = Source(fact, star.table)
        select = Select([], base, where=[w.replace(_MARK, prefix) for w in star.where])
        if star.hinted:
            select.hints.append(f"DYNAMIC_FILTER({fact})")
        self._join(select, star.links, prefix)
        seen = [x.v for x in star.links if x.is_seen]
        visible = [replace(v, alias=v.alias.replace(_MARK, prefix)) for v in (star.v, *seen)]
        # What a nested table has to show is not all of its columns.
        shown = {x.v.alias.replace(_MARK, prefix): self._shown(x) for x in star.links if x.below}
        visible = [
            replace(v, columns={n: v.columns[n] for n in shown[v.alias]}) if v.alias in shown else v
            for v in visible
        ]
        keys = [k for k in star.v.key_columns() if k != "k_boolean"]
        return _Written(select, fact, keys, visible)

    def _join(self, select: Select, links: tuple[_Link, ...], prefix: str) -> None:
        for link in links:
            alias = link.v.alias.replace(_MARK, prefix)
            join = Join(link.kind, self._source(link, prefix))
            join.on = [c.replace(_MARK, prefix) for c in link.on]
            if not link.below:
                where = [w.replace(_MARK, prefix) for w in link.where]
                # Of a row that has no partner the condition is not true.
                (select.where if link.kind == "JOIN" else join.on).extend(where)
            select.joins.append(join)
            if link.hint:
                select.hints.append(f"{link.hint}({alias})")

    def _shown(self, link: _Link) -> list[str]:
        return ["id", "g", "p", *link.v.key_columns()]

    def _source(self, link: _Link, prefix: str) -> Source:
        alias = link.v.alias.replace(_MARK, prefix)
        if not link.below:
            return Source(alias, link.table)
        items = [Item(f"{alias}.{n}", n) for n in self._shown(link)]
        inner = Select(items, Source(alias, link.table))
        inner.where = [w.replace(_MARK, prefix) for w in link.where]
        self._join(inner, link.below, prefix)
        return Source(alias, select=inner)

    # ---- subqueries

    def _of(self, star: _Star, item: str) -> Select:
        """A star like this, of which one value or column is wanted. `item`: with {} for a key column."""
        w = self.write(self.like(star))
        w.select.items = [Item(item.format(w.column(self.r.choice(w.keys))), "y")]
        return w.select

    def _condition(self, star: _Star, outer: _Written) -> Subquery:
        """On the main query's large table."""
        r = self.r
        w = self.write(self.like(star))
        key = r.choice(outer.keys)
        how = r.random()
        if how < 0.3:
            w.select.items = [Item(f"{r.choice(('min', 'max'))}({w.column(key)})", "y")]
            return Subquery(f"{outer.column(key)} {r.choice(('>=', '<=', '<>', '='))}", w.select)
        if how < 0.45:
            w.select.items = [Item("count(*)", "y")]
            return Subquery(f"{r.choice((0, 1))} {r.choice(('<', '<=', '>='))}", w.select)
        if how < 0.8:
            w.select.items = [Item(w.column(key), "y")]
            word = r.choice(("IN", "IN", "IN", "NOT IN"))
            if word == "NOT IN" and r.random() < 0.7:
                w.select.where.append(f"{w.column(key)} IS NOT NULL")
            return Subquery(f"{outer.column(key)} {word}", w.select)
        w.select.items = [Item("1", "y")]
        if r.random() < 0.7:
            same = r.choice(("id", key))
            w.select.where.append(f"{w.column(same)} = {outer.column(same)}")
        return Subquery(r.choice(("EXISTS", "EXISTS", "NOT EXISTS")), w.select)

    # ---- statements

    def statement(self) -> Statement:
        r = self.r
        star = self.star()
        w = self.write(star)
        for _ in range(r.choice((0, 1, 1, 2))):
            w.select.where.append(self._condition(star, w))
        make = r.choices(
            (
                *(self._plain, self._topk, self._grouped, self._extremes),
                *(self._window, self._union, self._named, self._in_turn),
            ),
            (3, 4, 3, 2, 2, 3, 4, 4),
        )[0]
        result = make(star, w)
        if r.random() < 0.5 and isinstance(result.body, Select):
            result.body.items.append(Item(f"({self._of(star, self._value()).sql()})", "s"))
        return result

    def _value(self) -> str:
        return self.r.choice(("count(*)", "count({})", "hex(CAST(max({}) AS STRING))"))

    def _items(self, w: _Written, most: int = 4) -> list[Item]:
        columns = {f"{v.alias}.{n}": k for v in w.visible for n, k in v.columns.items()}
        names = self.r.sample(sorted(columns), min(self.r.randrange(1, most + 1), len(columns)))
        return [Item(n, f"c{i}", columns[n].as_text) for i, n in enumerate(names)]

    def _plain(self, star: _Star, w: _Written) -> Statement:
        w.select.items = self._items(w)
        return Statement(w.select)

    def _topk(self, star: _Star, w: _Written) -> Statement:
        result = self._plain(star, w)
        keys = self.r.sample(w.select.items, min(self.r.choice((1, 1, 2)), len(w.select.items)))
        result.order = [Order(i.alias, self.r.choice(_DIRECTIONS)) for i in keys]
        result.limit = self.r.choice(_LIMITS)
        return result

    def _grouped(self, star: _Star, w: _Written) -> Statement:
        items = self._items(w, most=2)
        w.select.items = [*items, Item("count(*)", "n")]
        w.select.group = [i.text for i in items]
        if self.r.random() < 0.7:
            value = self._of(star, self.r.choice(("count(*)", "count({})"))).sql()
            test = self.r.choice((">= 0", "> 3", "< 100"))
            w.select.having = [f"count(*) + ({value}) {test}"]
        result = Statement(w.select)
        if self.r.random() < 0.4:
            result.order = [Order(i.alias, self.r.choice(_DIRECTIONS)) for i in items]
            result.limit = self.r.choice(_LIMITS)
        return result

    def _extremes(self, star: _Star, w: _Written) -> Statement:
        keys = self.r.sample(w.keys, 2)
        kinds = w.visible[0].columns
        made = [(self.r.choice(("min", "max")), k) for k in keys]
        w.select.items = [
            Item(f"{f}({w.column(k)})", f"c{i}", kinds[k].as_text) for i, (f, k) in enumerate(made)
        ]
        return Statement(w.select)

    def _window(self, star: _Star, w: _Written) -> Statement:
        """The best rows of each group, ties included."""
        items = self._items(w)
        order = f"{self.r.choice(items).text} {self.r.choice(_DIRECTIONS)}"
        part = f"PARTITION BY {w.column('g')} " if self.r.random() < 0.7 else ""
        w.select.items = [*items, Item(f"rank() OVER ({part}ORDER BY {order})", "rn")]
        outer = [Item(f"w.{i.alias}", i.alias, i.as_text) for i in items]
        return Statement(
            Select(outer, Source("w", select=w.select), where=[f"w.rn <= {self.r.choice((1, 4))}"])
        )

    def _in_turn(self, star: _Star, w: _Written) -> Statement:
        """One subquery runs before the groups are made, the other when they are there."""
        first, second = (self._of(star, "count({})").sql() for _ in range(2))
        w.select.items = [Item(w.column("g"), "g"), Item("count(*)", "n")]
        w.select.where.append(f"{w.column('id')} % 5 <= ({first}) % 5")
        w.select.group = [w.column("g")]
        items = [Item("w.g", "c0"), Item("w.n", "c1"), Item(f"({second})", "c2")]
        return Statement(Select(items, Source("w", select=w.select), where=[f"w.n + ({second}) > 0"]))

    def _union(self, star: _Star, w: _Written) -> Statement:
        """Of the star and one like it; both show the large table's columns."""
        names = self.r.sample(["id", *w.keys], 2)
        other = self.write(self.like(star))
        kinds = w.visible[0].columns
        for part in (w, other):
            part.select.items = [Item(part.column(n), f"c{i}", kinds[n].as_text) for i, n in enumerate(names)]
        kind = self.r.choice(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
        result = Statement(SetOperation(kind, [w.select, other.select]))
        if self.r.random() < 0.5:
            result.order = [Order("c0", self.r.choice(_DIRECTIONS))]
            result.limit = self.r.choice(_LIMITS)
        return result

    def _named(self, star: _Star, w: _Written) -> Statement:
        """The star has a name, by which it is read once or twice, and once more in a subquery."""
        r = self.r
        key = r.choice(w.keys)
        kind = w.visible[0].columns[key]
        w.select.items = [Item(w.column("id"), "id"), Item(w.column(key), "k"), Item(w.column("g"), "g")]
        items = [Item("n1.id", "c0"), Item("n1.k", "c1", kind.as_text), Item("n1.g", "c2")]
        select = Select(items, Source("n1", "c"))
        if r.random() < 0.6:
            select.joins = [Join(r.choice(("JOIN", "LEFT OUTER JOIN")), Source("n2", "c"), ["n1.id = n2.id"])]
            select.where = ["n2.g < 6"]
        if r.random() < 0.6:
            inner = Select([Item("max(n3.k)", "y")], Source("n3", "c"), where=["n3.g = 2"])
            select.where.append(Subquery("n1.k <", inner))
        if r.random() < 0.4:
            select.where.append(Subquery("n1.k IN", Select([Item("n4.k", "y")], Source("n4", "c"))))
        result = Statement(select, [Cte("c", w.select)])
        if r.random() < 0.5:
            result.order = [Order("c1", r.choice(_DIRECTIONS))]
            result.limit = r.choice(_LIMITS)
        return result
