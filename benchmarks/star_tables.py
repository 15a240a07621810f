"""A star: a fact table and three dimensions, and the tables for the cost of a tap.

``fact`` is in order of its date, as such tables are, and clustered on nothing else:

* ``dates``: 2,557 days from 2018 to 2024; a quarter is 3.6 % of them, and of the fact table one stretch.
* ``customers``: 500,000; ``segment = 3`` keeps 10 % of them, spread over all ids. Each is as frequent.
* ``products``: 20,000; ``category = 7`` keeps 4 %, spread likewise. Few products are sold very often.

Each dimension has a column ``active`` that is never negative: a predicate on it looks selective and is not.

``scattered`` has distinct bigint keys all over the range, in no order; ``references`` has each of these keys
twice, in another order. A filter from the one to the other is of no use, so all it does is cost.
"""

from __future__ import annotations

from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import datafiles

GENERATOR_VERSION = 1  # raise it when any value changes
DAYS, CUSTOMERS, PRODUCTS = 2_557, 500_000, 20_000
FIRST_DAY = date(2018, 1, 1)
FILE_ROWS = 1_000_000
ROW_GROUP_ROWS = 500_000
REFERENCES_A_KEY = 2

FACT = pa.schema(
    [
        ("date_id", pa.int32()),
        ("customer_id", pa.int64()),
        ("product_id", pa.int32()),
        ("quantity", pa.int32()),
        ("amount", pa.int64()),
        ("discount", pa.int32()),
        ("tax", pa.int32()),
        ("ticket", pa.int64()),
    ]
)
SCATTERED = pa.schema([("k", pa.int64()), ("v", pa.int32())])


def fact(data: Path, rows: int, seed: int = 42) -> Path:
    """The fact table with ``rows`` rows, made if it is not there yet."""
    folder = data / f"fact-{rows}"
    label, make = f"fact table of {rows:,} rows", partial(_fact_rows, seed, rows)
    return datafiles.made_of_rows(folder, _identity(seed), FACT, rows, FILE_ROWS, ROW_GROUP_ROWS, make, label)


def dimensions(data: Path, seed: int = 42) -> dict[str, Path]:
    """The three dimensions by name."""
    makers = {"dates": _write_dates, "customers": _write_customers, "products": _write_products}
    return {
        name: datafiles.made(
            data / name, _identity(seed), [partial(maker, data / name / datafiles.part(0), seed)], name
        )
        for name, maker in makers.items()
    }


def scattered(data: Path, keys: int, seed: int = 42) -> Path:
    """``keys`` distinct keys in four files."""
    return _scattered(data / f"scattered-{keys}", keys, 1, 1, seed)


def references(data: Path, keys: int, seed: int = 42) -> Path:
    """Each of the ``keys`` keys twice, in another order."""
    return _scattered(data / f"references-{keys}", keys, REFERENCES_A_KEY, 1_000_003, seed)


def kept_ids(folder: Path, column: str, predicate: list[tuple[str, str, int]]) -> np.ndarray:
    """The ids that ``predicate`` leaves of a dimension, sorted: what an oracle knows."""
    return np.sort(pq.read_table(folder, columns=[column], filters=predicate)[column].to_numpy())


def _identity(seed: int) -> dict[str, int]:
    return {"generator": GENERATOR_VERSION, "seed": seed}


def _fact_rows(seed: int, total: int, first: int, rows: int) -> pa.Table:
    rng = np.random.default_rng([seed, 20, first])
    columns = [
        (np.arange(first, first + rows, dtype=np.int64) * DAYS // total).astype(np.int32),
        rng.integers(0, CUSTOMERS, rows, dtype=np.int64),
        (PRODUCTS * rng.random(rows) ** 2).astype(np.int32),
        rng.integers(1, 50, rows, dtype=np.int32),
        rng.integers(1, 1_000_000, rows, dtype=np.int64),
        rng.integers(0, 11, rows, dtype=np.int32),
        rng.integers(0, 9, rows, dtype=np.int32),
        rng.integers(0, 1 << 40, rows, dtype=np.int64),
    ]
    return pa.table(columns, schema=FACT)


def _write_dates(file: Path, seed: int) -> None:
    days = np.arange(DAYS)
    calendar = np.datetime64(FIRST_DAY) + days
    month = calendar.astype("datetime64[M]").astype(int)  # since 1970
    columns = {
        "date_id": pa.array(days, pa.int32()),
        "day": pa.array(calendar),
        "year": pa.array(1970 + month // 12, pa.int32()),
        "quarter": pa.array(month % 12 // 3 + 1, pa.int32()),
        "month": pa.array(month % 12 + 1, pa.int32()),
        "active": pa.array(days % 2, pa.int32()),
    }
    _write_table(file, columns)


def _write_customers(file: Path, seed: int) -> None:
    rng = np.random.default_rng([seed, 21])
    ids = np.arange(CUSTOMERS)
    columns = {
        "customer_id": pa.array(ids, pa.int64()),
        "segment": pa.array(rng.integers(0, 10, CUSTOMERS), pa.int32()),
        "active": pa.array(ids % 2, pa.int32()),
    }
    _write_table(file, columns)


def _write_products(file: Path, seed: int) -> None:
    rng = np.random.default_rng([seed, 22])
    ids = np.arange(PRODUCTS)
    columns = {
        "product_id": pa.array(ids, pa.int32()),
        "category": pa.array(rng.integers(0, 25, PRODUCTS), pa.int32()),
        "brand": pa.array([f"brand {i % 40}" for i in ids]),
        "active": pa.array(ids % 2, pa.int32()),
    }
    _write_table(file, columns)


def _write_table(file: Path, columns: dict[str, pa.Array]) -> None:
    table = pa.table(columns)
    datafiles.write(file, table.schema, [table])


def _scattered(folder: Path, keys: int, times: int, step: int, seed: int) -> Path:
    rows = keys * times
    label, make = f"{rows:,} scattered keys", partial(_scattered_rows, keys, step)
    return datafiles.made_of_rows(
        folder, _identity(seed), SCATTERED, rows, rows // 4, ROW_GROUP_ROWS, make, label
    )


def _scattered_rows(keys: int, step: int, first: int, rows: int) -> pa.Table:
    row = np.arange(first, first + rows, dtype=np.uint64)
    number = (
        row * np.uint64(step) % np.uint64(keys)
    )  # step is a prime that does not divide keys: a permutation
    key = number * np.uint64(0x9E3779B97F4A7C15) & np.uint64(
        (1 << 62) - 1
    )  # odd factor: distinct stay distinct
    return pa.table([key.astype(np.int64), (number % np.uint64(1000)).astype(np.int32)], schema=SCATTERED)
