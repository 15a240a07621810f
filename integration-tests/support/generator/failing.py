"""Statements with expressions that have a value in stock Spark, and fail for rows that filters exclude.

Divisions by what is zero only for a part of a group, of a window, or without a match; casts, arithmetic and
functions of values that only such a part shows, of rows that another predicate excludes, or that an anti join
drops. Each with guards and without: where nothing can fail, rows are to be skipped.

The tables are made for it: each key has rows of type A, which filters leave out by row groups, or by files,
and rows of other types, of which all row groups have all keys.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from .data import Table, forget
from .model import AnyOf, Condition, Cte, Item, Join, Order, Select, SetOperation, Source, Statement, Subquery
from .relations import SIDE_HINTS

KEYS = 600

# Values that fail in nothing, and those that fail in much.
_COLUMNS: dict[str, tuple[pa.DataType, tuple[Any, ...], tuple[Any, ...]]] = {
    "bi": (pa.int32(), (1, 2, 7), (2**31 - 1, -(2**31), 0)),
    "bl": (pa.int64(), (1, 2, 7), (2**63 - 1, -(2**63), 0)),
    "db": (pa.float64(), (1.5, 2.25), (float("nan"), float("inf"), 1e300, -1e300, 0.0)),
    "de": (pa.decimal128(38, 0), (Decimal(1), Decimal(2)), (Decimal(10**38 - 1), Decimal(1 - 10**38))),
    "ds": (pa.decimal128(17, 2), (Decimal("1.25"),), (Decimal("999999999999999.99"), Decimal("0.00"))),
    "dt": (pa.date32(), (18_000, 18_100), (2**31 - 1, -(2**31))),
    "ts": (pa.timestamp("us", "UTC"), (10**15, 10**15 + 7), (2**63 - 1, 1 - 2**63)),
    "nt": (pa.timestamp("us"), (10**15, 10**15 + 7), (2**63 - 1, 1 - 2**63)),
    "st": (pa.string(), ("5", "2"), ("x", "", "1e9", "99999999999")),
    "pt": (pa.string(), ("%", "_"), ("a\\b", "c\\")),
}


def _parsed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.replace("\n", ";").split(";") if part.strip())


# By column {c}: what fails for some of its bad values, and what may seem to.
_OF_COLUMNS = {
    "bi": """{c} + 1; -{c}; abs({c}); {c} * 2; {c} - 8; round({c}, -1); CAST({c} AS TINYINT); 10 DIV {c}
        CAST({c} AS BIGINT) * 4; CAST({c} AS DECIMAL(5, 1)); date_add(DATE '2020-01-01', {c}); 8.0D / {c}
        year(date_add(DATE '2020-01-01', {c})); substring('abc', {c}, {c}); CAST({c} AS FLOAT); {c} % -1
        abs(CAST({c} AS BIGINT)) + 1; ~{c}; {c} DIV -1; datediff(DATE '2020-01-01', '1970-01-01')""",
    "bl": """{c} + 1L; -{c}; {c} DIV -1; {c} % -1L; CAST({c} AS INT); {c} * 2; abs({c}); 10 % {c}; {c} / 3
        CAST({c} AS DECIMAL(20, 0)) + 1; CAST({c} AS TIMESTAMP); CAST({c} AS DECIMAL(18, 0)); xxhash64({c})
        CAST({c} AS DOUBLE) % 1; timestamp_micros({c}); try_add({c}, 1L); {c} & 7; {c} DIV nullif({c}, 0)""",
    "su": "CAST({c} AS STRING); {c} IS NULL; {c} % 3; {c} / 3",
    "db": """CAST({c} AS BIGINT); CAST({c} AS DECIMAL(10, 2)); ceil({c}); round({c}, 2); 1.0D / {c}; {c} % 3
        {c} * 1e300D; sqrt({c}); ln({c}); pow({c}, 5); bround({c}, -2); floor({c}); rint({c}); -{c}""",
    "de": """{c} + 1; {c} * 10; ceil({c}); round({c}, -2); CAST({c} AS BIGINT); -{c}; abs({c}); 1 / {c}
        CAST({c} AS DOUBLE); CAST({c} AS DECIMAL(38, 1)); {c} % 7; try_multiply({c}, 10)""",
    "ds": "{c} + 1; {c} * {c}; ceil({c}); round({c}, 1); floor({c}); 1 / {c}; {c} % {c}; 1 / nullif({c}, 0)",
    "dt": """CAST({c} AS TIMESTAMP); add_months({c}, 1); year({c}); date_add({c}, 1); CAST({c} AS STRING)
        datediff({c}, DATE '1960-01-01'); CAST({c} AS TIMESTAMP_NTZ); quarter({c}); trunc({c}, 'MM')""",
    "ts": "CAST({c} AS DATE); CAST({c} AS STRING); CAST({c} AS TIMESTAMP_NTZ); {c} + INTERVAL 1 DAY",
    "nt": "CAST({c} AS TIMESTAMP); CAST({c} AS STRING); CAST({c} AS DATE); {c} > TIMESTAMP '2020-01-01'",
    "st": """CAST({c} AS INT); CAST({c} AS DECIMAL(5, 0)); to_number({c}, '9'); {c} + 1; try_cast({c} AS INT)
        upper({c}); length({c}) + 1; concat_ws('-', {c}, '1'); 1 DIV length({c}); trim({c}); {c} > 3""",
    "pt": "'abc' LIKE {c}; {c} LIKE '%a'; concat({c}, {c}); contains({c}, 'a'); 'a' LIKE concat('%', {c})",
}

# Of an integer {z} that is 1 or 2 in stock Spark; of a part it may be 0. First what fails, then with guards,
# then what Spark may compute once for several places.
_OF_COUNTS = """
    100 DIV {z}; 100 / {z}; 100 % {z}; pmod(100, {z}); element_at(array(7, 8), CAST({z} AS INT))
    array(7, 8)[{z} - 1]; CAST(IF({z} > 0, '5', 'x') AS INT); IF({z} > 0, 1, raise_error('lost'))
    make_date(2020, CAST({z} AS INT), 1); 9223372036854775806L + (2 - {z}); CAST(128 - {z} AS TINYINT)
    CAST(10 - {z} AS DECIMAL(1, 0)); split_part('a,b', ',', CAST({z} AS INT)); INTERVAL 1 DAY / {z}
    elt(CAST({z} AS INT), 'a', 'b'); slice(array(1, 2), CAST({z} AS INT), 1)[0]; assert_true({z} > 0)
    CASE WHEN {z} = 0 THEN 1 DIV {z} ELSE 3 END; 'abc' LIKE IF({z} > 0, '%', 'a\\\\b')

    CASE WHEN {z} > 0 THEN 100 / {z} END; 100 / nullif({z}, 0); IF({z} = 0, NULL, 100 DIV {z})
    CASE WHEN {z} <= 0 THEN -1 WHEN 100 / {z} > 60 THEN 1 ELSE 100 / {z} END; 100 % nullif({z}, 0)
    ({z} > 0 AND 100 / {z} > 60); ({z} = 0 OR 100 / {z} > 60); try_divide(100, {z}); {z} + 0.5D
    100 DIV nullif({z} - 3, 0); CASE WHEN NOT {z} = 0 THEN 7 % {z} END; coalesce(100 / nullif({z}, 0), -1)
    CASE WHEN {z} <> 0 AND 100 / {z} > 60 THEN 9 / {z} ELSE 0 END; greatest(100 / nullif({z}, 0), {z})

    concat_ws('', {z} > 0 AND 100 / {z} > 60, {z} > 0 AND 100 / {z} < 80)
    ({z} > 0 AND 100 / {z} > 60) = ({z} > 0 AND 100 / {z} < 80)
    ({z} > 0 AND 100 / {z} > 60) OR ({z} >= 1 AND 100 / {z} < 45)
    CASE WHEN {z} <= 0 OR 100 / {z} > 60 THEN 1 WHEN 100 / {z} > 30 THEN 2 ELSE 3 END
    coalesce({z} > 0 AND 100 / {z} > 60, {z} > 0 AND 100 / {z} > 2)"""
_COUNTS = """sum(IF(a.type = 'A', 1, 0)); count(IF(a.type = 'A', 1, NULL)); max_by(a.y, a.pr); max(a.y)
    count(*) FILTER (WHERE a.type = 'A'); coalesce(min(a.y) FILTER (WHERE a.type = 'A'), 0)
    count(DISTINCT a.pr) * max(a.pr) % 3; sum(a.y) DIV (max(a.pr) * 9) + max(a.y)"""
_WINDOW = "OVER (PARTITION BY a.k ORDER BY a.pr DESC, a.id)"
_OVER = f"max(a.y) OVER (PARTITION BY a.k); first_value(a.y) {_WINDOW}; sum(a.y) {_WINDOW}"
_FEW = "d.n < 30; d.n IN (77, 99); d.n < 300; d.n >= 100; d.n BETWEEN 200 AND 240; d.n % 50 = 3; d.n > 40"
_GUARDS = ("{z} > 0", "{z} <> 0", "{z} BETWEEN 1 AND 2", "NOT {z} = 0", "({z} = 1 OR {z} = 2)")
_PARTS = ("fparts", "fboth")


def statement(r: random.Random, tables: list[Table]) -> Statement:
    """A random statement whose rows SQL fixes. It reads tables of its own."""
    return _Maker(r).statement()


@contextmanager
def tables(spark: SparkSession, folder: Path, seed: int) -> Iterator[list[Table]]:
    """`fparts` with rows of several types, `fall` with all keys and bad values, `flooked` with good ones.

    `fbad` has the rows of `fparts` that are not of type A. `fmid` and `fdim` are build sides. No file can be
    left out of `fonly`; `fboth` is `fparts`, where only rows of type A have a filter.
    """
    r = random.Random(f"failing/{seed}")
    keys = list(range(KEYS))
    a = [k for k in keys for _ in range(r.choice((1, 1, 2)))]
    b = [k for _ in range(r.choice((2, 5))) for k in r.sample(keys, KEYS)]
    parts = {"A": _rows(r, a, "A", 0), "B": _rows(r, b, "B", len(a))}
    layout = r.choice(("files", "files", "partitions", "one"))
    made = {
        "fall": _rows(r, r.sample(keys, KEYS), "B", 0),
        "flooked": _rows(r, keys, "A", 0),
        "fbad": parts["B"].select(["k", "id"]),
        "fmid": pa.table({"k": keys, "j": [k * 7 % KEYS for k in keys]}),
        "fdim": pa.table({"j": keys, "n": keys, "t": [f"t{k}" for k in keys]}),
    }
    _write_parts(folder / "fparts", layout, parts, r.random() < 0.5)
    for name, table in made.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(table, folder / name / "part-0.parquet", row_group_size=40)
    rows = {"fparts": sum(t.num_rows for t in parts.values())} | {n: t.num_rows for n, t in made.items()}
    for name in rows:
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    selects = (
        f"SELECT /*+ {no}DYNAMIC_FILTER(fparts) */ * FROM fparts WHERE type {test} 'A'"
        for no, test in (("", "="), ("NO_", "<>"))
    )
    spark.sql(f"CREATE OR REPLACE TEMP VIEW fboth AS {' UNION ALL '.join(selects)}")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW fonly AS SELECT id * 7 % {KEYS} AS k FROM range({KEYS})")
    try:
        yield [Table(name, n, {}, folder / name, layout == "partitions") for name, n in rows.items()]
    finally:
        # What reads another view first.
        forget(spark, ("fboth", "fonly", *rows))


def _rows(r: random.Random, keys: list[int], kind: str, first: int) -> pa.Table:
    """Rows of one type: those of type A have good values, `pr` is greater for them, and `y` 1 or 2, else 0.

    The sums of `su` have no room for the rows of other types alone.
    """
    good, n = kind == "A", len(keys)
    columns: dict[str, Any] = {
        "k": keys,
        "id": range(first, first + n),
        "type": [kind] * n if good else [r.choice("BC") for _ in range(n)],
        "y": pa.array([k % 2 + 1 if good else 0 for k in keys], pa.int32()),
        "pr": pa.array([2 if good else 1] * n, pa.int32()),
        "su": [-(2**62) if good else 2**62 if i < 2 * KEYS else 0 for i in range(n)],
    }
    for name, (arrow, fine, bad) in _COLUMNS.items():
        values = [fine[k % len(fine)] if good else r.choice(bad) for k in keys]
        columns[name] = pa.array(values, pa.int64() if pa.types.is_timestamp(arrow) else arrow).cast(arrow)
    return pa.table(columns)


def _write_parts(path: Path, layout: str, parts: dict[str, pa.Table], first: bool) -> None:
    path.mkdir(parents=True)
    if layout == "one":
        # In one task, rows of one type before those of the other.
        table = pa.concat_tables([parts[t] for t in (("A", "B") if first else ("B", "A"))])
        pq.write_table(table, path / "all.parquet", row_group_size=60)
        return
    for name, table in parts.items():
        step = -(-table.num_rows // (3 if name == "A" else 1))
        for i in range(0, table.num_rows, step):
            part, place = table.slice(i, step), path
            if layout == "partitions":
                part, place = part.drop_columns(["type"]), path / f"type={name}"
                place.mkdir(exist_ok=True)
            pq.write_table(part, place / f"{name}-{i}.parquet", row_group_size=50 if name == "A" else 600)


class _Maker:
    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.column = r.choice(sorted(_COLUMNS))

    # ---- expressions of an integer and a column, as SQL writes them

    def expression(self, z: str, c: str) -> str:
        if self.r.random() < 0.55:
            return self._counted(self.r.choice(_parsed(_OF_COUNTS)), z)
        text = self.r.choice(_parsed(_OF_COLUMNS[self.column])).replace("{c}", c)
        return f"IF({z} > 0, {text}, NULL)" if self.r.random() < 0.15 else text

    def _counted(self, text: str, z: str) -> str:
        return text.replace("{z}", f"({z})" if "(" in z else z)

    def condition(self, z: str, c: str) -> str:
        return f"coalesce(CAST({self.expression(z, c)} AS STRING), '') <> 'none'"

    def guarded(self, z: str, c: str) -> list[str]:
        """Conditions the first of which is a guard of the second."""
        guard, condition = self._counted(self.r.choice(_GUARDS), z), self.condition(z, c)
        one = (f"(NOT ({guard}) OR {condition})", f"IF({guard}, {condition}, FALSE)")
        return [guard, condition] if self.r.random() < 0.6 else [self.r.choice(one)]

    # ---- results with columns k and q

    def inner(self) -> Select:
        kinds = ("groups", "window", "matches", "exists", "anti", "scan")
        made: Select = getattr(self, f"_{self.r.choices(kinds, (8, 2, 3, 1, 1, 2))[0]}")()
        if self.r.random() < 0.85:
            return made
        items = [Item("i.k", "k"), Item("max(CAST(i.q AS STRING))", "q")]
        return Select(items, Source("i", select=made), group=["i.k"])

    def _of(self, select: Select, z: str, c: str, where: list[Condition] | list[str]) -> Select:
        """Adds column q of these."""
        select.items.append(Item(self.expression(z, c), "q"))
        if self.r.random() < 0.35:
            where.extend(self.guarded(z, c))
        return select

    def _above(self, select: Select, c: str, column: str = "") -> Select:
        """Of a result with columns k, z and c, which is of the column's type."""
        self.column = column or self.column
        select.items.append(Item(c, "c"))
        above = Select([Item("b.k", "k")], Source("b", select=select))
        return self._of(above, "b.z", "b.c", above.where)

    def _groups(self) -> Select:
        base = Source("a", self.r.choice(_PARTS))
        z, c = self.r.choice(_parsed(_COUNTS)), f"max_by(a.{self.column}, a.pr)"
        hints = ["DYNAMIC_FILTER(a)"] if base.table == "fparts" and self.r.random() < 0.5 else []
        if self.r.random() < 0.2:
            items = [Item(f"a.{n}", n) for n in ("k", "type")]
            items += [Item(f"min(a.{n})", n) for n in ("y", "pr", self.column)]
            lower = Select(items, base, group=["a.k", "a.type"], hints=hints)
            base, hints = Source("a", select=lower), []
        select = Select([Item("a.k", "k")], base, group=["a.k"], hints=hints)
        if self.r.random() < 0.5:
            return self._of(select, z, c, select.having)
        select.items.append(Item(z, "z"))
        return self._above(select, c)

    def _window(self) -> Select:
        select = Select(
            [Item("a.k", "k"), Item(self.r.choice(_parsed(_OVER)), "z")], Source("a", self.r.choice(_PARTS))
        )
        is_sum = self.r.random() < 0.3
        value = "sum(a.su)" if is_sum else f"first_value(a.{self.column})"
        result = self._above(select, f"{value} {_WINDOW}", "su" if is_sum else "")
        result.distinct = True
        return result

    def _matches(self) -> Select:
        """Rows that have a match each."""
        r = self.r
        u, looked = Source("u", r.choice(("fall", "fall", "fonly"))), Source("l", "flooked")
        select = Select([Item("u.k", "k"), Item("coalesce(l.y, 0)", "z")], u)
        select.hints = [r.choice(("", "NO_", "NO_")) + "DYNAMIC_FILTER(u)", "DYNAMIC_FILTER(l)"]
        how = r.random()
        if how < 0.25:
            single = f"(SELECT {r.choice(('max(l.y)', 'l.y'))} FROM flooked l WHERE l.k = u.k)"
            select.items[1].text, select.hints = f"coalesce({single}, 0)", select.hints[:1]
            return self._above(select, "u.k", "su")
        select.joins = [Join("LEFT JOIN", looked, ["u.k = l.k"])]
        if how < 0.5:
            select.base, select.joins = looked, [Join("RIGHT JOIN", u, ["u.k = l.k"])]
        of_both = u.table == "fall"
        return self._above(
            select, f"coalesce(l.{self.column}, u.{self.column})" if of_both else f"l.{self.column}"
        )

    def _exists(self) -> Select:
        """The expression is asked for where there is no match: in stock Spark nowhere."""
        inner = Select([Item("1", "o")], Source("l", "flooked"), where=["l.k = u.k"])
        select = Select([Item("u.k", "k"), Item("u.y", "q")], Source("u", "fall"))
        select.where = [AnyOf([Subquery("EXISTS", inner), self.condition("u.y", f"u.{self.column}")])]
        select.hints = ["NO_DYNAMIC_FILTER(u)"]
        return select

    def _anti(self) -> Select:
        inner = Select([Item("1", "o")], Source("x", "fbad"), where=["x.k = a.k", "x.id = a.id"])
        select = Select([Item("a.k", "k"), Item("a.y", "z")], Source("a", "fparts"))
        select.where, select.hints = [Subquery("NOT EXISTS", inner)], ["NO_DYNAMIC_FILTER(a)"]
        return self._above(select, f"a.{self.column}")

    def _scan(self) -> Select:
        """Rows of one type only, by a guard before the predicate."""
        select = Select([Item("a.k", "k")], Source("a", "fparts"), where=["a.type = 'A'"])
        select.where.append(self.condition("a.y", f"a.{self.column}"))
        return self._of(select, "a.y", f"a.{self.column}", select.where)

    # ---- statements

    def statement(self) -> Statement:
        r = self.r
        inner = self.inner()
        how = r.random()
        if how < 0.1:
            inner.items[-1].as_text = True
            return Statement(inner, order=[Order("k", r.choice(("", "DESC")))], limit=r.choice((1, 5, 20)))
        if how < 0.15 and not inner.group:
            return Statement(
                Select([Item("max(e.k)", "x"), Item("min(e.k)", "y")], Source("e", select=inner))
            )
        if how < 0.3:
            selects = [self._joined(Source("s", "c")) for _ in range(2)]
            return Statement(SetOperation("UNION ALL", selects), [Cte("c", inner)])
        joined = self._joined(Source("s", select=inner))
        if how < 0.5:
            joined.items = [Item("count(s.q)", "n"), Item("max(CAST(s.q AS STRING))", "m")]
        return Statement(joined)

    def _joined(self, s: Source) -> Select:
        """With a small table that has few of the keys."""
        r = self.r
        few, d = r.choice(_parsed(_FEW)), Source("d", "fdim")
        select = Select([Item("s.k", "k"), Item("s.q", "q", as_text=True)], s, where=[few])
        how = r.random()
        if how < 0.2:
            # The filter leaves out rows of a table that makes another filter.
            select.joins = [Join("JOIN", Source("m", "fmid"), ["s.k = m.k"]), Join("JOIN", d, ["m.j = d.j"])]
        elif how < 0.35:
            select.where, select.joins = [], [Join("LEFT SEMI JOIN", d, ["s.k = d.j", few])]
        elif how < 0.5:
            select.base, select.joins = d, [Join("LEFT JOIN", s, ["d.j = s.k"])]
        else:
            select.joins = [Join("JOIN", d, ["s.k = d.j"])]
            if r.random() < 0.25:
                select.joins[0].on.append("CAST(s.q AS STRING) <> d.t")
        if hint := r.choice(("", "", *SIDE_HINTS)):
            select.hints = [f"{hint}(d)"]
        return select
