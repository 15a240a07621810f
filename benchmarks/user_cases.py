"""Filters of users: millions of ids as a bitmap, a list and a join, and an update of a running query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyroaring
from pyspark.sql import SparkSession

import runs
import spark_dynamic_filters as sdf
import user_tables
from case import Case, Variant
from datafiles import DATA
from results import OURS, STOCK

USERS = DATA / "users"
MOST_LITERALS = 10_000
COLUMNS = "count(*) n, sum(amount) a, sum(score) s, max(visits) v, count(DISTINCT city) c"
QUERY = f"SELECT {COLUMNS} FROM users WHERE {{}}"
SEMI = f"SELECT {COLUMNS} FROM users LEFT SEMI JOIN ids ON users.user_id = ids.user_id"
#: Takes long on every machine: hashes each row's text many times.
WORK = "sum(length(sha2(repeat(city, 20), 512)))"
LIVE = f"SELECT count(*) n, {WORK} w FROM users WHERE dynamic_filter_prune('live', user_id)"


def users(millions: float) -> Iterator[Case]:
    """A tenth of a table's ids, and Spark's own IN with a few of them."""
    rows = int(millions * 1_000_000)
    for layout in user_tables.LAYOUTS:
        table = partial(user_tables.users, USERS, rows, layout)
        for which in user_tables.SETS:
            views = {"users": table, "ids": partial(user_tables.id_table, USERS, rows, which)}
            ways = {
                STOCK: Variant(SEMI),
                "bitmap": Variant(QUERY.format("dynamic_filter('by_bitmap', user_id)"), filters=True),
                "isin": Variant(QUERY.format("dynamic_filter('by_list', user_id)"), filters=True),
                OURS: Variant(SEMI, filters=True),
            }
            around = partial(_filters, rows, which)
            name, size = f"{layout}, {which} ids", f"{millions:g}M rows"
            yield Case("ids", name, ways, size, "stock and ours: LEFT SEMI JOIN", views, around=around)
            few = {f"IN of {MOST_LITERALS:,} literals": Variant(partial(_literals, rows, which))}
            yield Case("ids", name, few, f"{size}, fewer ids", views=views)
        why = "a filter that everything passes, and gets a thousandth of the ids while a query runs"
        live, size = {"never updated": Variant(LIVE, filters=True)}, f"{millions:g}M rows"
        yield Case("update", layout, live, size, why, {"users": table}, around=partial(_live, rows))


def _literals(rows: int, which: str, _: Sequence[Any]) -> str:
    ids = user_tables.ids(rows, which)
    return QUERY.format(f"user_id IN ({', '.join(map(str, ids[:: max(1, len(ids) // MOST_LITERALS)]))})")


@contextmanager
def _filters(rows: int, which: str, spark: SparkSession) -> Iterator[Mapping[str, str]]:
    ids = user_tables.ids(rows, which)
    made = {"by_bitmap": lambda: sdf.bitmap(pyroaring.BitMap64(ids)), "by_list": lambda: sdf.isin(ids)}
    notes = {}
    with (
        sdf.create_filter(spark, "by_bitmap", "bigint") as by_bitmap,
        sdf.create_filter(spark, "by_list", "bigint") as by_list,
    ):
        for to in (by_bitmap, by_list):
            seconds = _seconds(lambda to=to: to.update(made[to.name]()))
            notes[to.name] = f"update {seconds:.2f} s, {to.snapshot().size_bytes:,} bytes"
        yield notes


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@contextmanager
def _live(rows: int, spark: SparkSession) -> Iterator[Mapping[str, str]]:
    """Runs it once as it is, and once with an update after a fifth of that time."""
    wanted = pyroaring.BitMap64(range(0, rows, max(1, rows // 1_000)))
    with sdf.create_filter(spark, "live", "bigint") as live:
        never = _seconds(lambda: spark.sql(LIVE).collect())
        before = runs.newest_query(spark)
        timer = threading.Timer(never / 5, live.update, [sdf.bitmap(wanted)])
        timer.start()
        updated = _seconds(lambda: spark.sql(LIVE).collect())
        timer.join()
        pruned = runs.skipped_since(spark, before).rows_pruned
        note = f"{updated:.2f} s in place of {never:.2f}, {pruned:,} of {rows:,} rows pruned"
    with sdf.create_filter(spark, "live", "bigint"):
        yield {"updated after a fifth": note}
