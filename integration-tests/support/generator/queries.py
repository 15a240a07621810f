"""Whole statements: what is made of joined relations."""

from __future__ import annotations

import random

from .data import Table
from .kinds import BIGINT, INT, Kind
from .model import Cte, Item, Order, Select, SetOperation, Source, Statement
from .predicates import Visible
from .relations import Block, Relations

_DIRECTIONS = ("", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST")
_LIMITS = (1, 3, 10, 50, 400, 3_000)


def statement(r: random.Random, tables: list[Table]) -> Statement:
    """A random statement whose rows SQL fixes, but for ties at a LIMIT."""
    relations = Relations(r, tables)
    ctes = []
    if r.random() < 0.12:
        ctes.append(_cte(relations))
    block = relations.block(joins=r.choice((0, 0, 1, 1, 1, 1, 2, 2, 3, 4)))
    makes = (
        (_plain, 8),
        (_topk, 8 if len(block.visible) > 1 else 20),
        (_grouped, 5),
        (_grouped_topk, 3),
        (_extremes, 4),
        (_window, 3),
        (_set_operation, 2),
        (_distinct, 2),
    )
    make = r.choices([m for m, _ in makes], [w for _, w in makes])[0]
    result = make(r, block)
    result.ctes = ctes
    return result


def _cte(relations: Relations) -> Cte:
    """A named subquery, read more than once."""
    r = relations.r
    if r.random() < 0.5:
        source, v = relations.subquery(large=r.random() < 0.5)
        assert source.select is not None
        select: Select | SetOperation = source.select
    else:
        block = relations.block(joins=1, depth=0)
        chosen: dict[str, Kind] = {}
        items = []
        for name, kind in block.columns().items():
            column = name.split(".")[-1]
            if column not in chosen and (column in ("id", "g") or r.random() < 0.5):
                chosen[column] = kind
                items.append(Item(name, column))
        select = block.select(items)
        v = Visible("", chosen, (), block.visible[0].rows)
    relations.named.append(Visible("c", v.columns, v.unique, v.rows))
    return Cte("c", select)


def _items(r: random.Random, block: Block, most: int = 5) -> list[Item]:
    columns = block.columns()
    names = r.sample(sorted(columns), min(r.randrange(1, most + 1), len(columns)))
    return [_item(columns[name], name, i) for i, name in enumerate(names)]


def _item(kind: Kind, text: str, number: int) -> Item:
    return Item(text, f"c{number}", kind.as_text)


def _plain(r: random.Random, block: Block) -> Statement:
    result = Statement(block.select(_items(r, block)))
    if r.random() < 0.08:
        # Any rows will do, but there must be so many.
        result.limit = r.choice(_LIMITS)
    return result


def _topk(r: random.Random, block: Block) -> Statement:
    items = _items(r, block)
    keys = r.sample(items, min(r.choice((1, 1, 2, 3)), len(items)))
    order = [Order(i.alias, r.choice(_DIRECTIONS)) for i in keys]
    if block.total and r.random() < 0.4:
        # No ties.
        for unique in block.total:
            items.append(Item(unique, f"c{len(items)}"))
            order.append(Order(items[-1].alias, r.choice(_DIRECTIONS)))
    return Statement(
        block.select(_spread(items, block)),
        order=order,
        limit=r.choice(_LIMITS),
        offset=r.randrange(30) if r.random() < 0.15 else 0,
    )


def _spread(items: list[Item], block: Block) -> list[Item]:
    """Says of each column of a key anew whether it is compared as text."""
    columns = block.columns()
    return [Item(i.text, i.alias, columns[i.text].as_text) for i in items]


def _aggregates(r: random.Random, block: Block, first: int) -> list[Item]:
    columns = block.columns()
    made = [Item("count(*)", f"c{first}")]
    for name in r.sample(sorted(columns), min(3, len(columns))):
        kind = columns[name]
        number = first + len(made)
        how = r.random()
        if how < 0.6:
            made.append(_item(kind, f"{r.choice(('min', 'max'))}({name})", number))
        elif how < 0.75:
            made.append(Item(f"count(DISTINCT {name})", f"c{number}"))
        elif how < 0.9 and kind in (INT, BIGINT) and not name.split(".")[-1].startswith(("k_", "j_")):
            made.append(Item(f"sum({name})", f"c{number}"))
        else:
            made.append(Item(f"count({name})", f"c{number}"))
    return made


def _grouped(r: random.Random, block: Block) -> Statement:
    items = _items(r, block, most=2)
    group = [i.text for i in items]
    select = block.select(items + _aggregates(r, block, len(items)))
    select.group = group
    select.rollup = r.random() < 0.12
    if r.random() < 0.3:
        select.having = [r.choice(("count(*) > 1", "count(*) >= 3", f"max({group[0]}) IS NOT NULL"))]
    return Statement(select)


def _grouped_topk(r: random.Random, block: Block) -> Statement:
    result = _grouped(r, block)
    assert isinstance(result.body, Select)
    keys = result.body.items[: len(result.body.group)]
    result.order = [Order(i.alias, r.choice(_DIRECTIONS)) for i in keys]
    if r.random() < 0.2:
        result.order.insert(0, Order(result.body.items[-1].alias, "DESC"))
    result.limit = r.choice(_LIMITS[:4])
    return result


def _extremes(r: random.Random, block: Block) -> Statement:
    columns = block.columns()
    names = r.sample(sorted(columns), min(r.choice((1, 1, 2)), len(columns)))
    items = []
    for name in names:
        for function in r.sample(("min", "max"), r.choice((1, 1, 2))):
            items.append(_item(columns[name], f"{function}({name})", len(items)))
    if r.random() < 0.15:
        items.append(Item("count(*)", f"c{len(items)}"))
    return Statement(block.select(items))


def _window(r: random.Random, block: Block) -> Statement:
    """The best rows of each group, or of all."""
    items = _spread(_items(r, block, most=4), block)
    columns = sorted(block.columns())
    partition = f"PARTITION BY {r.choice(columns)} " if r.random() < 0.75 else ""
    order = f"{r.choice(columns)} {r.choice(_DIRECTIONS)}"
    function = r.choice(("rank()", "rank()", "dense_rank()", "max({})", "count(*)"))
    if block.total and r.random() < 0.5:
        function = "row_number()"
        order += "".join(f", {u}" for u in block.total)
    if function == "max({})":
        function = f"count({r.choice(columns)})"
    over = f"{function} OVER ({partition}ORDER BY {order})"
    inner = block.select([*items, Item(over, "rn")])
    outer = [Item(f"w.{i.alias}", i.alias, i.as_text) for i in items] + [Item("w.rn", "rn")]
    where = r.choice((f"w.rn <= {r.choice((1, 3, 20))}", "w.rn = 1", "w.rn < 5"))
    return Statement(Select(outer, Source("w", select=inner), where=[where] if r.random() < 0.9 else []))


def _set_operation(r: random.Random, block: Block) -> Statement:
    """The block with itself, narrowed in another way on the other side."""
    items = _spread(_items(r, block, most=3), block)
    first = block.select(items)
    second = block.select(items)
    v = r.choice(block.visible)
    second.where = [*second.where, f"{v.alias}.{r.choice(sorted(v.columns))} IS NOT NULL"]
    if "id" in v.columns:
        second.where.append(f"{v.alias}.id % 2 = 0")
    first.hints = second.hints = []
    kind = r.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL"))
    result = Statement(SetOperation(kind, [first, second]))
    if r.random() < 0.4:
        result.order = [Order(i.alias, r.choice(_DIRECTIONS)) for i in items[:2]]
        result.limit = r.choice(_LIMITS)
    return result


def _distinct(r: random.Random, block: Block) -> Statement:
    select = block.select(_spread(_items(r, block, most=2), block))
    select.distinct = True
    result = Statement(select)
    if r.random() < 0.5:
        result.order = [Order(i.alias, r.choice(_DIRECTIONS)) for i in select.items]
        result.limit = r.choice(_LIMITS)
    return result
