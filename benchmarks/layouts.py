"""The web log on disk: three writers, several sizes, made once.

``<data>/files/<layout>/part-00000.parquet`` and so on hold 2M rows each, in order of arrival. A table of 8M
rows is a folder with hard links to the first four of them: sizes share disk and page cache, yet are files of
their own by path, so what was learned about one table says nothing about another. A marker file, written
last, says that a table is whole.

The layouts differ in what a reader can know about ``EventTime`` without decoding it:

* ``int96``: written by Spark as it comes. INT96 timestamps have no usable statistics.
* ``int64``: written by Spark with ``spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS``.
* ``pyarrow``: INT64 timestamps from another writer: row groups by rows and not by bytes, no page index.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import datafiles
from datafiles import WRITERS
from weblog import BLOCK_ROWS, GENERATOR_VERSION, SCHEMA, Weblog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUTS = ("int96", "int64", "pyarrow")
FILE_ROWS = 2_000_000
ROW_GROUP_ROWS = 1_000_000
DEFAULT_DATA = datafiles.DATA / "weblog"

UNPRUNABLE_ROWS = 10_000  # of a row group
UNPRUNABLE_BLOCKS = 14  # 700,000 rows, below 128 MB, where Spark would split the file in any case


def table(data: Path, layout: str, millions: int, seed: int = 42) -> Path:
    """The folder of the table with ``millions`` of rows in ``layout``, made if it is not there yet."""
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout {layout!r}: choose from {', '.join(LAYOUTS)}")
    rows = millions * 1_000_000
    if rows <= 0 or rows % FILE_ROWS:
        raise ValueError(f"sizes are multiples of {FILE_ROWS // 1_000_000} million rows, not {millions}")
    count = rows // FILE_ROWS
    folder = data / f"{layout}-{millions}m"
    if not datafiles.is_complete(folder, _identity(seed)):
        files = _pyarrow_files(data, count, seed)
        if layout != "pyarrow":
            files = _spark_files(data, layout, files, seed)
        datafiles.start(folder)
        for file in files:
            _link(file, folder / file.name)
        datafiles.complete(folder, _identity(seed))
    return folder


def small_table(data: Path, name: str, rows: int, files: int, row_group_rows: int, seed: int = 42) -> Path:
    """The first ``rows`` rows, by pyarrow, in many small files: for the demo."""
    folder = data / name
    parts = [folder / datafiles.part(i) for i in range(files)]
    jobs = _jobs(parts, seed, rows // files // BLOCK_ROWS, row_group_rows)
    return datafiles.made(folder, _identity(seed), jobs, f"web log of {rows:,} rows")


def unprunable_table(data: Path, seed: int = 42) -> Path:
    """A table where ``ORDER BY WorstKey LIMIT 10000`` can prune nothing, whatever a reader does.

    Each row's key is smaller than all before, so every row passes the bound of its time; the column has
    neither statistics nor a page index, so no other order can be known to be better; a row group has no more
    rows than the limit, so looking at its keys first shows nothing that could be left out; and it is one file
    below Spark's largest split, so it can be read by one task, with no other whose better rows could help.
    """
    folder = data / "unprunable"
    file, blocks = folder / datafiles.part(0), range(UNPRUNABLE_BLOCKS)
    job = partial(_write_blocks, file, seed, blocks, UNPRUNABLE_ROWS, ("WorstKey",))
    return datafiles.made(folder, _identity(seed), [job], "table where nothing can be pruned")


# --- files by pyarrow ---


def _pyarrow_files(data: Path, count: int, seed: int) -> list[Path]:
    folder = _files_folder(data, "pyarrow", seed)
    files = [folder / datafiles.part(i) for i in range(count)]
    jobs = _jobs(files, seed, FILE_ROWS // BLOCK_ROWS, ROW_GROUP_ROWS)
    missing = [job for file, job in zip(files, jobs, strict=True) if not file.exists()]
    datafiles.run_all(datafiles.processes(), missing, "pyarrow files")
    return files


def _jobs(files: Sequence[Path], seed: int, blocks: int, row_group_rows: int) -> list[partial[None]]:
    """What writes the files, so many blocks each."""
    return [
        partial(_write_blocks, file, seed, range(i * blocks, (i + 1) * blocks), row_group_rows)
        for i, file in enumerate(files)
    ]


def _write_blocks(
    file: Path, seed: int, numbers: Iterable[int], row_group_rows: int, without_statistics: Sequence[str] = ()
) -> None:
    weblog = Weblog(seed)
    statistics = [name for name in SCHEMA.names if name not in without_statistics]

    def row_groups() -> Iterator[pa.Table]:
        pending: list[pa.Table] = []
        for number in numbers:
            pending.append(weblog.block(number))
            if len(pending) * BLOCK_ROWS >= row_group_rows:
                yield pa.concat_tables(pending)
                pending.clear()
        if pending:
            yield pa.concat_tables(pending)

    datafiles.write(file, SCHEMA, row_groups(), row_group_rows, statistics)


# --- files by Spark ---


def _spark_files(data: Path, layout: str, sources: list[Path], seed: int) -> list[Path]:
    folder = _files_folder(data, layout, seed)
    missing = [source for source in sources if not (folder / source.name).exists()]
    if missing:
        _rewrite_all(layout, missing, folder)
    return [folder / source.name for source in sources]


def _rewrite_all(layout: str, sources: list[Path], folder: Path) -> None:
    spark = _writing_session(layout)
    try:
        jobs = [partial(_rewrite, spark, source, folder / source.name) for source in sources]
        datafiles.run_all(ThreadPoolExecutor(WRITERS), jobs, f"Spark files, {layout}")
    finally:
        spark.stop()


def _writing_session(layout: str) -> SparkSession:
    from pyspark.sql import SparkSession  # the generator by itself needs no Spark

    kind = {"int96": "INT96", "int64": "TIMESTAMP_MICROS"}[layout]
    return (
        SparkSession.builder.master(f"local[{WRITERS}]")
        .appName("web log")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.parquet.outputTimestampType", kind)
        # One task reads one source file from its beginning to its end, so the order of arrival is kept.
        .config("spark.sql.files.minPartitionNum", "1")
        .config("spark.sql.files.maxPartitionBytes", "16g")
        .getOrCreate()
    )


def _rewrite(spark: SparkSession, source: Path, target: Path) -> None:
    unfinished = target.with_suffix(".unfinished")
    frame = spark.read.parquet(str(source))
    frame.write.mode("overwrite").option("compression", "snappy").parquet(str(unfinished))
    (written,) = unfinished.glob("part-*.parquet")
    os.replace(written, target)
    shutil.rmtree(unfinished)


# --- what they share ---


def _identity(seed: int) -> dict[str, int]:
    return {"generator": GENERATOR_VERSION, "seed": seed}


def _files_folder(data: Path, layout: str, seed: int) -> Path:
    """Files appear under their names only when whole: here the marker says who made them, and comes first."""
    folder = data / "files" / layout
    return datafiles.made(folder, _identity(seed), [], "empty folder")


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)
