"""Whole statements: what is made of joined relations."""

from __future__ import annotations

import random
from dataclasses import replace

from .data import Table
from .kinds import BIGINT, INT, Kind
from .model import Cte, Item, Order, Select, SetOperation, Source, Statement
from .relations import Block, Relations

DIRECTIONS = ("", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST")
LIMITS = (1, 3, 10, 50, 400, 3_000)


def statement(r: random.Random, tables: list[Table], computed: bool = False) -> Statement:
    """A random statement whose rows SQL fixes, but for ties at a LIMIT.

    Args:
        computed: whether most keys are to be computed: by casts and arithmetic, above and below an exchange,
            by groups, in branches of a union, and by what rises or falls with a column. What a filter has of
            a key must be what the join has of it: of its type there, of NULL, and of negative, extreme and
            special values.
    """
    relations = Relations(r, tables, computed)
    ctes = []
    if r.random() < 0.12:
        # A named subquery, read more than once.
        source, v = relations.subquery(large=r.random() < 0.5)
        assert source.select is not None
        ctes.append(Cte("c", source.select))
        relations.named.append(replace(v, alias="c"))
    block = relations.block(joins=r.choice((0, 1, 1, 1, 2) if computed else (0, 0, 1, 1, 1, 1, 2, 2, 3, 4)))
    result = made_of(r, block)
    result.ctes = ctes
    return result


def made_of(r: random.Random, block: Block) -> Statement:
    """A statement of the block's columns: some rows, the best ones, groups, extremes and so on."""
    makes = (_plain, _topk, _grouped, _grouped_topk, _extremes, _window, _set_operation, _distinct)
    weights = (8, 8 if block.joins else 20, 5, 3, 4, 3, 2, 2)
    return r.choices(makes, weights)[0](r, block)


def limited(
    r: random.Random, result: Statement, keys: list[Item], limits: tuple[int, ...] = LIMITS
) -> Statement:
    """The best rows of a statement by these of its columns."""
    result.order = [Order(i.alias, r.choice(DIRECTIONS)) for i in keys]
    result.limit = r.choice(limits)
    return result


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
        result.limit = r.choice(LIMITS)
    return result


def _topk(r: random.Random, block: Block) -> Statement:
    items = _items(r, block)
    keys = r.sample(items, min(r.choice((1, 1, 2, 3)), len(items)))
    if block.total and r.random() < 0.4:
        # No ties.
        more = [
            _item(block.columns()[unique], unique, len(items) + i) for i, unique in enumerate(block.total)
        ]
        items, keys = items + more, keys + more
    result = limited(r, Statement(block.select(items)), keys)
    result.offset = r.randrange(30) if r.random() < 0.15 else 0
    return result


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
    limited(r, result, result.body.items[: len(result.body.group)], LIMITS[:4])
    if r.random() < 0.2:
        result.order.insert(0, Order(result.body.items[-1].alias, "DESC"))
    return result


def _extremes(r: random.Random, block: Block) -> Statement:
    columns = block.columns()
    names = r.sample(sorted(columns), min(r.choice((1, 1, 2)), len(columns)))
    items: list[Item] = []
    for name in names:
        for function in r.sample(("min", "max"), r.choice((1, 1, 2))):
            items.append(_item(columns[name], f"{function}({name})", len(items)))
    if r.random() < 0.15:
        items.append(Item("count(*)", f"c{len(items)}"))
    return Statement(block.select(items))


def _window(r: random.Random, block: Block) -> Statement:
    """The best rows of each group, or of all."""
    items = _items(r, block, most=4)
    columns = sorted(block.columns())
    partition = f"PARTITION BY {r.choice(columns)} " if r.random() < 0.75 else ""
    order = f"{r.choice(columns)} {r.choice(DIRECTIONS)}"
    function = r.choice(("rank()", "rank()", "dense_rank()", f"count({r.choice(columns)})", "count(*)"))
    if block.total and r.random() < 0.5:
        function = "row_number()"
        order += "".join(f", {u}" for u in block.total)
    over = f"{function} OVER ({partition}ORDER BY {order})"
    inner = block.select([*items, Item(over, "rn")])
    outer = [Item(f"w.{i.alias}", i.alias, i.as_text) for i in items] + [Item("w.rn", "rn")]
    where = r.choice((f"w.rn <= {r.choice((1, 3, 20))}", "w.rn = 1", "w.rn < 5"))
    return Statement(Select(outer, Source("w", select=inner), where=[where] if r.random() < 0.9 else []))


def _set_operation(r: random.Random, block: Block) -> Statement:
    """The block with itself, narrowed in another way on the other side."""
    items = _items(r, block, most=3)
    first, second = block.select(items), block.select(items)
    v = r.choice(block.visible)
    second.where = [*second.where, f"{v.alias}.{r.choice(sorted(v.columns))} IS NOT NULL"]
    if "id" in v.columns:
        second.where.append(f"{v.alias}.id % 2 = 0")
    first.hints = second.hints = []
    kind = r.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL"))
    result = Statement(SetOperation(kind, [first, second]))
    return limited(r, result, items[:2]) if r.random() < 0.4 else result


def _distinct(r: random.Random, block: Block) -> Statement:
    items = _items(r, block, most=2)
    select = block.select(items)
    select.distinct = True
    return limited(r, Statement(select), items) if r.random() < 0.5 else Statement(select)
