"""Folders of Parquet files, made once: a marker, written last, says that one is whole and who made it."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from progress import step

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / ".data"
WRITERS = 2
MARKER = "_COMPLETE.json"  # Spark ignores names that begin with an underscore


def made(folder: Path, identity: Mapping[str, Any], jobs: Sequence[Callable[[], None]], label: str) -> Path:
    """``folder``, filled by ``jobs`` in processes of their own unless it holds what ``identity`` says."""
    if not is_complete(folder, identity):
        start(folder)
        run_all(processes(), jobs, label)
        complete(folder, identity)
    return folder


def made_of_rows(
    folder: Path,
    identity: Mapping[str, Any],
    schema: pa.Schema,
    rows: int,
    file_rows: int,
    group_rows: int,
    make: Callable[[int, int], pa.Table],
    label: str,
) -> Path:
    """As ``made``, of files of ``file_rows`` rows in row groups; ``make`` gives the rows from one on."""
    jobs = [
        partial(_write_rows, folder / part(i), schema, range(at, min(at + file_rows, rows)), group_rows, make)
        for i, at in enumerate(range(0, rows, file_rows))
    ]
    return made(folder, identity, jobs, label)


def _write_rows(
    file: Path, schema: pa.Schema, rows: range, group_rows: int, make: Callable[[int, int], pa.Table]
) -> None:
    starts = range(rows.start, rows.stop, group_rows)
    write(file, schema, (make(first, min(group_rows, rows.stop - first)) for first in starts))


def write(
    file: Path,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    group_rows: int | None = None,
    statistics: bool | list[str] = True,
) -> None:
    """One file, a row group for each table, at most ``group_rows``; one table is in memory."""
    unfinished = file.with_suffix(".unfinished")
    with pq.ParquetWriter(unfinished, schema, compression="snappy", write_statistics=statistics) as writer:
        for rows in tables:
            writer.write_table(rows, row_group_size=group_rows or max(1, rows.num_rows))
    os.replace(unfinished, file)


def processes() -> Executor:
    """Spawned, not forked: a forked child would inherit pyarrow's threads and a running JVM's pipes."""
    return ProcessPoolExecutor(WRITERS, mp_context=multiprocessing.get_context("spawn"))


def apart(makers: Sequence[Callable[[], T]]) -> list[T]:
    """What these return in a process of its own: Spark's settings for writing must not reach a session that
    is measured, which could not even start anew in the same JVM.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as child:
        return list(child.map(_called, makers))


def _called(maker: Callable[[], T]) -> T:
    return maker()


def run_all(executor: Executor, jobs: Sequence[Callable[[], None]], label: str) -> None:
    """Runs jobs that write a file each, and closes the executor."""
    with executor, step(label) as progress:
        running = [executor.submit(job) for job in jobs]
        for done, future in enumerate(as_completed(running), start=1):
            future.result()
            progress.note(f"{done} of {len(jobs)} files")


def is_complete(folder: Path, identity: Mapping[str, Any]) -> bool:
    """Whether a folder is whole, and of this identity."""
    marker = folder / MARKER
    return marker.exists() and json.loads(marker.read_text()) == dict(identity)


def start(folder: Path) -> None:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def complete(folder: Path, identity: Mapping[str, Any]) -> None:
    """Marks a folder as whole."""
    (folder / MARKER).write_text(json.dumps(dict(identity)))


def part(number: int) -> str:
    """The name of a folder's file; names sort as numbers do."""
    return f"part-{number:05d}.parquet"
