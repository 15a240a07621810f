"""Conditions: on one relation, and those that relate two."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .data import Table
from .expressions import BOTH, NEAR, RISING
from .kinds import COLUMNS, RANKS, Kind


@dataclass(frozen=True)
class Visible:
    """A relation that expressions may name.

    Attributes:
        columns: kinds by name.
        unique: columns that no two rows agree in; empty where there are none.
        rows: about how many.
        nested: whether fields of a struct have the keys once more.
    """

    alias: str
    columns: dict[str, Kind]
    unique: tuple[str, ...]
    rows: int
    nested: bool = False

    @classmethod
    def of(cls, table: Table, alias: str) -> Visible:
        """A table by this name."""
        return cls(alias, table.columns, ("id",), table.rows, nested=True)

    def key_columns(self) -> list[str]:
        return [name for name in self.columns if name in COLUMNS]

    def join_keys(self) -> list[str]:
        """Columns by which joins leave few rows."""
        return [name for name in self.key_columns() if name != "k_boolean"]

    def key(self, r: random.Random, name: str) -> str:
        """A key column, at times as the field of the struct."""
        nested = self.nested and name in COLUMNS and r.random() < 0.1
        return f"{self.alias}.{'st.inner.' if nested else ''}{name}"


def where(r: random.Random, v: Visible, selective: bool) -> str:
    """A condition on one relation.

    Args:
        selective: whether it should leave few rows.
    """
    if selective and "id" in v.columns and r.random() < 0.5:
        width = max(v.rows // r.choice((3, 20, 100)), 1)
        start = r.randrange(max(v.rows - width, 1))
        return f"{v.alias}.id BETWEEN {start} AND {start + width}"
    keys = v.join_keys() if selective else v.key_columns()
    if not keys or r.random() < (0.2 if selective else 0.5):
        return _loose(r, v)
    name = r.choice(keys)
    column, kind = f"{v.alias}.{name}", v.columns[name]
    width = r.choice((5, 30, 150)) if selective else r.choice((300, 700))
    start = r.randrange(RANKS - width)
    low, high = (kind.literal(kind.value(x)) for x in (start, start + width))
    return r.choice(
        (
            f"{column} BETWEEN {low} AND {high}",
            f"{column} >= {low} AND {column} < {high}",
            f"{column} IN ({low}, {high}, {kind.literal(kind.value(start + 1))})",
            f"{column} = {low}",
            f"({column} IS NULL OR {column} <= {kind.literal(kind.value(width))})",
        )
    )


def _loose(r: random.Random, v: Visible) -> str:
    choices = [f"{v.alias}.{name} IS {r.choice(('', 'NOT '))}NULL" for name in v.columns]
    if "g" in v.columns:
        choices += [
            f"{v.alias}.g < {r.randrange(1, 9)}",
            f"{v.alias}.g IN (1, 3, NULL)",
            f"{v.alias}.g <> 4",
        ] * 2
    if "p" in v.columns:
        choices += [f"{v.alias}.p = {r.randrange(5)}", f"NOT ({v.alias}.p <= 1)"] * 2
    if "id" in v.columns:
        choices += [f"{v.alias}.id % 3 = {r.randrange(3)}"] * 2
    if "k_string" in v.columns:
        choices += [f"{v.alias}.k_string LIKE '00%'", f"length({v.alias}.k_string) > 5"]
    return r.choice(choices)


# Families that Spark compares by a cast, and that do so without errors.
_MIXED = (
    ("integer", "decimal"),
    ("integer", "float"),
    ("decimal", "float"),
    ("date", "TIMESTAMP"),
    ("date", "TIMESTAMP_NTZ"),
    ("TIMESTAMP", "TIMESTAMP_NTZ"),
)


def pair(r: random.Random, a: Visible, b: Visible) -> tuple[str, str]:
    """Two columns that can be compared, one of each relation, mostly of one family."""
    keys = [(x, y) for x in a.join_keys() for y in b.join_keys()]
    same = [(x, y) for x, y in keys if a.columns[x].family == b.columns[y].family]
    mixed = [(x, y) for x, y in keys if _can_mix(a.columns[x].family, b.columns[y].family)]
    if mixed and (r.random() < 0.07 or not same):
        return r.choice(mixed)
    integers = [(x, y) for x, y in same if a.columns[x].family == "integer"]
    if integers and r.random() < 0.4:
        return r.choice(integers)
    if same:
        return r.choice(same)
    common = [c for c in ("id", "g") if c in a.columns and c in b.columns]
    return (r.choice(common),) * 2 if common else (next(iter(a.columns)), next(iter(b.columns)))


def _can_mix(a: str, b: str) -> bool:
    return (a, b) in _MIXED or (b, a) in _MIXED


def near(r: random.Random, v: Visible, name: str) -> str:
    """A key column, or what is computed of it and of `g` beside it and stays near its values."""
    made = NEAR.get(v.columns[name].family, ()) if "g" in v.columns else ()
    return r.choice(made or ("{y}",)).format(y=f"{v.alias}.{name}", g=f"{v.alias}.g")


def rising(r: random.Random, kind: Kind) -> str:
    """What rises or falls with a column {y}, or the column."""
    return r.choice(("{y}", *RISING.get(kind.family, ())))


def equal(r: random.Random, a: Visible, b: Visible, computed: float = 0.1) -> list[str]:
    """Conditions that make most rows of one relation match few rows of the other.

    Args:
        computed: how often a key is computed.
    """
    x, y = pair(r, a, b)
    kind_x, kind_y = a.columns[x], b.columns[y]
    left, right = a.key(r, x), f"{b.alias}.{y}"
    same = kind_x.family == kind_y.family
    how = r.random()
    if same and r.random() < computed:
        if how < 0.3:
            rises = rising(r, kind_x)
            left, right = rises.format(y=left), rises.format(y=right)
        elif how < 0.7:
            right = near(r, b, y)
        return [f"{left} {r.choice(('=', '=', '=', '<=>'))} {right}"]
    if how < 0.6 or not same:
        return [f"{left} {'<=>' if how < 0.1 else '='} {right}"]
    if how < 0.72:
        return [f"{left} <=> {right}"]
    if how < 0.86:
        return null_safe(r, a, b, x, y)
    return [r.choice(BOTH.get(kind_x.family, ("{x} = {y}",))).format(x=left, y=right)]


def null_safe(r: random.Random, a: Visible, b: Visible, x: str, y: str) -> list[str]:
    """What Spark makes of `<=>`, or what only looks like it: other columns, other literals, other pairs."""
    kind_x, kind_y = a.columns[x], b.columns[y]
    value = r.choice((0, 0, r.randrange(228)))
    other = value if r.random() < 0.7 else r.randrange(228)
    left, right = f"{a.alias}.{x}", f"{b.alias}.{y}"
    first = (
        f"coalesce({left}, {kind_x.literal(kind_x.value(value))}) = "
        f"coalesce({right}, {kind_y.literal(kind_y.value(other))})"
    )
    tests = [(left, right)]
    if r.random() < 0.6:
        # The tests of NULL go crosswise with those of other columns.
        u, w = (f"{v.alias}.{r.choice(list(v.columns))}" for v in (a, b))
        tests = r.choice(
            ([(left, w), (u, right)], [(left, w)], [(u, right)], [(u, w)], [(left, w), (left, right)])
        )
    return [first, *(f"isnull({p}) = isnull({q})" for p, q in tests)]


def between(r: random.Random, a: Visible, b: Visible) -> list[str]:
    """Conditions that a key of one relation is in a range that the other has."""
    x, y = pair(r, a, b)
    rises = rising(r, a.columns[x]) if a.columns[x].family == b.columns[y].family else "{y}"
    ends = r.choice(((">=", "<="), (">", "<"), (">=",), ("<",)))
    return [f"{rises.format(y=a.key(r, x))} {end} {rises.format(y=f'{b.alias}.{y}')}" for end in ends]


def unequal(r: random.Random, a: Visible, b: Visible) -> str:
    """A condition of two relations that is no equality."""
    choices = []
    if "id" in a.columns and "id" in b.columns:
        choices += [f"{a.alias}.id < {b.alias}.id + {r.randrange(50)}", f"{a.alias}.id <> {b.alias}.id"]
    if "g" in a.columns and "g" in b.columns:
        choices += [
            f"{a.alias}.g <> {b.alias}.g",
            f"{a.alias}.g > {b.alias}.g",
            f"{a.alias}.g + {b.alias}.g > 5",
        ]
    x, y = pair(r, a, b)
    choices.append(f"{a.alias}.{x} {r.choice(('<', '>=', '<>'))} {b.alias}.{y}")
    if x in b.columns and a.columns[x].family == b.columns[x].family:
        choices.append(f"({a.alias}.{x} = {b.alias}.{y} OR {a.alias}.{x} = {b.alias}.{x})")
    return r.choice(choices)
