"""Statements whose subqueries repeat the joins of the query around them, or nearly do.

Spark plans a query and each of its subqueries apart, and computes equal exchanges once. So each statement
here is made of one star, a large table with chains of small ones, which occurs several times: as it is,
without some of its joins, or narrowed in another way.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from . import predicates, queries
from .data import Table
from .model import Item, Join, Select, SetOperation, Source, Statement, Subquery, shows
from .predicates import Visible
from .relations import JOINS, Block, Maker

# Stands before each alias of a star until it is written into a statement, each time under other aliases.
_MARK = "\N{SECTION SIGN}"
_SIDE_HINTS = ("BROADCAST", "MERGE", "MERGE", "SHUFFLE_HASH")


@dataclass(frozen=True)
class _Link:
    """A table and what is joined with it: a star, or a small table that is joined.

    Attributes:
        kind, on: how a small table is joined with what stands before it.
        below: tables that are joined with it before it is joined itself: it is then a subquery.
    """

    v: Visible
    table: str
    kind: str
    on: tuple[str, ...]
    where: tuple[str, ...]
    hint: str
    below: tuple[_Link, ...]


def statement(r: random.Random, tables: list[Table]) -> Statement:
    """A random statement whose rows SQL fixes, but for ties at a LIMIT."""
    # Cached tables are seldom: filters of joins hardly go there.
    plain = [t for t in tables if not t.is_cached]
    return _Maker(r, tables if r.random() < 0.2 else plain).statement()


class _Maker(Maker):
    # ---- stars

    def _star(self) -> _Link:
        r = self.r
        table = r.choice(self.large)
        v = Visible.of(table, f"{_MARK}f")
        links: list[_Link] = []
        for _ in range(r.choice((1, 1, 2, 2, 3))):
            before = [v, *(x.v for x in links if shows(x.kind))]
            links.append(self._link(r.choice((v, r.choice(before))), depth=r.choice((0, 1, 1, 2, 3))))
        if r.random() < 0.2:
            # The same table once more, by the same or another key.
            links.append(self._link(v, depth=0, table=r.choice(links).table))
        where = (predicates.where(r, v, selective=False),) if r.random() < 0.3 else ()
        hint = "DYNAMIC_FILTER" if r.random() < 0.6 else ""
        return _Link(v, table.name, "", (), where, hint, tuple(links))

    def _link(self, other: Visible, depth: int, table: str = "") -> _Link:
        r = self.r
        chosen = r.choice([t for t in self.small if table in ("", t.name)])
        v = Visible.of(chosen, self.alias(f"{_MARK}d"))
        x, y = predicates.pair(r, other, v)
        on = [f"{other.alias}.{x} = {v.alias}.{y}"] if r.random() < 0.8 else predicates.equal(r, other, v)
        if r.random() < 0.15:
            on += predicates.equal(r, other, v)[:1]
        where: tuple[str, ...] = ()
        if r.random() < 0.8:
            where = (predicates.where(r, v, selective=r.random() < 0.7),)
        elif r.random() < 0.3:
            where = (f"{v.alias}.id < 0",)
        below = [self._link(v, depth - 1)] if depth > 0 else []
        for i, link in enumerate(below):
            # By the key of the join above, so that a shuffle by it serves both.
            if r.random() < 0.6 and link.v.columns[y].family == v.columns[y].family:
                below[i] = replace(link, on=(f"{v.alias}.{y} = {link.v.alias}.{y}",))
        hint = r.choice(_SIDE_HINTS) if r.random() < 0.35 else ""
        return _Link(v, chosen.name, r.choice(JOINS), tuple(on), where, hint, tuple(below))

    def _like(self, star: _Link) -> _Link:
        """The star as it is, or with a difference."""
        r = self.r
        how = r.random()
        if how < 0.35:
            return star
        if how < 0.75:
            return self._without(star)
        if how < 0.9:
            links = list(star.below)
            i = r.randrange(len(links))
            links[i] = replace(links[i], where=(predicates.where(r, links[i].v, selective=True),))
            return replace(star, below=tuple(links))
        return replace(star, where=(predicates.where(r, star.v, selective=True),))

    def _without(self, link: _Link) -> _Link:
        """A join less, mostly below one of the joins if there are such."""
        links = list(link.below)
        deeper = [i for i, x in enumerate(links) if x.below]
        if deeper and self.r.random() < 0.7:
            i = self.r.choice(deeper)
            links[i] = self._without(links[i])
        else:
            links.pop()
        return replace(link, below=tuple(links))

    # ---- as parts of statements

    def _write(self, star: _Link) -> Block:
        """Under aliases that no other part of the statement has; its large table comes first."""
        block = self._block(star, self.alias("x"))
        if star.hint:
            block.hints.append(f"{star.hint}({block.base.alias})")
        return block

    def _block(self, link: _Link, prefix: str) -> Block:
        def named(texts: tuple[str, ...]) -> list[str]:
            return [text.replace(_MARK, f"{prefix}_") for text in texts]

        (alias,) = named((link.v.alias,))
        block = Block(Source(alias, link.table), visible=[replace(link.v, alias=alias)])
        block.where += named(link.where)
        for below in link.below:
            inner = self._block(below, prefix)
            v = inner.visible[0]
            join = Join(below.kind, inner.base)
            join.on += named(below.on)
            if below.below:
                join.source = Source(
                    v.alias, select=inner.select([Item(f"{v.alias}.{n}", n) for n in v.columns])
                )
            else:
                # Of a row that has no partner the condition is not true.
                (block.where if below.kind == "JOIN" else join.on).extend(inner.where)
            block.joins.append(join)
            block.visible += [v] if shows(join.kind) else []
            block.hints += [f"{below.hint}({v.alias})"] if below.hint else []
        return block

    def _of(self, star: _Link, item: str) -> str:
        """A star like this, of which one value is wanted. `item`: with {} for a key column."""
        w = self._write(self._like(star))
        column = f"{w.base.alias}.{self.r.choice(star.v.join_keys())}"
        return w.select([Item(item.format(column), "y")]).sql()

    def _condition(self, star: _Link, outer: Block) -> Subquery:
        """On the main query's large table."""
        r = self.r
        w = self._write(self._like(star))
        key = r.choice(star.v.join_keys())
        made = self.compared(f"{outer.base.alias}.{key}", w.select([]), f"{w.base.alias}.{key}")
        if "EXISTS" in made.before and r.random() < 0.7:
            same = r.choice(("id", key))
            made.select.where.append(f"{w.base.alias}.{same} = {outer.base.alias}.{same}")
        return made

    # ---- statements

    def statement(self) -> Statement:
        r = self.r
        star = self._star()
        w = self._write(star)
        for _ in range(r.choice((0, 1, 1, 2))):
            w.where.append(self._condition(star, w))
        make = r.choices((self._made, self._union, self._in_turn), (15, 3, 4))[0]
        result = make(star, w)
        if r.random() < 0.5 and isinstance(result.body, Select):
            value = r.choice(("count(*)", "count({})", "hex(CAST(max({}) AS STRING))"))
            result.body.items.append(Item(f"({self._of(star, value)})", "s"))
        return result

    def _made(self, star: _Link, w: Block) -> Statement:
        result = queries.made_of(self.r, w)
        if isinstance(result.body, Select) and result.body.group and self.r.random() < 0.7:
            value = self._of(star, self.r.choice(("count(*)", "count({})")))
            test = self.r.choice((">= 0", "> 3", "< 100"))
            result.body.having.append(f"count(*) + ({value}) {test}")
        return result

    def _in_turn(self, star: _Link, w: Block) -> Statement:
        """One subquery runs before the groups are made, the other when they are there."""
        first, second = (self._of(star, "count({})") for _ in range(2))
        g, number = (f"{w.base.alias}.{name}" for name in ("g", "id"))
        select = w.select([Item(g, "g"), Item("count(*)", "n")])
        select.where.append(f"{number} % 5 <= ({first}) % 5")
        select.group = [g]
        items = [Item("w.g", "c0"), Item("w.n", "c1"), Item(f"({second})", "c2")]
        return Statement(Select(items, Source("w", select=select), where=[f"w.n + ({second}) > 0"]))

    def _union(self, star: _Link, w: Block) -> Statement:
        """Of the star and one like it; both show the large table's columns."""
        names = self.r.sample(["id", *star.v.join_keys()], 2)
        parts = []
        for block in (w, self._write(self._like(star))):
            items = [
                Item(f"{block.base.alias}.{n}", f"c{i}", star.v.columns[n].as_text)
                for i, n in enumerate(names)
            ]
            parts.append(block.select(items))
        result = Statement(
            SetOperation(self.r.choice(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT")), parts)
        )
        return queries.limited(self.r, result, parts[0].items[:1]) if self.r.random() < 0.5 else result
