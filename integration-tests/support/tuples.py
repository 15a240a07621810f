"""Tables and assertions for joins by several keys.

In each row group of the probe every key has every value, so that the filters of single keys skip nothing:
what is skipped is skipped by tuples.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from support import joins, tables
from support.joins import Comparer, Run

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

VALUES = 100

# A value of each type for the numbers from 0 to 99.
KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "tinyint": (pa.int8(), lambda n: n),
    "int": (pa.int32(), lambda n: n),
    "bigint": (pa.int64(), lambda n: n),
    "decimal": (pa.decimal128(7, 2), lambda n: Decimal(n).scaleb(-2)),
    "wide_decimal": (pa.decimal128(12, 4), lambda n: Decimal(n).scaleb(-2)),
    "big_decimal": (pa.decimal128(30, 6), lambda n: Decimal(n * 10**18)),
    "double": (pa.float64(), lambda n: float("nan") if n == 7 else -0.0 if n == 8 else 1 + n / 4),
    "string": (pa.string(), lambda n: f"key {n}"),
    "binary": (pa.binary(), lambda n: b"\x00\xff" * n),
    "date": (pa.date32(), lambda n: dt.date(2020, 1, 1) + dt.timedelta(days=n)),
    "timestamp": (pa.timestamp("us", tz="UTC"), lambda n: dt.datetime(2020, 1, 1) + dt.timedelta(hours=n)),
}

Pair = tuple[int | None, int | None]

# Each row group has pairs (n, n + its number) for all n; these are none of them, but have all values.
ELSEWHERE: list[Pair] = [(n, (n + 50) % VALUES) for n in range(VALUES)]
# Neighbouring rows of row group 3.
HITS: list[Pair] = [(6, 9), (7, 10), (8, 11)]
MATCHING = len(HITS) * tables.ROW_GROUP_ROWS // VALUES


# Of rows with nulls, each in one row group only.
HITS_WITH_NULLS: list[Pair] = [(6, None), (None, 10), (None, None)]


def probe() -> list[Pair]:
    """Every second row group has nulls, each beside a value that it has in no other row group."""
    pairs: list[Pair] = []
    for i in range(tables.ROWS):
        group, n = divmod(i, tables.ROW_GROUP_ROWS)
        x, y = n % VALUES, (n + group) % VALUES
        no_x = (group % 2 and n % 50 == group) or (group == 5 and n % 50 == 7)
        no_y = (group % 2 and n % 50 == group + 1) or (group == 5 and n % 50 == 7)
        pairs.append((None if no_x else x, None if no_y else y))
    return pairs


def columns_of(pairs: Iterable[Pair], x: str, y: str) -> dict[str, pa.Array]:
    """Both numbers of the pairs in every type, as `<x>_<type>` and `<y>_<type>`.

    Where the probe has -0.0 the build side has 0.0.
    """
    rows = list(pairs)

    def of(n: int | None, kind: str, name: str) -> Any:
        value = None if n is None else KINDS[kind][1](n)
        return value + 0.0 if kind == "double" and name in "uv" and n is not None else value

    return {
        f"{name}_{kind}": pa.array([of(p[side], kind, name) for p in rows], type_)
        for side, name in enumerate((x, y))
        for kind, (type_, _) in KINDS.items()
    }


def view(spark: SparkSession, folder: Path, name: str, pairs: list[Pair], x: str = "u", y: str = "v") -> str:
    extra = {"id": pa.array(range(len(pairs)), pa.int64())}
    if len(pairs) >= tables.ROWS:
        extra["payload"] = pa.array(
            [format(i * 7919, "x").rjust(60, "abc"[i % 3]) for i in range(len(pairs))]
        )
        options = {"max_rows_per_page": 20, "write_batch_size": 20, "data_page_size": 128}
    else:
        options = {}
    return joins.view(spark, folder, name, pa.table(columns_of(pairs, x, y) | extra), **options)


def compared(spark: SparkSession, folder: Path) -> Comparer:
    """Tables: probes p (keys x, y) and q (m, n); builds b, nothing, half_null and every (u, v)."""
    view(spark, folder, "p", probe(), "x", "y")
    view(spark, folder, "q", probe(), "m", "n")
    view(spark, folder, "b", [*ELSEWHERE, *HITS, *HITS_WITH_NULLS])
    view(spark, folder, "nothing", [])
    view(spark, folder, "half_null", [(n, None) for n in range(50)] + [(None, n) for n in range(50)])
    view(spark, folder, "every", [(x, y) for x in (6, 7) for y in (9, 10)])
    return Comparer(spark)


def tuples_on(run: Run, *columns: str) -> list[Row]:
    """The filters of tuples of these columns, in whatever order."""
    return [f for f in run.filters if sorted(f["columns"] or []) == sorted(columns)]


def assert_by_tuples(run: Run, *columns: str, form: str = "in", rows: int = tables.ROWS) -> None:
    """The filter of tuples was ready, and skipped almost all rows."""
    ready = [f for f in tuples_on(run, *columns) if f["state"] == "ready" and f["generation"] > 0]
    assert ready, f"no filter of tuples of {columns} was ready:\n{run}"
    assert {f["form"] for f in ready} == {form}, str(run)
    ids = {f["filter_id"] for f in ready}
    scans = [s for s in run.scans if ids & set(s["filter_ids"])]
    assert scans, str(run)
    for scan in scans:
        assert scan["rows_pruned"] >= rows - 2 * tables.ROW_GROUP_ROWS, f"few rows were skipped:\n{run}"


def assert_no_tuples(run: Run, *words: str, columns: tuple[str, ...] = ()) -> None:
    """There is no filter of tuples, for a reason with these words."""
    several = [f for f in run.filters if len(f["columns"] or []) > 1]
    assert not any(f["generation"] for f in several), str(run)
    reasons = [f["reason"] or "" for f in (tuples_on(run, *columns) if columns else several)]
    assert any(all(w in reason for w in words) for reason in reasons), f"reasons are {reasons}\n{run}"
