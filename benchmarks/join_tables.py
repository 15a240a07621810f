"""A small table and a large one that is clustered on the key they are joined by.

``big`` has keys 0, 1, 2, ... in this order, ``ROWS_A_KEY`` = 10 rows each: 10M rows hold 1M distinct keys,
100M rows 10M. Beside the key it has eight payload columns of six types, about 30 bytes a row on disk.

``small`` has 1000 keys out of these, nearly consecutive: they begin at 43 % of the key range, and each is 1
to 3 above the one before. ``rank`` numbers them 0 to 999 in random order; ``rank < 950`` keeps 950. So a join
matches 9,500 rows of ``big``, all within some 20,000 rows: one row group or two, whatever the table's size.

``keys`` has all keys of ``big``, and a column ``active`` that is never negative: a predicate on it looks
selective and is not.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import datafiles

GENERATOR_VERSION = 1  # raise it when any value changes
ROWS_A_KEY = 10
SMALL_ROWS = 1000
SMALL_KEPT = 950
SMALL_BEGINS = 0.4321  # as a share of the key range
FILE_ROWS = 1_000_000
LARGE_FILE_ROWS = 2_000_000  # of tables above 10M rows
ROW_GROUP_ROWS = 500_000
SMALLEST_ROWS = 200_000  # of a table for trying a benchmark out, in four files

BIG = pa.schema(
    [
        ("k", pa.int64()),
        ("quantity", pa.int32()),
        ("price", pa.int32()),
        ("cost", pa.int64()),
        ("score", pa.float64()),
        ("visits", pa.int16()),
        ("day", pa.date32()),
        ("city", pa.string()),
        ("ticket", pa.int32()),
    ]
)
SMALL = pa.schema([("k", pa.int64()), ("rank", pa.int32()), ("label", pa.string())])
KEYS = pa.schema([("k", pa.int64()), ("active", pa.int32())])
_CITIES = pa.array([f"city {i:03d} of the list" for i in range(900)])


def big(data: Path, rows: int, seed: int = 42) -> Path:
    """The folder of the large table with ``rows`` rows, made if it is not there yet."""
    file_rows, row_group_rows = _sizes(rows)
    folder = data / f"big-{rows}"
    label, make = f"clustered table of {rows:,} rows", partial(_big_rows, seed)
    return datafiles.made_of_rows(folder, _identity(seed), BIG, rows, file_rows, row_group_rows, make, label)


def small(data: Path, rows: int, seed: int = 42) -> Path:
    """The folder of the small table that goes with the large table of ``rows`` rows."""
    folder = data / f"small-{rows}"
    job = partial(_write_small, folder / datafiles.part(0), seed, rows // ROWS_A_KEY)
    return datafiles.made(folder, _identity(seed), [job], "small table")


def keys(data: Path, rows: int, seed: int = 42) -> Path:
    """The folder of the table with all keys of the large table of ``rows`` rows."""
    folder = data / f"keys-{rows}"
    job = partial(_write_keys, folder / datafiles.part(0), rows // ROWS_A_KEY)
    return datafiles.made(folder, _identity(seed), [job], f"all keys of {rows:,} rows")


def kept_keys(folder: Path) -> tuple[int, int]:
    """The least and the greatest key that ``rank < 950`` leaves of the small table: what an oracle knows."""
    kept = pq.read_table(folder, columns=["k"], filters=[("rank", "<", SMALL_KEPT)])["k"].to_numpy()
    return int(kept.min()), int(kept.max())


def _sizes(rows: int) -> tuple[int, int]:
    if rows == SMALLEST_ROWS:
        return SMALLEST_ROWS // 4, SMALLEST_ROWS // 4
    file_rows = LARGE_FILE_ROWS if rows > 10_000_000 else FILE_ROWS
    if rows % file_rows:
        raise ValueError(f"{rows:,} rows are not whole files of {file_rows:,}")
    return file_rows, ROW_GROUP_ROWS


def _identity(seed: int) -> dict[str, int]:
    return {"generator": GENERATOR_VERSION, "seed": seed}


def _big_rows(seed: int, first: int, rows: int) -> pa.Table:
    rng = np.random.default_rng([seed, 10, first])
    columns = [
        np.arange(first, first + rows, dtype=np.int64) // ROWS_A_KEY,
        rng.integers(0, 50, rows, dtype=np.int32),
        rng.integers(0, 2_000_000, rows, dtype=np.int32),
        rng.integers(0, 1 << 40, rows, dtype=np.int64),
        rng.integers(0, 10_001, rows) / 10_000.0,
        rng.integers(0, 10_000, rows, dtype=np.int16),
        pa.array(rng.integers(15_000, 18_000, rows, dtype=np.int32)).cast(pa.date32()),
        _CITIES.take(pa.array(rng.integers(0, len(_CITIES), rows))),
        rng.integers(0, 1 << 31, rows, dtype=np.int32),
    ]
    return pa.table(columns, schema=BIG)


def _write_small(file: Path, seed: int, distinct: int) -> None:
    rng = np.random.default_rng([seed, 11])
    gaps = rng.integers(1, 4, SMALL_ROWS)
    key = int(distinct * SMALL_BEGINS) + np.cumsum(gaps)
    rank = rng.permutation(SMALL_ROWS).astype(np.int32)
    label = [f"label {i}" for i in rank]
    datafiles.write(file, SMALL, [pa.table([key, rank, label], schema=SMALL)])


def _write_keys(file: Path, distinct: int) -> None:
    key = np.arange(distinct, dtype=np.int64)
    datafiles.write(file, KEYS, [pa.table([key, (key % 2).astype(np.int32)], schema=KEYS)])
