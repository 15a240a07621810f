"""A table with an id in each row, unique, and sets of a tenth of its ids.

``clustered`` has the ids 0, 1, 2, ... in this order, as a table written as users arrive; ``scattered`` has
them in an order where every row group holds ids from everywhere. Beside the id there are four payload
columns, about 30 bytes a row on disk.

Of the sets, ``recent`` is every second id of the last fifth, so a clustered table has them in a fifth of its
row groups; ``random`` is a tenth of all ids, in every row group of either.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import datafiles

GENERATOR_VERSION = 1  # raise it when any value changes
LAYOUTS = ("clustered", "scattered")
SETS = ("recent", "random")
FILE_ROWS = 2_000_000
ROW_GROUP_ROWS = 500_000
_PRIME = 2_654_435_761  # odd and larger than any table: multiplication modulo the rows scatters the ids

USERS = pa.schema(
    [
        ("user_id", pa.int64()),
        ("amount", pa.int64()),
        ("score", pa.float64()),
        ("visits", pa.int16()),
        ("city", pa.string()),
    ]
)
_CITIES = pa.array([f"city {i:03d} of the list" for i in range(900)])


def users(data: Path, rows: int, layout: str, seed: int = 42) -> Path:
    """The folder of a table of ``rows`` rows, made if it is not there yet."""
    folder = data / f"users-{layout}-{rows}"
    label, make = f"{layout} table of {rows:,} rows", partial(_rows, seed, layout, rows)
    identity = {"generator": GENERATOR_VERSION, "seed": seed}
    return datafiles.made_of_rows(folder, identity, USERS, rows, FILE_ROWS, ROW_GROUP_ROWS, make, label)


def ids(rows: int, which: str, seed: int = 42) -> np.ndarray:
    """A tenth of the ids of a table of ``rows`` rows, ascending."""
    if which == "recent":
        return np.arange(rows - rows // 5, rows, 2, dtype=np.int64)
    rng = np.random.default_rng([seed, 20])
    return np.sort(rng.choice(rows, rows // 10, replace=False)).astype(np.int64)


def id_table(data: Path, rows: int, which: str, seed: int = 42) -> Path:
    """The folder of a table of these ids, for joins."""
    folder = data / f"ids-{which}-{rows}"
    job = partial(_write_ids, folder / datafiles.part(0), rows, which, seed)
    return datafiles.made(folder, {"generator": GENERATOR_VERSION, "seed": seed}, [job], f"{which} ids")


def _write_ids(file: Path, rows: int, which: str, seed: int) -> None:
    pq.write_table(pa.table({"user_id": ids(rows, which, seed)}), file)


def _rows(seed: int, layout: str, rows: int, first: int, count: int) -> pa.Table:
    rng = np.random.default_rng([seed, 21, first])
    number = np.arange(first, first + count, dtype=np.int64)
    if layout == "scattered":
        # Below 2^63 for every table: no overflow.
        number = number * (_PRIME % rows | 1) % rows
    columns = [
        number,
        rng.integers(0, 1 << 40, count, dtype=np.int64),
        rng.integers(0, 10_001, count) / 10_000.0,
        rng.integers(0, 10_000, count, dtype=np.int16),
        _CITIES.take(pa.array(rng.integers(0, len(_CITIES), count))),
    ]
    return pa.table(columns, schema=USERS)
