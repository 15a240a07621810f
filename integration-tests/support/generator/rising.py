"""Statements whose key is monotone in a column of the large table: TopKs, values of subqueries and joins."""

from __future__ import annotations

import random

from . import predicates
from .data import Table
from .model import Item, Join, Order, Select, Source, Statement
from .predicates import Visible

# By family of a column {y}; none overflows.
_RISING: dict[str, tuple[str, ...]] = {
    "integer": (
        "CAST({y} AS BIGINT)",
        "CAST({y} AS DOUBLE)",
        "CAST({y} AS DECIMAL(20, 1))",
        "{y} DIV 7",
        "CAST({y} AS BIGINT) DIV 100",
        "CAST({y} AS DECIMAL(38, 0))",
        "-({y} DIV 7)",
        "5 - {y} DIV 3",
        "coalesce({y}, 3)",
        "coalesce({y} DIV 7, -1)",
    ),
    "decimal": ("CAST({y} AS DECIMAL(38, 6))",),
    "date": (
        "coalesce({y}, DATE'2020-02-01')",
        "trunc({y}, 'MONTH')",
        "year({y})",
        "trunc({y}, 'WEEK')",
        "-year({y})",
    ),
    "TIMESTAMP": (
        "to_date({y})",
        "date_trunc('HOUR', {y})",
        "date_trunc('WEEK', {y})",
        "year({y})",
        "year(to_date({y}))",
        "CAST({y} AS TIMESTAMP_NTZ)",
    ),
    "TIMESTAMP_NTZ": ("to_date({y})", "year({y})"),
}
_DIRECTIONS = ("ASC", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST")
_OPERATORS = ("=", "<", "<=", ">", ">=", "<=>")


def statement(r: random.Random, tables: list[Table]) -> Statement:
    """A random statement whose rows SQL fixes."""
    fact = r.choice([t for t in tables if t.is_large])
    v = Visible.of(fact, "a")
    names = [k for k in v.key_columns() if fact.columns[k].family in _RISING]
    name = r.choice(names)
    expressions = _RISING[fact.columns[name].family]
    place = "st.inner." if r.random() < 0.3 else ""
    key = r.choice(("{y}", *expressions) if place else expressions).format(y=f"a.{place}{name}")
    select = Select([Item("a.id", "id"), Item("a.g", "g")], Source("a", fact.name))
    if r.random() < 0.5:
        select.where = [predicates.where(r, v, selective=False)]
    kind = r.choice(("topk", "topk", "extreme", "subquery", "join", "range"))
    if kind == "topk":
        # Ordered by the key itself, or by a column that a projection makes of it.
        select.items.append(Item(key, "y"))
        order = [Order("y", r.choice(_DIRECTIONS)), Order("id", r.choice(_DIRECTIONS))]
        return Statement(select, order=order, limit=r.choice((1, 3, 20, 200)))
    if kind == "extreme":
        select.items = [Item(f"{f}({key})", f) for f in r.choice((("min",), ("max",), ("min", "max")))]
        return Statement(select)
    other = r.choice([t for t in tables if t is not fact and t.rows >= 3 and name in t.columns])
    w = Visible.of(other, "b")
    value = key.replace("a.st.inner.", "a.").replace("a.", "b.")
    if kind == "subquery":
        where = predicates.where(r, w, selective=other.rows > 60)
        extreme = Item(f"{r.choice(('min', 'max'))}({value})", "y")
        inner = Select([extreme], Source("b", other.name), where=[where])
        select.where.append(f"{key} {r.choice(_OPERATORS)} ({inner.sql()})")
    elif kind == "range":
        join = Join(r.choice(("JOIN", "LEFT SEMI JOIN", "RIGHT JOIN")), Source("b", other.name))
        ends = r.choice(((">=", "<="), (">", "<"), (">=",), ("<",)))
        join.on = [f"{key} {end} {value}" for end in ends] + [predicates.where(r, w, selective=True)]
        if join.kind == "RIGHT JOIN":
            join.on = join.on[:-1]
            select.where.append("b.id % 5 = 1")
        select.joins = [join]
        select.hints = [r.choice(("DYNAMIC_FILTER(a), BROADCAST(b)", "BROADCAST(b)"))]
        select.items = [Item("count(*)", "n"), Item("sum(a.id)", "s")]
    else:
        join = Join(r.choice(("JOIN", "LEFT SEMI JOIN")), Source("b", other.name))
        join.on = [f"{key} {r.choice(('=', '<=>'))} {value}", predicates.where(r, w, selective=True)]
        select.joins = [join]
        select.hints = [f"DYNAMIC_FILTER(a), {r.choice(('BROADCAST', 'MERGE'))}(b)"]
        select.items = [Item("count(*)", "n"), Item("sum(a.id)", "s")]
    return Statement(select)
