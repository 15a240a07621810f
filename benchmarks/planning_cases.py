"""Queries with large plans: unions of many scans, a table of many files, joins of many tables."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tpc_cases
import tpcds
from case import Case, twice
from datafiles import DATA

FOLDER = DATA / "planning"
SCANS, FILES, TABLES = 200, 20_000, 20


def planning() -> Iterator[Case]:
    """The generated ones, and all queries of TPC-DS at scale factor 1."""
    parts = {f"part{i}": partial(_tables, f"part{i}") for i in range(SCANS)}
    some = {name: parts[name] for name in list(parts)[:TABLES]}
    files = {"files": partial(_tables, "files"), "part0": parts["part0"]}
    union = " UNION ALL ".join(f"SELECT k, id FROM {name}" for name in parts)
    small = "(SELECT k FROM part0 WHERE id < 3)"
    joins = " ".join(f"JOIN part{i} ON part{i}.k = part{i - 1}.k" for i in range(1, TABLES))
    chain = f"SELECT part0.id FROM part0 {joins} WHERE part0.id < 50"
    for name, text, views, confs in (
        (f"TopK over {SCANS} scans", f"SELECT * FROM ({union}) ORDER BY k LIMIT 10", parts, {}),
        (f"join with {SCANS} scans", f"SELECT u.* FROM ({union}) u JOIN {small} s ON u.k = s.k", parts, {}),
        (f"TopK over {FILES:,} files", "SELECT * FROM files ORDER BY k LIMIT 10", files, {}),
        (f"join with {FILES:,} files", f"SELECT f.* FROM files f JOIN {small} s ON f.k = s.k", files, {}),
        (f"broadcast join of {TABLES} tables", chain, some, {}),
        (f"sort-merge join of {TABLES} tables", chain, some, {"spark.sql.autoBroadcastJoinThreshold": "-1"}),
    ):
        yield Case("generated", name, twice(text), views=views, confs=confs)
    # Where `make bench-tpcds` has set up what their texts come from.
    if tpcds.VENV.exists():
        yield from tpc_cases.queries("tpcds", 1)


def _tables(name: str) -> Path:
    if not (FOLDER / "done").exists():
        for i in range(SCANS):
            _file(FOLDER / f"part{i}" / "0.parquet", i)
        for i in range(FILES):
            _file(FOLDER / "files" / f"{i:05}.parquet", i)
        (FOLDER / "done").touch()
    return FOLDER / name


def _file(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = list(range(seed * 100, seed * 100 + 100))
    pq.write_table(pa.table({"k": [i % 997 for i in ids], "id": ids}), path)
