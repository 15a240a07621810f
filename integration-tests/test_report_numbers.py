"""What reports say of files, rows and bytes, against what pyarrow reads in the files' footers."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

import spark_dynamic_filters as sdf
from support import joins

pytestmark = pytest.mark.timeout(300)

FILES, ROWS, ROW_GROUP = 8, 4_000, 500
# Files younger than this are not remembered: see FileStatistics.
SETTLED_SECONDS = 3.0

_BUILD = "(SELECT id AS x FROM range({}) WHERE id % 3 > 0) b"
_MERGE = "SELECT /*+ MERGE(b), DYNAMIC_FILTER(events) */"
#: Queries over `events`, and the columns of it that they read.
QUERIES = {
    "SELECT k, pair.a FROM events ORDER BY k LIMIT 5": "k pair.a",
    "SELECT wide, pair FROM events ORDER BY word DESC LIMIT 300": "wide pair word",
    "SELECT wide, price FROM events WHERE k > 9000 ORDER BY moment DESC LIMIT 1": "wide price k moment",
    f"{_MERGE} k, wide FROM events JOIN {_BUILD.format('5000, 5050')} ON k = x": "k wide",
    f"{_MERGE} word FROM events JOIN {_BUILD.format('7000, 10000')} ON shuffled = x "
    "WHERE price < 0.9": "word shuffled price",
    "SELECT /*+ BROADCAST(b), DYNAMIC_FILTER(events) */ moment FROM events "
    f"JOIN {_BUILD.format('31000, 31005')} ON k = x": "moment k",
}


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight files, `k` in order from file to file; with and without page indexes and compression."""
    folder = tmp_path_factory.mktemp("events")
    generator = np.random.default_rng(16)
    for n in range(FILES):
        first = n * ROWS
        table = pa.table(
            {
                "k": pa.array(np.arange(first, first + ROWS)),
                "shuffled": pa.array(generator.integers(0, FILES * ROWS, ROWS)),
                "word": pa.array([f"w{i}" for i in generator.integers(0, 20, ROWS)]),
                "wide": pa.array([f"{x:040d}" for x in generator.integers(0, 1 << 40, ROWS)]),
                "price": pa.array(generator.random(ROWS)),
                "moment": pa.array(
                    (np.arange(ROWS) + first).astype("datetime64[s]").astype("datetime64[us]")
                ),
                "pair": pa.array([{"a": int(i), "b": float(i)} for i in range(ROWS)]),
            }
        )
        pq.write_table(
            table,
            folder / f"part-{n}.parquet",
            row_group_size=ROW_GROUP,
            write_page_index=n % 2 == 0,
            data_page_size=2_000,
            compression=("snappy", "none", "zstd")[n % 3],
        )
    time.sleep(SETTLED_SECONDS)
    spark.read.parquet(str(folder)).createOrReplaceTempView("events")
    return folder


def _chunks(folder: Path, columns: set[str]) -> tuple[int, int, int]:
    """Row groups, rows, and compressed bytes of the column chunks of these columns and what is below them."""
    groups = rows = size = 0
    for file in sorted(folder.glob("*.parquet")):
        footer = pq.read_metadata(file)
        groups += footer.num_row_groups
        rows += footer.num_rows
        for g in range(footer.num_row_groups):
            group = footer.row_group(g)
            chunks = [group.column(c) for c in range(group.num_columns)]
            wanted = [
                c for c in chunks if any((c.path_in_schema + ".").startswith(name + ".") for name in columns)
            ]
            size += sum(c.total_compressed_size for c in wanted)
    return groups, rows, size


def test_totals_are_those_of_the_footers(spark: SparkSession, events: Path) -> None:
    """In the first run, when nothing is known, and in a later one, which leaves files unopened and has small
    splits. A row group of which several splits have a part counts once.
    """
    unopened = 0
    for query, columns in QUERIES.items():
        groups, rows, size = _chunks(events, set(columns.split()))
        before = None
        for split_bytes in ("128m", "40k"):
            with joins.settings(spark, {"spark.sql.files.maxPartitionBytes": split_bytes}):
                (scan,) = [s for s in sdf.analyze(spark.sql(query)).scans if s["files_total"]]
            seen = f"{query}, splits of {split_bytes}: {scan}"
            assert (scan["files_total"], scan["bytes_total"]) == (FILES, size), seen
            # Row groups that the query's own predicates exclude do not count.
            totals = (scan["row_groups_total"], scan["rows_total"])
            assert totals == (before or totals), seen
            before = totals
            if "WHERE k" not in query and "WHERE price" not in query:
                assert totals == (groups, rows), seen
            _assert_parts(scan)
            unopened += scan["files_unopened"]
    assert unopened >= len(QUERIES)


def _assert_parts(scan: Row) -> None:
    assert 0 <= scan["bytes_read"] <= scan["bytes_total"], scan
    # A page can be read in two first passes, with the best rows and with the rest.
    assert 0 <= scan["bytes_read_again"] <= 3 * scan["bytes_read"], scan
    assert 0 <= scan["row_groups_pruned"] <= scan["row_groups_total"], scan
    assert sum(scan["pruned_by"].values()) == scan["row_groups_pruned"], scan
    assert scan["rows_pruned"] + scan["rows_output"] == scan["rows_total"], scan
    assert 0 <= scan["files_unopened"] <= scan["files_pruned"] <= scan["files_total"], scan


def test_a_filter_of_no_use_reads_no_byte_twice_as_new(spark: SparkSession, events: Path) -> None:
    """The filter's column is read first, and then with the others: it counts once."""
    build = f"(SELECT id AS x FROM range({FILES * ROWS}) WHERE id % 50 > 0)"
    query = (
        f"SELECT /*+ MERGE(b), DYNAMIC_FILTER(events) */ k, wide FROM events JOIN {build} b ON shuffled = b.x"
    )
    analysis = sdf.analyze(spark.sql(query))
    (scan,) = [s for s in analysis.scans if s["files_total"]]
    assert scan["bytes_read"] == scan["bytes_total"] == _chunks(events, {"k", "wide", "shuffled"})[2]
    _assert_parts(scan)


def test_partitions_that_nobody_opened(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is known of them but by their footers, which the analysis reads."""
    for n in range(4):
        (tmp_path / "parts" / f"part={n}").mkdir(parents=True)
        table = pa.table({"k": np.arange(1_000), "other": np.arange(1_000.0)})
        pq.write_table(table, tmp_path / "parts" / f"part={n}" / "data.parquet", row_group_size=100)
    pq.write_table(pa.table({"x": [2]}), tmp_path / "wanted.parquet")
    spark.read.parquet(str(tmp_path / "parts")).createOrReplaceTempView("parts")
    spark.read.parquet(str(tmp_path / "wanted.parquet")).createOrReplaceTempView("wanted")
    query = "SELECT /*+ BROADCAST(wanted), DYNAMIC_FILTER(parts) */ k FROM parts JOIN wanted ON part = x"
    with joins.settings(spark, {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}):
        for _ in range(2):
            (scan,) = [s for s in sdf.analyze(spark.sql(query)).scans if s["files_total"] > 1]
            found = (
                scan["files_unopened"],
                scan["row_groups_total"],
                scan["rows_total"],
                scan["rows_pruned"],
            )
            assert found == (3, 40, 4_000, 3_000), scan
            chunks = [_chunks(tmp_path / "parts" / f"part={n}", {"k"})[2] for n in range(4)]
            assert scan["bytes_total"] == sum(chunks), scan
            assert scan["bytes_read"] == chunks[2], scan
            _assert_parts(scan)


@pytest.mark.parametrize("strategy", joins.STRATEGIES)
def test_nested_columns_read_row_by_row(spark: SparkSession, events: Path, strategy: str) -> None:
    """What is dropped of rows that no footer was asked for is dropped of those that were seen."""
    few = f"(SELECT id * 31 AS j FROM range({FILES * ROWS // 310}))"
    query = f"SELECT e.k, e.pair FROM events e JOIN {few} f ON e.shuffled = f.j"
    rows = {"spark.sql.parquet.enableNestedColumnVectorizedReader": "false"}
    with joins.settings(spark, joins.STRATEGIES[strategy], joins.FOREVER, rows):
        found = len(spark.sql(query).collect())
        (scan,) = sdf.analyze(spark.sql(query)).scans
    assert 0 < found <= scan["rows_output"] <= scan["rows_total"] == FILES * ROWS, scan
    assert scan["rows_pruned"] == scan["rows_total"] - scan["rows_output"], scan
    if strategy != "broadcast":
        assert scan["rows_output"] == found, scan


def test_own_predicates_exclude_row_groups_of_unopened_files_too(spark: SparkSession, events: Path) -> None:
    """Known or not, opened or not: a row group counts if stock Spark would have read of it."""
    within = f"k BETWEEN {ROWS + ROW_GROUP} AND {5 * ROWS - ROW_GROUP - 1}"
    wanted = 4 * ROWS - 2 * ROW_GROUP
    unopened = []
    # Each order is new to the table, and then known.
    for order in ("moment", "moment DESC", "k", "shuffled", "shuffled"):
        query = f"SELECT k, wide FROM events WHERE {within} ORDER BY {order} LIMIT 3"
        (scan,) = sdf.analyze(spark.sql(query)).scans
        assert (scan["row_groups_total"], scan["rows_total"]) == (wanted // ROW_GROUP, wanted), (order, scan)
        _assert_parts(scan)
        unopened.append(scan["files_unopened"])
    assert max(unopened) >= 3


def test_a_join_that_an_empty_build_side_ends(spark: SparkSession, events: Path) -> None:
    """Adaptive execution drops the scan from the plan; files that it left unopened still count."""
    query = (
        "SELECT /*+ MERGE(b), DYNAMIC_FILTER(events) */ k, wide FROM events "
        "JOIN (SELECT id AS x FROM range(0, 1000, 1, 2) WHERE rand(1) > 2) b ON shuffled = b.x"
    )
    groups, rows, size = _chunks(events, {"k", "wide", "shuffled"})
    for _ in range(2):
        # Not submitted at all, it is in no report.
        for scan in sdf.analyze(spark.sql(query)).scans:
            if scan["files_total"]:
                found = (scan["row_groups_total"], scan["rows_total"], scan["bytes_total"])
                assert found == (groups, rows, size), scan


def test_a_query_that_failed_skipped_what_is_known(spark: SparkSession, events: Path) -> None:
    """Files that no task came to were not skipped by a filter."""
    with pytest.raises(Exception, match="boom"):
        spark.sql("SELECT raise_error('boom') FROM events ORDER BY wide LIMIT 3").collect()
    newest = sdf.scans(spark).orderBy("query_id", ascending=False).first()
    assert newest is not None
    assert (newest["files_total"], newest["files_pruned"], newest["files_unopened"]) == (FILES, 0, 0)
