"""A table of events in order of arrival, and queries that each have another kind of key or producer.

``events`` has ``id`` 0, 1, 2, ..., its time ``ts`` evenly over 1,000 days from 2021-01-01 on in UTC,
``account`` with ten events each in the same order, ``st`` with a copy of ``id`` as a field, and ``trace``: a
random number that 5,000 events in a row share, so that a row group has few of them and any range of them.
``days`` and ``traces`` have a thousand rows each, with their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import datafiles
from case import Case, variants
from join_queries import MILLION, NO_BROADCAST

GENERATOR_VERSION = 1  # raise it when any value changes
FIRST_DAY = date(2021, 1, 1)
DAYS = 1_000
DAY_US = 86_400_000_000
TRACE_ROWS = 5_000
FILE_ROWS, ROW_GROUP_ROWS = 2_000_000, 500_000
WANTED_DAY = 500

EVENTS = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("account", pa.int64()),
        ("st", pa.struct([("id", pa.int64()), ("part", pa.int32())])),
        ("trace", pa.int64()),
        ("quantity", pa.int32()),
        ("price", pa.float64()),
        ("city", pa.string()),
    ]
)
TEXTS = {
    "groups": "SELECT account, count(*), max(price) FROM events GROUP BY account ORDER BY account LIMIT 20",
    "rank": (
        "SELECT * FROM (SELECT *, rank() OVER (ORDER BY account DESC) AS place FROM events) WHERE place <= 10"
    ),
    "min and max": "SELECT min(ts), max(ts) FROM events",
    "field of a struct": "SELECT * FROM events ORDER BY st.id DESC LIMIT 10",
    "three traces": (
        "SELECT count(*), sum(quantity), max(price) FROM events e JOIN traces t ON e.trace = t.trace "
        "WHERE t.number < 3"
    ),
}
DAY_SQL = (
    "SELECT /*+ {hint}(d) */ count(*), sum(quantity), max(price), max(city) FROM events e "
    "JOIN days d ON to_date(e.ts) = d.day WHERE d.number = " + str(WANTED_DAY)
)


def events(millions: float) -> Iterator[Case]:
    """One day of a thousand by a key that the query computes, and the smaller producers."""
    rows = int(millions * MILLION)
    views = {
        "events": partial(_events, rows),
        "days": partial(_small, "days", rows),
        "traces": partial(_small, "traces", rows),
    }
    table = f"{millions:g}M rows"
    day = FIRST_DAY + timedelta(WANTED_DAY)
    bound = f" AND e.ts >= TIMESTAMP '{day}' AND e.ts < TIMESTAMP '{day + timedelta(1)}'"
    for hint, confs in (("BROADCAST", {}), ("MERGE", NO_BROADCAST)):
        text = DAY_SQL.format(hint=hint)
        ways = variants(text, text + bound)
        yield Case("days", hint.lower(), ways, table, views=views, confs=confs)
    for name, text in TEXTS.items():
        yield Case("producers", name, variants(text), table, views=views)


def _events(rows: int) -> Path:
    make, label = partial(_event_rows, rows), f"events, {rows:,} rows"
    folder, identity = datafiles.DATA / "events" / f"events-{rows}", {"generator": GENERATOR_VERSION}
    return datafiles.made_of_rows(folder, identity, EVENTS, rows, FILE_ROWS, ROW_GROUP_ROWS, make, label)


def _small(name: str, rows: int) -> Path:
    folder = datafiles.DATA / "events" / f"{name}-{rows}"
    job = partial(_write_small, name, folder / datafiles.part(0), rows)
    return datafiles.made(folder, {"generator": GENERATOR_VERSION}, [job], name)


def _event_rows(all_rows: int, first: int, rows: int) -> pa.Table:
    rng = np.random.default_rng([20, first])
    ids = np.arange(first, first + rows, dtype=np.int64)
    part = pa.array((ids % 7).astype(np.int32))
    columns = [
        ids,
        pa.array(_start_us() + ids * (DAYS * DAY_US // all_rows), pa.timestamp("us", tz="UTC")),
        ids // 10,
        pa.StructArray.from_arrays([pa.array(ids), part], names=["id", "part"]),
        _trace(ids // TRACE_ROWS),
        rng.integers(0, 50, rows, dtype=np.int32),
        rng.integers(0, 1_000_000, rows) / 100.0,
        pa.array([f"city {i}" for i in range(900)]).take(pa.array(rng.integers(0, 900, rows))),
    ]
    return pa.table(columns, schema=EVENTS)


def _write_small(name: str, file: Path, rows: int) -> None:
    number = np.arange(DAYS, dtype=np.int64)
    if name == "days":
        key = pa.array([FIRST_DAY + timedelta(i) for i in range(DAYS)])
        table = pa.table({"number": number, "day": key})
    else:
        table = pa.table({"number": number, "trace": _trace(number * (rows // TRACE_ROWS) // DAYS)})
    datafiles.write(file, table.schema, [table])


def _start_us() -> int:
    return (FIRST_DAY - date(1970, 1, 1)).days * DAY_US


def _trace(block: np.ndarray) -> np.ndarray:
    """A number that looks random, by block; the finalizer of MurmurHash3 in 64 bits."""
    x = block.astype(np.uint64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ (x >> np.uint64(33))) * np.uint64(factor)
    return (x ^ (x >> np.uint64(33))).astype(np.int64)
