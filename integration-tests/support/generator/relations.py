"""FROM and WHERE: relations, how they are joined, and conditions with subqueries."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import count

from . import predicates
from .data import Table
from .expressions import RISING
from .kinds import BIGINT, INT, Kind
from .model import AnyOf, Condition, Item, Join, Order, Select, SetOperation, Source, Subquery, shows
from .predicates import Visible

# So many pairs of rows may be looked at by a join without equal keys.
_MOST_PAIRS = 200_000

#: Of joins with conditions, as often as they are drawn.
JOINS = (
    *("JOIN",) * 8,
    *("LEFT OUTER JOIN",) * 3,
    *("RIGHT OUTER JOIN",) * 2,
    *("FULL OUTER JOIN",) * 2,
    *("LEFT SEMI JOIN",) * 3,
    *("LEFT ANTI JOIN",) * 2,
)
_AGGREGATES = ("min({y})", "max({y})", "count({y})", "try_cast(avg({y}) AS BIGINT)", "try_sum({y})")
SIDE_HINTS = ("BROADCAST", "MERGE", "SHUFFLE_HASH")
_HINTS = ("REPARTITION(8)", "REBALANCE", "COALESCE(2)", "DYNAMIC_FILTER", "NO_DYNAMIC_FILTER")
# Of a column that the SELECT has.
_COLUMN_HINTS = ("REPARTITION(3, {})", "REBALANCE({})", "REPARTITION_BY_RANGE(4, {})")


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


_Derived = tuple[Select | SetOperation, dict[str, Kind], tuple[str, ...], int]


class Maker:
    """Makes a statement of random tables."""

    def __init__(self, r: random.Random, tables: list[Table]) -> None:
        self.r = r
        self.tables = tables
        self.large = [t for t in tables if t.is_large]
        self.small = [t for t in tables if not t.is_large]
        self._aliases = count(1)

    def alias(self, name: str = "a") -> str:
        return f"{name}{next(self._aliases)}"

    def compared(self, column: str, select: Select, value: str, how: str = "") -> Subquery:
        """A condition on a column with what a subquery has of another column.

        Args:
            select: the subquery, which gets the items that are asked for.
            how: extreme | count | in | exists; by default one of them.
        """
        r = self.r
        how = how or r.choice(("extreme", "extreme", "count", "in", "in", "in", "exists"))
        if how == "extreme":
            select.items = [Item(f"{r.choice(('min', 'max'))}({value})", "y")]
            return Subquery(f"{column} {r.choice(('=', '=', '<=', '>', '<>', '<', '>=', '<=>'))}", select)
        if how == "count":
            select.items = [Item("count(*)", "y")]
            return Subquery(f"{r.choice((0, 1, 2))} {r.choice(('<', '=', '<=', '>='))}", select)
        if how == "exists":
            select.items = [Item("1", "y")]
            return Subquery(r.choice(("EXISTS", "EXISTS", "NOT EXISTS")), select)
        select.items = [Item(value, "y")]
        word = r.choice(("IN", "IN", "NOT IN"))
        if word == "NOT IN" and r.random() < 0.6:
            # Without NULLs it is an ordinary anti join, and leaves rows.
            select.where.append(f"{value} IS NOT NULL")
        return Subquery(f"{column} {word}", select)


class Relations(Maker):
    """Makes blocks of random relations.

    Args:
        computed: whether most keys are to be computed, and most relations are subqueries.

    Attributes:
        named: subqueries with a name (WITH) that may be read as tables are.
    """

    def __init__(self, r: random.Random, tables: list[Table], computed: bool = False) -> None:
        super().__init__(r, tables)
        self.named: list[Visible] = []
        self.computed, self.derived = (0.5, 0.6) if computed else (0.1, 0.2)

    def computes(self) -> bool:
        return self.r.random() < self.computed

    # ---- relations

    def table(self, large: bool | None = None) -> tuple[Source, Visible]:
        chosen = [t for t in self.tables if large is None or t.is_large == large]
        table = self.r.choice(chosen)
        v = Visible.of(table, self.alias())
        return Source(v.alias, table.name), v

    def relation(self, large: bool | None = None, depth: int = 1) -> tuple[Source, Visible]:
        """A table, a named subquery, or a subquery."""
        how = self.r.random()
        if self.named and how < 0.5:
            v = self.r.choice(self.named)
            alias = self.alias()
            return Source(alias, v.alias), Visible(alias, v.columns, v.unique, v.rows)
        if depth > 0 and how < self.derived:
            return self.subquery(large)
        return self.table(large)

    def subquery(self, large: bool | None = None) -> tuple[Source, Visible]:
        """A subquery that keeps some columns, of one table, a union or a join."""
        makes = (self._grouped, self._union, self._limited, self._narrowed, self._joined)
        select, columns, unique, rows = self.r.choices(makes, (7, 5, 3, 5, 3))[0](large)
        alias = self.alias()
        return Source(alias, select=select), Visible(alias, columns, unique, rows)

    def _kept(self, large: bool | None, where: float) -> tuple[Select, Visible]:
        """Some columns of a table, whose rows a condition leaves that often."""
        source, v = self.table(large)
        names = ["id", "g", *self.r.sample(v.key_columns(), 3)]
        items = [Item(self._column(v, n), n) for n in names]
        select = Select(items, source)
        if self.r.random() < where:
            select.where.append(predicates.where(self.r, v, selective=not large))
        return select, replace(v, columns={n: v.columns[n] for n in names})

    def _column(self, v: Visible, name: str) -> str:
        is_computed = name in v.join_keys() and self.computes()
        return predicates.near(self.r, v, name) if is_computed else f"{v.alias}.{name}"

    def _grouped(self, large: bool | None) -> _Derived:
        r = self.r
        select, v = self._kept(large, where=0.6)
        key, g = r.choice(v.join_keys()), f"{v.alias}.g"
        text = next(i.text for i in select.items if i.alias == key)
        select.group = [text]
        select.items = [Item(text, key), Item("count(*)", "id"), Item(f"max({g})", "g")]
        by_key = v.columns[key].family != "integer" or not self.computes()
        if not by_key:
            select.group = [g]
            select.items = [
                Item(r.choice(_AGGREGATES).format(y=text), key),
                Item("count(*)", "id"),
                Item(g, "g"),
            ]
        if r.random() < 0.3:
            select.having = [r.choice(("count(*) > 1", f"max({g}) > 2", f"avg({g}) > 2.5"))]
        return select, {key: v.columns[key], "id": BIGINT, "g": INT}, (key if by_key else "g",), v.rows // 2

    def _union(self, large: bool | None) -> _Derived:
        """Two or three tables, or one of them twice."""
        r = self.r
        first, v = self._kept(large, where=0.5)
        parts, rows, same = [first], v.rows, r.random() < 0.4
        for _ in range(r.choice((1, 1, 2))):
            source, w = self.table(large)
            if same:
                source, w = Source(w.alias, first.base.table), replace(v, alias=w.alias)
            # Types of equal rank in all branches; the widest is not known here, nor does it matter.
            part = Select([Item(self._column(w, i.alias), i.alias) for i in first.items], source)
            part.where = [predicates.where(r, w, selective=not large)] if r.random() < 0.5 else []
            parts.append(part)
            rows += w.rows
        kind = r.choice(("UNION ALL", "UNION ALL", "UNION ALL", "UNION"))
        return SetOperation(kind, parts), v.columns, (), rows // 2

    def _limited(self, large: bool | None) -> _Derived:
        select, v = self._kept(large, where=0.0)
        key = self.r.choice(v.key_columns())
        select.order = [Order(f"{v.alias}.{key}", self.r.choice(("ASC", "DESC")))]
        select.order.append(Order(f"{v.alias}.id", "ASC"))
        select.limit = limit = self.r.choice((1, 10, 100))
        return select, v.columns, ("id",), limit

    def _narrowed(self, large: bool | None) -> _Derived:
        select, v = self._kept(large, where=1.0)
        if self.r.random() < 0.2:
            hint = self.r.choice(_HINTS + _COLUMN_HINTS)
            select.hints = [hint.format(self.r.choice(list(v.columns)))]
        return select, v.columns, ("id",), v.rows // 3

    def _joined(self, large: bool | None) -> _Derived:
        block = self.block(joins=1, depth=0, large=large)
        chosen: dict[str, Kind] = {}
        items = []
        for name, kind in block.columns().items():
            column = name.split(".")[-1]
            if column not in chosen and (column in ("id", "g") or self.r.random() < 0.5):
                chosen[column] = kind
                items.append(Item(name, column))
        return block.select(items), chosen, (), block.visible[0].rows

    # ---- blocks

    def block(self, joins: int, depth: int = 1, large: bool | None = True) -> Block:
        """A block of `joins` + 1 relations, of which the first is large."""
        r = self.r
        source, v = self.relation(large, depth) if r.random() > self.computed else self.table(large)
        block = Block(source, visible=[v], total=[f"{v.alias}.{u}" for u in v.unique])
        if self.computes():
            block.hints.append(f"DYNAMIC_FILTER({v.alias})")
        for _ in range(joins):
            self.join(block, depth)
        for v in block.visible:
            if r.random() < 0.35:
                block.where.append(predicates.where(r, v, selective=v.rows < 600 and r.random() < 0.6))
        if depth > 0:
            for _ in range(r.choice((0, 0, 1, 1, 2)) if joins else r.choice((0, 1, 1))):
                block.where.append(self.condition(block.visible))
        if r.random() < 0.15:
            block.hints.append(r.choice(_HINTS))
        if r.random() < 0.08:
            self.lateral(block)
        if depth > 0 and self.computes():
            self._rise(block)
        return block

    def _rise(self, block: Block) -> None:
        """Leaves few columns beside a key that rises with a column."""
        v = block.visible[0]
        if names := [n for n in v.join_keys() if v.columns[n].family in RISING]:
            name = self.r.choice(names)
            key = predicates.rising(self.r, v.columns[name]).format(y=v.key(self.r, name))
            # Of a computed value Python may know nothing.
            block.extra[key] = replace(v.columns[name], as_text=True)
            block.visible = [
                replace(w, columns={n: k for n, k in w.columns.items() if n in ("id", "g")})
                for w in block.visible
            ]
            block.total = block.total if set(block.total) <= set(block.columns()) else []

    def lateral(self, block: Block) -> None:
        v = self.r.choice(block.visible)
        if "g" not in v.columns:
            return
        made = self.r.choice(
            (
                "explode(array(1, 2, {g})) e AS x",
                "explode(sequence(1, {g} % 3 + 1)) e AS x",
                "explode(array({g}, NULL)) e AS x",
                "posexplode(array({g}, 7)) e AS i, x",
                "OUTER explode(IF({g} = 3, array(1, 2), array())) e AS x",
            )
        )
        block.laterals.append(f"LATERAL VIEW {made.format(g=f'{v.alias}.g')}")
        block.extra["x"] = INT
        block.total = []

    def join(self, block: Block, depth: int) -> None:
        """Adds a relation to a block."""
        r = self.r
        rows = max(v.rows for v in block.visible)
        large = [v for v in block.visible if v.rows > 600]
        source, v = self.relation(large=len(large) < 2 and r.random() < 0.2, depth=depth)
        few = rows * v.rows <= _MOST_PAIRS
        other = r.choice(block.visible)
        if rows * v.rows <= 50_000 and r.random() < 0.1:
            self._keep(block, Join("CROSS JOIN", source), v)
            return
        join = Join(r.choice(JOINS), source)
        common = [
            c for c in v.columns if c in other.columns and other.columns[c].family == v.columns[c].family
        ]
        # In USING a name must mean one column only.
        if r.random() < 0.08 and len(block.visible) == 1 and common and shows(join.kind):
            join.using = [r.choice([c for c in common if c not in ("g", "p", "k_boolean")] or common[:1])]
        elif few and r.random() < 0.15:
            ranges = r.random() < 0.5
            join.on += predicates.between(r, other, v) if ranges else [predicates.unequal(r, other, v)]
        else:
            join.on += predicates.equal(r, other, v, self.computed)
            if v.rows > 600 or r.random() < 0.25:
                join.on += predicates.equal(r, r.choice(block.visible), v, self.computed)
            if r.random() < 0.2:
                join.on.append(predicates.unequal(r, r.choice(block.visible), v))
        if join.on and r.random() < 0.25:
            join.on.append(predicates.where(r, r.choice((v, other)), selective=r.random() < 0.5))
        if r.random() < 0.9:
            # Leaves few rows of the new relation: what filters are good for.
            in_where = shows(join.kind) and (join.using or "OUTER" not in join.kind or r.random() < 0.5)
            (block.where if in_where else join.on).append(predicates.where(r, v, selective=True))
        if r.random() < 0.35:
            hints = (*SIDE_HINTS, "SHUFFLE_REPLICATE_NL") if few else SIDE_HINTS
            block.hints.append(f"{r.choice(hints)}({r.choice((v, other)).alias})")
        if r.random() < 0.04:
            hint = r.choice(("DYNAMIC_FILTER", "NO_DYNAMIC_FILTER"))
            block.hints.append(f"{hint}({r.choice((v, other)).alias})")
        self._keep(block, join, v)

    def _keep(self, block: Block, join: Join, v: Visible) -> None:
        block.joins.append(join)
        if shows(join.kind):
            block.visible.append(v)
            more = [f"{v.alias}.{u}" for u in v.unique]
            block.total = [*block.total, *more] if block.total and more else []

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
            return AnyOf([self.condition([v], nested=False) for _ in range(2)])
        kind = r.choices(("in", "exists", "extreme", "count"), (5, 5, 4, 2))[0]
        source, inner = self.table(large=r.random() < 0.3 if kind in ("extreme", "count") else False)
        select = Select([], source)
        if r.random() < 0.75:
            select.where.append(predicates.where(r, inner, selective=True))
        if kind == "exists":
            select.where += predicates.equal(r, v, inner)
            if r.random() < 0.25:
                select.where.append(predicates.unequal(r, v, inner))
        x, y = predicates.pair(r, v, inner)
        if kind == "count":
            select.where.append(f"{inner.alias}.{y} = {v.alias}.{x}")
        elif kind != "exists" and r.random() < 0.2 and "g" in v.columns:
            select.where.append(f"{inner.alias}.g = {v.alias}.g")
        rises = "{y}"
        if kind == "extreme" and v.columns[x].family == inner.columns[y].family and self.computes():
            rises = predicates.rising(r, v.columns[x])
        column, value = rises.format(y=v.key(r, x)), rises.format(y=f"{inner.alias}.{y}")
        made = self.compared(column, select, value, kind)
        if kind == "in" and r.random() < 0.25:
            # A tuple takes no casts from one family to another.
            x, y = predicates.pair(r, v, inner)
            select.items.append(Item(f"{inner.alias}.{y}", "z"))
            made.before = made.before.replace(column, f"({column}, {v.alias}.{x})")
        return made
