"""Folders of Parquet files, made once: a marker, written last, says that one is whole and who made it."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from layouts import MARKER, WRITERS
from progress import step


def made(folder: Path, identity: Mapping[str, Any], jobs: Sequence[Callable[[], None]], label: str) -> Path:
    """``folder``, filled by ``jobs`` in processes of their own unless it holds what ``identity`` says."""
    marker = folder / MARKER
    if marker.exists() and json.loads(marker.read_text()) == dict(identity):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Spawned, not forked: a forked child would inherit pyarrow's threads.
    executor = ProcessPoolExecutor(WRITERS, mp_context=multiprocessing.get_context("spawn"))
    with executor, step(label) as progress:
        running = [executor.submit(job) for job in jobs]
        for done, future in enumerate(as_completed(running), start=1):
            future.result()
            progress.note(f"{done} of {len(jobs)} files")
    marker.write_text(json.dumps(dict(identity)))
    return folder


def write(file: Path, schema: pa.Schema, row_groups: Iterable[pa.Table]) -> None:
    """One file, a row group for each table of ``row_groups``: at most one is in memory."""
    unfinished = file.with_suffix(".unfinished")
    with pq.ParquetWriter(unfinished, schema, compression="snappy") as writer:
        for rows in row_groups:
            writer.write_table(rows, row_group_size=max(1, rows.num_rows))
    os.replace(unfinished, file)


def part(number: int) -> str:
    """The name of a folder's file; names sort as numbers do."""
    return f"part-{number:05d}.parquet"
