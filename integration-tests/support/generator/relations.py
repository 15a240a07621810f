"""FROM and WHERE: relations, how they are joined, and conditions with subqueries."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from . import predicates
from .data import Table
from .kinds import BIGINT, INT, Kind
from .model import AnyOf, Condition, Item, Join, Order, Select, SetOperation, Source, Subquery
from .predicates import Visible

# So many pairs of rows may be looked at by a join without equal keys.
_MOST_PAIRS = 200_000

_KINDS = (
    ("JOIN", 8),
    ("LEFT OUTER JOIN", 3),
    ("RIGHT OUTER JOIN", 3),
    ("FULL OUTER JOIN", 2),
    ("LEFT SEMI JOIN", 3),
    ("LEFT ANTI JOIN", 2),
    ("CROSS JOIN", 1),
)
_SIDE_HINTS = ("BROADCAST", "MERGE", "SHUFFLE_HASH", "SHUFFLE_REPLICATE_NL")
_BLOCK_HINTS = (
    "REPARTITION(8)",
    "REPARTITION(3, {column})",
    "REBALANCE",
    "REBALANCE({column})",
    "COALESCE(2)",
    "REPARTITION_BY_RANGE(4, {column})",
    "DYNAMIC_FILTER",
    "NO_DYNAMIC_FILTER",
)


@dataclass
class Block:
    """A SELECT without its columns, and what they may name.

    Attributes:
        total: columns that no two of its rows agree in; empty where there are none.
    """

    base: Source
    joins: list[Join] = field(default_factory=list)
    laterals: list[str] = field(default_factory=list)
    where: list[Condition] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    visible: list[Visible] = field(default_factory=list)
    total: list[str] = field(default_factory=list)
    extra: dict[str, Kind] = field(default_factory=dict)

    def columns(self) -> dict[str, Kind]:
        """By what they are called in expressions."""
        named = {f"{v.alias}.{name}": kind for v in self.visible for name, kind in v.columns.items()}
        return named | self.extra

    def select(self, items: list[Item]) -> Select:
        return Select(items, self.base, self.joins, self.laterals, self.where, hints=self.hints)


class Relations:
    """Makes blocks of random relations.

    Args:
        named: subqueries with a name (WITH) that may be read as tables are.
    """

    def __init__(self, r: random.Random, tables: list[Table]) -> None:
        self.r = r
        self.tables = tables
        self.named: list[Visible] = []
        self._aliases = 0

    def alias(self) -> str:
        self._aliases += 1
        return f"a{self._aliases}"

    # ---- relations

    def table(self, large: bool | None = None) -> tuple[Source, Visible]:
        chosen = [t for t in self.tables if large is None or t.is_large == large]
        table = self.r.choice(chosen)
        alias = self.alias()
        return Source(alias, table.name), Visible.of(table, alias)

    def relation(self, large: bool | None = None, depth: int = 1) -> tuple[Source, Visible]:
        """A table, a named subquery, or a subquery."""
        how = self.r.random()
        if self.named and how < 0.5:
            v = self.r.choice(self.named)
            alias = self.alias()
            return Source(alias, v.alias), Visible(alias, v.columns, v.unique, v.rows)
        if depth > 0 and how < 0.2:
            return self.subquery(large)
        return self.table(large)

    def subquery(self, large: bool | None = None) -> tuple[Source, Visible]:
        """A subquery over one table or union that keeps some columns."""
        how = self.r.random()
        if how < 0.35:
            select, v = self.grouped(large)
        elif how < 0.6:
            select, v = self.union(large)
        elif how < 0.75:
            select, v = self.limited(large)
        else:
            source, v = self.table(large)
            where = [predicates.where(self.r, v, selective=not large)]
            names = ["id", "g", *self.r.sample(v.key_columns(), 4)]
            items = [Item(f"{v.alias}.{n}", n) for n in names]
            select = Select(items, source, where=where, hints=self.hints(v) if self.r.random() < 0.2 else [])
            v = Visible("", {n: v.columns[n] for n in names}, ("id",), v.rows // 3)
        alias = self.alias()
        return Source(alias, select=select), Visible(alias, v.columns, v.unique, v.rows)

    def grouped(self, large: bool | None) -> tuple[Select, Visible]:
        source, v = self.table(large)
        key = self.r.choice([k for k in v.key_columns() if k != "k_boolean"])
        items = [Item(f"{v.alias}.{key}", key), Item("count(*)", "id"), Item(f"max({v.alias}.g)", "g")]
        where = [predicates.where(self.r, v, selective=not large)] if self.r.random() < 0.6 else []
        group = [f"{v.alias}.{key}"]
        select = Select(items, source, where=where, group=group)
        if self.r.random() < 0.3:
            select.having = ["count(*) > 1"]
        return select, Visible("", {key: v.columns[key], "id": BIGINT, "g": INT}, (key,), v.rows // 2)

    def union(self, large: bool | None) -> tuple[SetOperation, Visible]:
        """Two or three tables, or one of them twice."""
        parts, seen = [], []
        same = self.r.random() < 0.4
        names: list[str] = []
        for _ in range(self.r.choice((2, 2, 3))):
            source, v = self.table(large)
            if same and seen:
                source = Source(v.alias, parts[0].base.table)
                v = Visible(v.alias, seen[0].columns, v.unique, seen[0].rows)
            names = names or ["id", "g", *self.r.sample(v.key_columns(), 3)]
            where = [predicates.where(self.r, v, selective=not large)] if self.r.random() < 0.5 else []
            parts.append(Select([Item(f"{v.alias}.{n}", n) for n in names], source, where=where))
            seen.append(v)
        # Types of equal rank in all branches; the widest is not known here, nor does it matter.
        columns = {n: seen[0].columns[n] for n in names}
        kind = self.r.choice(("UNION ALL", "UNION ALL", "UNION ALL", "UNION"))
        return SetOperation(kind, parts), Visible("", columns, (), sum(v.rows for v in seen) // 2)

    def limited(self, large: bool | None) -> tuple[Select, Visible]:
        source, v = self.table(large)
        names = ["id", "g", *self.r.sample(v.key_columns(), 3)]
        order = [
            Order(f"{v.alias}.{self.r.choice(v.key_columns())}", self.r.choice(("ASC", "DESC"))),
            Order(f"{v.alias}.id", "ASC"),
        ]
        items = [Item(f"{v.alias}.{n}", n) for n in names]
        limit = self.r.choice((1, 10, 100))
        select = Select(items, source, order=order, limit=limit)
        return select, Visible("", {n: v.columns[n] for n in names}, ("id",), limit)

    # ---- blocks

    def block(self, joins: int, depth: int = 1) -> Block:
        """A block of `joins` + 1 relations, of which the first is large."""
        source, v = self.relation(large=True, depth=depth)
        block = Block(source, visible=[v], total=[f"{v.alias}.{u}" for u in v.unique])
        for _ in range(joins):
            self.join(block, depth)
        for v in block.visible:
            if self.r.random() < 0.35:
                block.where.append(
                    predicates.where(self.r, v, selective=v.rows < 600 and self.r.random() < 0.6)
                )
        if depth > 0:
            for _ in range(self.r.choice((0, 0, 1, 1, 2)) if joins else self.r.choice((0, 1, 1))):
                block.where.append(self.condition(block.visible))
        if self.r.random() < 0.15:
            block.hints += self.hints(block.visible[0])
        if self.r.random() < 0.08:
            self.lateral(block)
        return block

    def hints(self, v: Visible) -> list[str]:
        return [self.r.choice(_BLOCK_HINTS).format(column=self.r.choice(list(v.columns)))]

    def lateral(self, block: Block) -> None:
        v = self.r.choice(block.visible)
        if "g" not in v.columns:
            return
        made, outer = self.r.choice(
            (
                (f"explode(array(1, 2, {v.alias}.g))", ""),
                (f"explode(sequence(1, {v.alias}.g % 3 + 1))", ""),
                (f"explode(array({v.alias}.g, NULL))", ""),
                (f"posexplode(array({v.alias}.g, 7))", ""),
                (f"explode(IF({v.alias}.g = 3, array(1, 2), array()))", "OUTER "),
            )
        )
        if made.startswith("pos"):
            block.laterals.append(f"LATERAL VIEW {outer}{made} e AS i, x")
        else:
            block.laterals.append(f"LATERAL VIEW {outer}{made} e AS x")
        block.extra["x"] = INT
        block.total = []

    def join(self, block: Block, depth: int) -> None:
        """Adds a relation to a block."""
        r = self.r
        rows = max(v.rows for v in block.visible)
        large = [v for v in block.visible if v.rows > 600]
        source, v = self.relation(large=len(large) < 2 and r.random() < 0.2, depth=depth)
        kind = r.choices([k for k, _ in _KINDS], [w for _, w in _KINDS])[0]
        few = rows * v.rows <= _MOST_PAIRS
        other = r.choice(block.visible)
        join = Join(kind, source)
        if kind == "CROSS JOIN":
            if rows * v.rows > 50_000:
                join.kind = "JOIN"
            else:
                self._keep(block, join, v)
                return
        common = [
            c for c in v.columns if c in other.columns and other.columns[c].family == v.columns[c].family
        ]
        # In USING a name must mean one column only.
        if (
            r.random() < 0.08
            and len(block.visible) == 1
            and common
            and "SEMI" not in kind
            and "ANTI" not in kind
        ):
            join.using = [r.choice([c for c in common if c not in ("g", "p", "k_boolean")] or common[:1])]
        elif few and r.random() < 0.15:
            join.on.append(predicates.unequal(r, other, v))
        else:
            join.on += predicates.equal(r, other, v)
            if v.rows > 600 or r.random() < 0.25:
                join.on += predicates.equal(r, r.choice(block.visible), v)
            if r.random() < 0.2:
                join.on.append(predicates.unequal(r, r.choice(block.visible), v))
        if join.on and r.random() < 0.25:
            join.on.append(predicates.where(r, r.choice((v, other)), selective=r.random() < 0.5))
        if r.random() < 0.9:
            self._selective(source, v, block, join)
        if r.random() < 0.35:
            block.hints.append(f"{r.choice(_SIDE_HINTS[: 4 if few else 3])}({r.choice((v, other)).alias})")
        if r.random() < 0.04:
            block.hints.append(
                f"{r.choice(('DYNAMIC_FILTER', 'NO_DYNAMIC_FILTER'))}({r.choice((v, other)).alias})"
            )
        self._keep(block, join, v)

    def _selective(self, source: Source, v: Visible, block: Block, join: Join) -> None:
        """Leaves few rows of a new relation: what filters are good for."""
        condition = predicates.where(self.r, v, selective=True)
        if "SEMI" in join.kind or "ANTI" in join.kind:
            join.on.append(condition)
        elif join.using or "OUTER" not in join.kind or self.r.random() < 0.5:
            block.where.append(condition)
        else:
            join.on.append(condition)

    def _keep(self, block: Block, join: Join, v: Visible) -> None:
        block.joins.append(join)
        if "SEMI" in join.kind or "ANTI" in join.kind:
            return
        block.visible.append(v)
        block.total = (
            [*block.total, *(f"{v.alias}.{u}" for u in v.unique)] if block.total and v.unique else []
        )

    # ---- conditions with subqueries

    def condition(self, visible: list[Visible], nested: bool = True) -> Condition:
        """IN, NOT IN, EXISTS, NOT EXISTS, a comparison with a scalar subquery; or such under OR."""
        r = self.r
        v = r.choice(visible)
        how = r.random()
        if nested and how < 0.2:
            parts = [self.condition([v], nested=False), predicates.where(r, v, selective=True)]
            return AnyOf(parts, negated=r.random() < 0.15)
        if nested and how < 0.25:
            return AnyOf([self.condition([v], nested=False), self.condition([v], nested=False)])
        if how < 0.5:
            return self._in(v)
        if how < 0.75:
            return self._exists(v)
        return self._scalar(v)

    def _inner(self, large: bool = False) -> tuple[Select, Visible]:
        source, v = self.table(large)
        where: list[Condition] = (
            [predicates.where(self.r, v, selective=True)] if self.r.random() < 0.75 else []
        )
        return Select([Item("1", "one")], source, where=where), v

    def _in(self, v: Visible) -> Subquery:
        r = self.r
        select, inner = self._inner()
        pairs = [predicates.pair(r, v, inner) for _ in range(r.choice((1, 1, 1, 2)))]
        # A tuple takes no casts from one family to another.
        select.items = [Item(f"{inner.alias}.{y}", f"y{i}") for i, (_, y) in enumerate(pairs)]
        left = ", ".join(f"{v.alias}.{x}" for x, _ in pairs)
        left = f"({left})" if len(pairs) > 1 else left
        word = r.choice(("IN", "IN", "NOT IN"))
        if word == "NOT IN" and r.random() < 0.5:
            # Without NULLs it is an ordinary anti join, and leaves rows.
            select.where += [f"{i.text} IS NOT NULL" for i in select.items]
        if r.random() < 0.15 and "g" in v.columns:
            select.where.append(f"{inner.alias}.g = {v.alias}.g")
        return Subquery(f"{left} {word}", select)

    def _exists(self, v: Visible) -> Subquery:
        r = self.r
        select, inner = self._inner()
        select.where += predicates.equal(r, v, inner)
        if r.random() < 0.25:
            select.where.append(predicates.unequal(r, v, inner))
        return Subquery(r.choice(("EXISTS", "EXISTS", "NOT EXISTS")), select)

    def _scalar(self, v: Visible) -> Subquery:
        r = self.r
        select, inner = self._inner(large=r.random() < 0.3)
        if r.random() < 0.3:
            select.items = [Item("count(*)", "n")]
            x, y = predicates.pair(r, v, inner)
            select.where.append(f"{inner.alias}.{y} = {v.alias}.{x}")
            return Subquery(f"{r.choice((0, 1, 2))} {r.choice(('<', '=', '<='))}", select)
        x, y = predicates.pair(r, v, inner)
        select.items = [Item(f"{r.choice(('min', 'max'))}({inner.alias}.{y})", "m")]
        if r.random() < 0.2 and "g" in v.columns:
            select.where.append(f"{inner.alias}.g = {v.alias}.g")
        return Subquery(f"{v.alias}.{x} {r.choice(('=', '=', '<=', '>', '<>', '<', '>=', '<=>'))}", select)
