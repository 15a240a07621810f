"""Queries over other tables than Parquet files: cached ones, other formats, Delta and Iceberg."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

import datafiles
import join_tables
import layouts
import queries
import runs
from case import Case, Variant, View, twice, variants
from join_queries import CLUSTERED_SQL, JOINS, MILLION, NO_BROADCAST
from results import FIRST, REPEATED, STOCK

sys.path.insert(0, str(datafiles.ROOT / "integration-tests"))
from support import packages

# --- cached tables, in the order of their key or in none: then statistics of batches exclude nothing

KEYS = 1_000
SUMS = "count(*) n, sum(b.v) v, max(b.s) s, max(b.u) u, sum(b.d) d, max(b.t) t"
CACHED_JOIN = f"SELECT /*+ {{hint}}(k) */ {SUMS} FROM {{table}} b JOIN keys k ON b.k = k.j"
CACHED_SQL = {
    "broadcast join": CACHED_JOIN.replace("{hint}", "BROADCAST"),
    "shuffled join": CACHED_JOIN.replace("{hint}", "MERGE"),
    "topk": "SELECT * FROM {table} b ORDER BY k LIMIT 10",
    "topk, last rows first": "SELECT * FROM {table} b ORDER BY k DESC LIMIT 10",
    "useless join": f"SELECT /*+ BROADCAST(k) */ {SUMS} FROM {{table}} b JOIN every k ON b.g = k.j",
}


def cached(millions: float) -> Iterator[Case]:
    """Joins with a fiftieth of the table's range of keys, and TopKs. An oracle writes the range."""
    rows = int(millions * MILLION)
    start, step = rows // 2, rows // 50 // KEYS
    bound = f" WHERE b.k BETWEEN {start} AND {start + (KEYS - 1) * step}"
    for layout in ("clustered", "scattered"):
        for name, template in CACHED_SQL.items():
            text = template.format(table=layout)
            oracle = text + bound if name in ("broadcast join", "shuffled join") else None
            around = partial(_cached, rows, layout)
            yield Case(layout, name, variants(text, oracle), f"{millions:g}M rows", around=around)


@contextmanager
def _cached(rows: int, layout: str, spark: SparkSession) -> Iterator[Mapping[str, str]]:
    """A cached table; it stays until the next one is made."""
    if spark.catalog.tableExists(layout):
        yield {}
        return
    spark.catalog.clearCache()
    key = "id" if layout == "clustered" else f"pmod(xxhash64(id), {rows})"
    columns = (
        f"{key} AS k, {key} % 100 AS g, id % 97 AS v, concat('text ', id % 1000) AS s, "
        "concat('https://example.org/', hex(id * 7919)) AS u, id / 7D AS d, timestamp_micros(id * 1000) AS t"
    )
    keys = f"SELECT {rows // 2} + id * {rows // 50 // KEYS} AS j FROM range({KEYS})"
    spark.sql(keys).createOrReplaceTempView("keys")
    spark.sql("SELECT id AS j FROM range(100)").createOrReplaceTempView("every")
    table = spark.sql(f"SELECT {columns} FROM range(0, {rows}, 1, 16)").cache()
    table.createOrReplaceTempView(layout)
    table.count()
    yield {}


# --- formats whose rows are tested one by one, below an exchange

FORMATS = {"orc": "orc", "orc, by key": "orc", "csv": "csv"}
FORMAT_COLUMNS = "k BIGINT, id BIGINT, v INT, s STRING"
FORMAT_KEYS = 100_000
FORMAT_SQL = (
    "SELECT count(*), sum(x.v), max(x.s) FROM large x "
    "JOIN (SELECT id AS j, id * 7919 % 1000 AS g FROM range(100000)) y ON x.k = y.j WHERE y.g {}"
)
#: On another column than the key: Spark cannot carry the condition over to the other side.
CONDITIONS = {"useless": ">= 0", "selective": "= 0"}


def formats(millions: float) -> Iterator[Case]:
    """A shuffled join with keys that leave a thousandth of the rows, or all of them."""
    confs = {**NO_BROADCAST, "spark.sql.shuffle.partitions": "4"}
    for table, kind in FORMATS.items():
        views = {"large": partial(_format, table, kind, int(millions * MILLION))}
        for what, condition in CONDITIONS.items():
            ways = twice(FORMAT_SQL.format(condition))
            yield Case("formats", f"{table}, {what}", ways, f"{millions:g}M rows", views=views, confs=confs)


def _format(table: str, kind: str, rows: int) -> View:
    folder = datafiles.DATA / "formats" / f"{table}-{rows}"
    if not (folder / "_SUCCESS").exists():
        spark = SparkSession.builder.master(runs.LOCAL).getOrCreate()
        columns = f"pmod(hash(id), {FORMAT_KEYS}) AS k", "id", "CAST(id % 97 AS INT) AS v"
        frame = spark.range(0, rows, 1, 8).selectExpr(*columns, "concat('abc', repeat(id, 4)) AS s")
        frame = frame.sort("k") if "by key" in table else frame
        frame.write.mode("overwrite").format(kind).save(str(folder))
        spark.stop()
    return View(folder, kind, FORMAT_COLUMNS)


# --- Delta and Iceberg tables made of links to the same Parquet files

TABLES = datafiles.DATA / "tables"
MERGE_FILES, MERGE_KEYS = 1_000, 1_000
MERGE = (
    "MERGE INTO merged t USING source s ON t.id = s.k WHEN MATCHED THEN UPDATE SET v = s.nv "
    "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.k, s.nv)"
)
#: What a format needs for any query: its statistics exclude every file.
NO_ROWS = "SELECT count(URL) FROM {t} WHERE EventTime < TIMESTAMP '1990-01-01'"


def table_settings() -> dict[str, str]:
    """Of a session that has the format of TABLE_FORMAT."""
    shutil.rmtree(TABLES, ignore_errors=True)
    warehouse = TABLES / "warehouse"
    return {"spark.sql.warehouse.dir": str(warehouse), **_package().config(warehouse)}


def _package() -> packages.Package:
    package = packages.chosen()
    if package is None:
        raise SystemExit("set TABLE_FORMAT to one of " + ", ".join(packages.ALL))
    return package


def tables(log: int, join: float) -> Iterator[Case]:
    """TopKs and joins over a table of the format, beside its files as plain Parquet."""
    size, hits = f"{log}M rows", partial(layouts.table, layouts.DEFAULT_DATA, "int64", log)
    texts = {query.name: (query.sql("{t}"), query.difference) for query in queries.SCALING}
    around, views = partial(_adopt, "hits", hits), {"hits_parquet": hits}
    for name, (text, difference) in texts.items():
        ways = _beside("hits", text)
        yield Case("TopK", name, ways, size, views=views, around=around, difference=difference)
    yield Case("TopK", "no rows", _beside("hits", NO_ROWS), size, views=views, around=around)
    big = partial(join_tables.big, JOINS, int(join * MILLION))
    views = {"big_parquet": big, "small": partial(join_tables.small, JOINS, int(join * MILLION))}
    for strategy, confs in (("broadcast", {}), ("merge", NO_BROADCAST)):
        text = CLUSTERED_SQL.replace("FROM big", "FROM {t}").replace("{bound}", "")
        text = text.replace("{hint}", strategy.upper()).replace("{kept}", str(join_tables.SMALL_KEPT))
        ways, around = _beside("big", text), partial(_adopt, "big", big)
        yield Case("join", strategy, ways, f"{join:g}M rows", views=views, confs=confs, around=around)


def _beside(table: str, text: str) -> dict[str, Variant]:
    found = {}
    for format in ("parquet", _package().name):
        sql = text.format(t=f"{table}_{format}")
        found[f"{format} {STOCK}"] = Variant(sql)
        found[f"{format} {FIRST}"] = Variant(sql, filters=True, forgets=True)
        found[f"{format} {REPEATED}"] = Variant(sql, filters=True)
    return found


@contextmanager
def _adopt(name: str, source: partial[Path], spark: SparkSession) -> Iterator[Mapping[str, str]]:
    """A table of the format whose data files are links to those of a folder; it stays."""
    linked = TABLES / name
    if not linked.exists():
        linked.mkdir(parents=True)
        for file in sorted(source().glob("*.parquet")):
            os.link(file, linked / file.name)
        if _package() is packages.DELTA:
            spark.sql(f"CONVERT TO DELTA parquet.`{linked}`")
            spark.sql(f"CREATE TEMP VIEW {name}_delta AS SELECT * FROM delta.`{linked}`")
        else:
            table, files = f"ice.db.{name}", f"`parquet`.`{linked}`"
            spark.read.parquet(str(linked)).limit(0).writeTo(table).using("iceberg").create()
            spark.sql(f"CALL ice.system.add_files(table => 'db.{name}', source_table => '{files}')")
            spark.sql(f"CREATE TEMP VIEW {name}_iceberg AS SELECT * FROM {table}")
    yield {}


def merges(rows_of_files: list[int]) -> Iterator[Case]:
    """Keys of one file into a Delta table of many, which is put back after each run."""
    if _package() is not packages.DELTA:
        return
    ways = {
        STOCK: Variant(MERGE),
        FIRST: Variant(MERGE, filters=True, forgets=True),
        REPEATED: Variant(MERGE, filters=True),
    }
    for rows in rows_of_files:
        table, back = f"{MERGE_FILES:,} files of {rows:,} rows", "RESTORE TABLE merged TO VERSION AS OF 0"
        yield Case("MERGE", f"{MERGE_KEYS:,} keys", ways, table, around=partial(_merged, rows), after=back)


@contextmanager
def _merged(rows_of_file: int, spark: SparkSession) -> Iterator[Mapping[str, str]]:
    rows = MERGE_FILES * rows_of_file
    columns = "id, id * 3 AS v, id % 1000 AS g, xxhash64(id) AS h, CONCAT('text ', id % 10000) AS s"
    source = f"SELECT {rows // 2} + id AS k, -id AS nv FROM RANGE({MERGE_KEYS})"
    target = f"SELECT {columns} FROM RANGE(0, {rows}, 1, {MERGE_FILES})"
    for name, text in (("source", source), ("merged", target)):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.sql(f"CREATE TABLE {name} USING delta AS {text}")
    yield {}
