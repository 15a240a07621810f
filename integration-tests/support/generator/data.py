"""Random tables and the Parquet files they are written to."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from .kinds import BIGINT, COLUMNS, INT, RANKS, Kind

_SMALL_PAGES = {"data_page_size": 128, "write_batch_size": 20, "max_rows_per_page": 20}

# By default a filter has room for a million values: writing it to each row group takes half a minute.
_BLOOM = {"ndv": 100, "fpp": 0.05}

# What writers do differently, and what pruning relies on.
_WRITERS: tuple[dict[str, Any], ...] = (
    {"write_page_index": True, **_SMALL_PAGES},
    {"write_page_index": True, "data_page_version": "2.0", **_SMALL_PAGES},
    {"data_page_version": "1.0"},
    {"use_dictionary": False, "write_page_index": True},
    {"write_statistics": False},
    {"bloom_filter_options": dict.fromkeys(("k_int", "j_int", "k_string"), _BLOOM), "write_page_index": True},
    {"use_deprecated_int96_timestamps": True, "write_page_index": True},
    {"compression": "none", "store_decimal_as_integer": False},
)
_SPARK_OPTIONS: tuple[dict[str, str], ...] = (
    {"parquet.block.size": "16384", "parquet.page.size": "1024"},
    {"parquet.block.size": "16384", "parquet.writer.version": "v2"},
    # By default each of these bloom filters is 1 MiB, and a file has a split for each small part of that.
    {
        "parquet.bloom.filter.enabled": "true",
        "parquet.bloom.filter.max.bytes": "1024",
        "parquet.enable.dictionary": "false",
    },
    {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"},
)
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
PARTITIONS = 5


@dataclass(frozen=True)
class Table:
    """A table that queries read.

    Attributes:
        name: of the view.
        rows: how many.
        columns: kinds by name. `id` is unique and never null, `g` has ten values, `p` five and is often
            what the folders of a partitioned table are named by. `st` is not among them, a struct whose
            field `inner` has the keys once more.
        path: of its files.
        partitioned: by `p`.
        is_cached: the view is of what Spark has cached of the files.
        is_older: the view has listed the folder before the last file was there.
    """

    name: str
    rows: int
    columns: dict[str, Kind]
    path: Path
    partitioned: bool
    is_cached: bool = False
    is_older: bool = False

    @property
    def is_large(self) -> bool:
        return self.rows > 600

    def __str__(self) -> str:
        columns = ", ".join(f"{name} {kind.name}" for name, kind in self.columns.items())
        return f"{self.name}: {self.rows} rows, {columns}{', partitioned by p' if self.partitioned else ''}"


def write(spark: SparkSession, folder: Path, seed: int) -> list[Table]:
    """Writes the tables of a seed, and makes views of them: two large, one between, two short, one odd."""
    r = random.Random(seed)
    odd = r.choice((0, 0, 1, 2, 30))
    sizes = (r.randrange(700, 1_400), r.randrange(620, 1_000), r.randrange(100, 300))
    tables = []
    for i, rows in enumerate((*sizes, r.randrange(20, 80), r.randrange(3, 30), odd)):
        tables.append(_write_one(spark, folder, f"t{i}", rows, r, nothing=odd == 30 and i == 5))
    return tables


def cached(spark: SparkSession, tables: list[Table]) -> AbstractContextManager[list[Table]]:
    """The tables, and with them cached ones, of the same rows as a large and two short ones."""
    twins = [replace(t, name=f"cached_{t.name}", is_cached=True) for t in (tables[0], *tables[3:5])]
    for t in twins:
        # At once: stock Spark fails where the first query that reads it has other settings (code generation).
        spark.sql(f"CACHE TABLE {t.name} AS SELECT * FROM {t.name.removeprefix('cached_')}")
    return _with(spark, tables, twins)


def older(spark: SparkSession, tables: list[Table]) -> AbstractContextManager[list[Table]]:
    """The tables, and of those with several files views that do not know the last one."""
    twins = []
    for t in tables:
        files = sorted(t.path.glob("*.parquet"))
        if len(files) > 1:
            # Spark does not list names that begin so.
            hidden = files[-1].rename(files[-1].with_name(f"_{files[-1].name}"))
            twins.append(replace(t, name=f"older_{t.name}", is_older=True))
            spark.read.parquet(str(t.path)).createOrReplaceTempView(twins[-1].name)
            hidden.rename(files[-1])
    return _with(spark, tables, twins)


@contextmanager
def _with(spark: SparkSession, tables: list[Table], twins: list[Table]) -> Iterator[list[Table]]:
    try:
        yield tables + twins
    finally:
        forget(spark, [t.name for t in twins])


def forget(spark: SparkSession, views: Iterable[str]) -> None:
    """Drops views, and what is cached of them."""
    for name in views:
        spark.sql(f"UNCACHE TABLE IF EXISTS {name}")
        spark.sql(f"DROP VIEW IF EXISTS {name}")


def _write_one(
    spark: SparkSession, folder: Path, name: str, rows: int, r: random.Random, nothing: bool
) -> Table:
    options = dict(r.choice(_WRITERS))
    columns = {"id": BIGINT, "g": INT, "p": INT} | {c: r.choice(kinds) for c, kinds in COLUMNS.items()}
    if options.get("use_deprecated_int96_timestamps"):
        # INT96 has no kind without a time zone.
        columns["k_ntz"] = COLUMNS["k_time"][0]
    table = _rows(columns, rows, r, nothing)
    partitioned = rows > 0 and r.random() < 0.25
    by_spark = r.random() < 0.3
    path = folder / name
    plain = folder / f"{name}-plain" if by_spark else path
    _write_files(table, plain, r, options, partitioned and not by_spark)
    if by_spark:
        writer = spark.read.parquet(str(plain)).coalesce(r.choice((1, 2))).write
        writer = writer.options(**r.choice(_SPARK_OPTIONS))
        (writer.partitionBy("p") if partitioned else writer).parquet(str(path))
    spark.read.parquet(str(path)).createOrReplaceTempView(name)
    return Table(name, rows, columns, path, partitioned)


def _rows(columns: dict[str, Kind], rows: int, r: random.Random, nothing: bool) -> pa.Table:
    """Rows of these columns.

    Args:
        nothing: whether all columns but `id` are NULL.
    """
    arrays = {}
    for name, kind in columns.items():
        if name == "id":
            ids = list(range(rows))
            if r.random() < 0.2:
                r.shuffle(ids)
            arrays[name] = pa.array(ids, kind.arrow)
            continue
        if name in ("g", "p"):
            count = 10 if name == "g" else PARTITIONS
            values: list[Any] = [r.randrange(count) if r.random() < 0.95 else None for _ in range(rows)]
        else:
            values = [_values(kind)[rank] for rank in _ranks(rows, r)]
            _spoil(values, kind, r)
        if nothing:
            values = [None] * rows
        arrays[name] = pa.array(values, kind.arrow)
    arrays["st"] = _struct({k: v for k, v in arrays.items() if k not in ("id", "g", "p")}, r)
    return pa.table(arrays)


def _struct(fields: dict[str, pa.Array], r: random.Random) -> pa.StructArray:
    """The keys once more, as fields of a struct in a struct, of which some are NULL."""

    def of(arrays: dict[str, pa.Array]) -> pa.StructArray:
        share = r.choice((0.0, 0.05))
        nulls = pa.array([r.random() < share for _ in next(iter(arrays.values()))], pa.bool_())
        return pa.StructArray.from_arrays(list(arrays.values()), list(arrays), mask=nulls)

    return of({"inner": of(fields)})


@cache
def _values(kind: Kind) -> list[Any]:
    return [kind.value(rank) for rank in range(RANKS)]


def _ranks(rows: int, r: random.Random) -> list[int]:
    """Mostly such that row groups differ in their values: then filters have something to skip."""
    how = r.random()
    if rows > 100:
        ordered = [i * RANKS // rows for i in range(rows)]
        if how < 0.6:
            return ordered
        if how < 0.9:
            size = rows // 16
            blocks = [ordered[start : start + size] for start in range(0, rows, size)]
            r.shuffle(blocks)
            return [rank for block in blocks for rank in block]
        return [r.randrange(RANKS) for _ in range(rows)]
    # Short tables are what filters are made of: values close to each other, so that they exclude much.
    width = r.choice((20, 60, 200, RANKS)) if how < 0.9 else 1
    start = r.randrange(RANKS - width + 1)
    return [start + r.randrange(width) for _ in range(rows)]


def _spoil(values: list[Any], kind: Kind, r: random.Random) -> None:
    """Puts in NULLs and extremes."""
    # NULL equals NULL in some joins: of large tables not more than what they can bear.
    large = len(values) > 100
    nulls = r.choice((0.0, 0.0, 0.03, 0.08 if large else 0.4)) if large or r.random() < 0.95 else 1.0
    extremes = r.choice((0.0, 0.0, 0.003, 0.03))
    for i in range(len(values)):
        draw = r.random()
        if draw < nulls:
            values[i] = None
        elif draw < nulls + extremes:
            values[i] = r.choice(kind.extremes)


def _write_files(
    table: pa.Table, folder: Path, r: random.Random, options: dict[str, Any], partitioned: bool
) -> None:
    # Row groups of one size, some fifteen in a large file.
    size = max(math.ceil(table.num_rows / 30), 10)
    options = {"row_group_size": size, "store_decimal_as_integer": True} | options
    parts: list[tuple[Path, pa.Table]] = [(folder, table)]
    if partitioned:
        keys = table["p"].to_pylist()
        parts = []
        for key in dict.fromkeys(keys):
            chosen = table.filter(pa.array([k == key for k in keys])).drop_columns(["p"])
            parts.append((folder / f"p={_NULL_PARTITION if key is None else key}", chosen))
    files = 1 if partitioned or table.num_rows < 100 else r.choice((1, 2, 3))
    for path, part in parts:
        path.mkdir(parents=True, exist_ok=True)
        step = -(-part.num_rows // files) or 1
        for i in range(files):
            pq.write_table(part.slice(i * step, step), path / f"part-{i}.parquet", **options)
