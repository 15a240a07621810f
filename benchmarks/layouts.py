"""The web log on disk: three writers, several sizes, made once.

``<data>/files/<layout>/part-00000.parquet`` and so on hold 2M rows each, in order of arrival. A table of 8M
rows is a folder with hard links to the first four of them: sizes share disk and page cache, yet are files of
their own by path, so what was learned about one table says nothing about another. A marker file, written
last, says that a table is whole.

The layouts differ in what a reader can know about ``EventTime`` without decoding it:

* ``int96``: written by Spark as it comes. INT96 timestamps have no usable statistics.
* ``int64``: written by Spark with ``spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS``.
* ``pyarrow``: INT64 timestamps from another writer: row groups by rows and not by bytes, no page index.

``python benchmarks/layouts.py --sizes 2,8,32 --layouts int96,int64,pyarrow`` makes the data beforehand.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from progress import step
from queries import UNPRUNABLE_LIMIT
from weblog import BLOCK_ROWS, GENERATOR_VERSION, SCHEMA, Weblog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUTS = ("int96", "int64", "pyarrow")
FILE_ROWS = 2_000_000
ROW_GROUP_ROWS = 1_000_000
ROOT = Path(__file__).resolve().parent.parent
DEFAULT_DATA = ROOT / ".data" / "weblog"
WRITERS = 2
MARKER = "_COMPLETE.json"  # Spark ignores names that begin with an underscore

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
    if not _is_complete(folder, seed):
        files = _pyarrow_files(data, count, seed)
        if layout != "pyarrow":
            files = _spark_files(data, layout, files, seed)
        _start(folder)
        for file in files:
            _link(file, folder / file.name)
        _complete(folder, seed)
    return folder


def small_table(data: Path, name: str, rows: int, files: int, row_group_rows: int, seed: int = 42) -> Path:
    """The first ``rows`` rows, by pyarrow, in many small files: for the demo and for warming up."""
    folder = data / name
    if not _is_complete(folder, seed):
        _start(folder)
        blocks = rows // files // BLOCK_ROWS
        jobs = [
            partial(
                _write_blocks, folder / _part(i), seed, range(i * blocks, (i + 1) * blocks), row_group_rows
            )
            for i in range(files)
        ]
        _run_all(_processes(), jobs, f"web log of {rows:,} rows")
        _complete(folder, seed)
    return folder


def warm_up_table(data: Path, layout: str, seed: int = 42) -> Path:
    """A table of 400,000 rows in ``layout``: what processes run until their code is compiled."""
    source = small_table(data, "warm-up-pyarrow", 400_000, files=4, row_group_rows=BLOCK_ROWS, seed=seed)
    if layout == "pyarrow":
        return source
    folder = data / f"warm-up-{layout}"
    if not _is_complete(folder, seed):
        _start(folder)
        _rewrite_all(layout, sorted(source.glob("*.parquet")), folder)
        _complete(folder, seed)
    return folder


def unprunable_table(data: Path, seed: int = 42) -> Path:
    """A table where ``ORDER BY WorstKey LIMIT 10000`` can prune nothing, whatever a reader does.

    Each row's key is smaller than all before, so every row passes the bound of its time; the column has
    neither statistics nor a page index, so no other order can be known to be better; a row group has no more
    rows than the limit, so looking at its keys first shows nothing that could be left out; and it is one file
    below Spark's largest split, so it can be read by one task, with no other whose better rows could help.
    """
    folder = data / "unprunable"
    if not _is_complete(folder, seed):
        _start(folder)
        job = partial(
            _write_blocks,
            folder / _part(0),
            seed,
            range(UNPRUNABLE_BLOCKS),
            UNPRUNABLE_LIMIT,
            ("WorstKey",),
        )
        _run_all(_processes(), [job], "table where nothing can be pruned")
        _complete(folder, seed)
    return folder


# --- files by pyarrow ---


def _pyarrow_files(data: Path, count: int, seed: int) -> list[Path]:
    folder = _files_folder(data, "pyarrow", seed)
    files = [folder / _part(i) for i in range(count)]
    blocks = FILE_ROWS // BLOCK_ROWS
    jobs = [
        partial(_write_blocks, file, seed, range(i * blocks, (i + 1) * blocks), ROW_GROUP_ROWS)
        for i, file in enumerate(files)
        if not file.exists()
    ]
    _run_all(_processes(), jobs, "pyarrow files")
    return files


def _write_blocks(
    file: Path, seed: int, numbers: Iterable[int], row_group_rows: int, without_statistics: Sequence[str] = ()
) -> None:
    weblog = Weblog(seed)
    statistics = [name for name in SCHEMA.names if name not in without_statistics]
    unfinished = file.with_suffix(".unfinished")
    with pq.ParquetWriter(unfinished, SCHEMA, compression="snappy", write_statistics=statistics) as writer:
        pending: list[pa.Table] = []  # at most one row group is in memory
        for number in numbers:
            pending.append(weblog.block(number))
            if len(pending) * BLOCK_ROWS >= row_group_rows:
                writer.write_table(pa.concat_tables(pending), row_group_size=row_group_rows)
                pending.clear()
        if pending:
            writer.write_table(pa.concat_tables(pending), row_group_size=row_group_rows)
    os.replace(unfinished, file)


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
        _run_all(ThreadPoolExecutor(WRITERS), jobs, f"Spark files, {layout}")
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


def _processes() -> Executor:
    # Spawned, not forked: a forked child would inherit pyarrow's threads and a running JVM's pipes.
    return ProcessPoolExecutor(WRITERS, mp_context=multiprocessing.get_context("spawn"))


def _run_all(executor: Executor, jobs: list[Callable[[], None]], label: str) -> None:
    with executor, step(label) as progress:
        running = [executor.submit(job) for job in jobs]
        for done, future in enumerate(as_completed(running), start=1):
            future.result()
            progress.note(f"{done} of {len(jobs)} files")


def _part(number: int) -> str:
    return f"part-{number:05d}.parquet"


def _identity(seed: int) -> dict[str, int]:
    return {"generator": GENERATOR_VERSION, "seed": seed}


def _files_folder(data: Path, layout: str, seed: int) -> Path:
    """Files appear under their names only when whole: here the marker says who made them, and comes first."""
    folder = data / "files" / layout
    if not _is_complete(folder, seed):
        _start(folder)
        _complete(folder, seed)
    return folder


def _is_complete(folder: Path, seed: int) -> bool:
    marker = folder / MARKER
    return marker.exists() and json.loads(marker.read_text()) == _identity(seed)


def _start(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _complete(folder: Path, seed: int) -> None:
    (folder / MARKER).write_text(json.dumps(_identity(seed)))


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


def main() -> None:
    """Makes the tables named on the command line, and those that every benchmark needs."""
    parser = argparse.ArgumentParser(description="Makes the web-log tables that the benchmark reads.")
    parser.add_argument(
        "--sizes", default="2,8,32", help="millions of rows, multiples of 2 (default: %(default)s)"
    )
    parser.add_argument("--layouts", default=",".join(LAYOUTS), help="any of %(default)s")
    parser.add_argument(
        "--data", type=Path, default=DEFAULT_DATA, help="folder for the tables (default: .data/weblog)"
    )
    options = parser.parse_args()
    # Spark's layouts are made from pyarrow's files, large sizes hold the small ones: nothing is made twice.
    for layout in options.layouts.split(","):
        warm_up_table(options.data, layout)
        for size in sorted({int(size) for size in options.sizes.split(",")}, reverse=True):
            table(options.data, layout, size)
    unprunable_table(options.data)


if __name__ == "__main__":
    main()
