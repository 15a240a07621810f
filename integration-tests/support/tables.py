"""Parquet files for the tests: many small row groups, every atomic type, made by different writers. All
seeded.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

ROWS = 4_000
FILES = 4
ROW_GROUP_ROWS = 200

_EPOCH = dt.datetime(2020, 1, 1)
_SPECIAL_DOUBLES = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0)


def _double(r: random.Random) -> float:
    return r.choice(_SPECIAL_DOUBLES) if r.random() < 0.05 else r.uniform(-1e6, 1e6)


def _text(r: random.Random) -> str:
    # Lengths around the 64 bytes at which writers cut their statistics, and characters beyond ASCII.
    return r.choice(["", "a", "Z", "ä", "日本", "\U0001f600"]) + format(r.randrange(10**9), "x") * r.choice(
        [1, 2, 12]
    )


# A value of each type from a random source; the names are the columns' names.
TYPES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "c_boolean": (pa.bool_(), lambda r: r.random() < 0.5),
    "c_tinyint": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "c_smallint": (pa.int16(), lambda r: r.randrange(-(2**15), 2**15)),
    "c_int": (pa.int32(), lambda r: r.randrange(-(2**31), 2**31)),
    "c_bigint": (pa.int64(), lambda r: r.randrange(-(2**63), 2**63)),
    "c_decimal_int": (pa.decimal128(7, 2), lambda r: Decimal(r.randrange(-(10**7) + 1, 10**7)).scaleb(-2)),
    "c_decimal_long": (
        pa.decimal128(15, 4),
        lambda r: Decimal(r.randrange(-(10**15) + 1, 10**15)).scaleb(-4),
    ),
    "c_decimal_big": (pa.decimal128(30, 6), lambda r: Decimal(r.randrange(-(10**24), 10**24)).scaleb(-6)),
    "c_float": (pa.float32(), _double),
    "c_double": (pa.float64(), _double),
    "c_string": (pa.string(), _text),
    "c_binary": (pa.binary(), lambda r: _text(r).encode()),
    "c_date": (pa.date32(), lambda r: dt.date(1950, 1, 1) + dt.timedelta(days=r.randrange(40_000))),
    "c_timestamp": (
        pa.timestamp("us", tz="UTC"),
        lambda r: _EPOCH + dt.timedelta(microseconds=r.randrange(10**15)),
    ),
    "c_timestamp_ntz": (
        pa.timestamp("us"),
        lambda r: _EPOCH + dt.timedelta(microseconds=r.randrange(10**15)),
    ),
}


def all_types(
    rows: int = ROWS, seed: int = 1, nulls: float = 0.05, block: int | None = ROW_GROUP_ROWS
) -> pa.Table:
    """A table of every type.

    Columns: `id` (unique), `seq` (unique, ascending, as in a log written in order of arrival), `grp` (`id`
        modulo
    10), and each of `TYPES`.

    Args:
        nulls: share of nulls in the columns of `TYPES`; they are in every other block only.
        block: in each column, this many rows at a time have values next to each other, in random order, and
            the blocks are in another random order. So statistics of row groups of this size tell much, and
            it does not depend on measured times whether a filter skips rows. None: all rows in random
            order, where they tell nothing.
    """
    r = random.Random(seed)
    ids = _arrange(list(range(rows)), block, r)
    columns: dict[str, pa.Array] = {
        "id": pa.array(ids, pa.int64()),
        "seq": pa.array(range(rows), pa.int64()),
        "grp": pa.array([i % 10 for i in ids], pa.int32()),
    }
    for name, (kind, value) in TYPES.items():
        values = _arrange(sorted((value(r) for _ in range(rows)), key=_order), block, r)
        present = [(i // (block or 1)) % 2 == 1 or r.random() >= 2 * nulls for i in range(rows)]
        if nulls >= 0.5:
            present = [r.random() >= nulls for _ in range(rows)]
        columns[name] = pa.array([v if p else None for v, p in zip(values, present, strict=True)], kind)
    return pa.table(columns)


def _arrange(ordered: list[Any], block: int | None, r: random.Random) -> list[Any]:
    size = block or max(len(ordered), 1)
    blocks = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    for values in blocks:
        r.shuffle(values)
    r.shuffle(blocks)
    return [value for values in blocks for value in values]


def _order(value: Any) -> Any:
    """Spark's order where Python has another one: NaN is above all, text is compared by its bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def write(table: pa.Table, folder: Path, **options: Any) -> Path:
    """Writes a table with pyarrow: `FILES` files in the order of its rows, `ROW_GROUP_ROWS` rows a row group.

    Args:
        **options: of `pyarrow.parquet.write_table`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = {"row_group_size": ROW_GROUP_ROWS, "store_decimal_as_integer": True} | options
    step = -(-table.num_rows // FILES) or 1
    for i in range(FILES):
        pq.write_table(table.slice(i * step, step), folder / f"part-{i}.parquet", **options)
    return folder


def hours(spark: SparkSession, rows: int) -> DataFrame:
    """Ascending `id`, the same with NULLs as `i`, and as `ts` and `ntz` a time, an hour for each."""
    ts = "timestamp_seconds(1577836800 + id * 3600)"
    return spark.range(0, rows, 1, 2).selectExpr(
        "id",
        "CAST(IF(id % 50 = 7, NULL, id) AS INT) AS i",
        f"{ts} AS ts",
        f"CAST({ts} AS TIMESTAMP_NTZ) AS ntz",
        "md5(string(id)) AS payload",
    )


_SMALL_PAGES = {"data_page_size": 128, "write_batch_size": 20, "max_rows_per_page": 20}

# Options of pyarrow's writer; each leaves out or adds something that pruning relies on.
PYARROW_WRITERS: dict[str, dict[str, Any]] = {
    "pages_v1": {"data_page_version": "1.0"},
    "pages_v2": {"data_page_version": "2.0", **_SMALL_PAGES},
    "page_index": {"write_page_index": True, **_SMALL_PAGES},
    "page_index_v2": {"write_page_index": True, "data_page_version": "2.0", **_SMALL_PAGES},
    "no_dictionary": {"use_dictionary": False, "write_page_index": True},
    "no_statistics": {"write_statistics": False},
    "bloom_filter": {"bloom_filter_options": {"c_int": True, "c_string": True}, "write_page_index": True},
    "int96": {"use_deprecated_int96_timestamps": True},
    "uncompressed": {"compression": "none", "write_page_index": True},
    "one_big_row_group": {"row_group_size": ROWS, "write_page_index": True, **_SMALL_PAGES},
}
