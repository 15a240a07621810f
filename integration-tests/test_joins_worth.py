"""Joins whose filters are not made, because they are not expected to pay."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from support import joins, tables
from support.joins import Comparer

pytestmark = pytest.mark.exhaustive

#: A build side without a condition that has more rows than this is not expected to leave anything out.
FEW = {"spark.dynamicFilters.join.maxBuildRows": "100"}
NOT_SELECTIVE = "and no condition reduces them"


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probe p (key k); builds b with keys of one row group, and often, with several rows a key."""
    folder = tmp_path_factory.mktemp("worth")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "b", joins.build(joins.within_row_group(3)))
    joins.view(spark, folder, "often", joins.build(n % 301 for n in range(1_500)))
    return Comparer(spark)


HAVING = "SELECT p.id FROM p JOIN (SELECT j FROM often {} GROUP BY j HAVING count(*) > 4) o ON p.k = o.j"
# Shuffled joins without a filter, and words of the reason.
NOT_MADE = {
    # The join kind allows one direction only, and it is from the larger side to the smaller one.
    "from_the_larger_side": (
        "SELECT p.id, b.n FROM p LEFT JOIN b ON p.k = b.j",
        "expected to have more rows than the probe side",
    ),
    "without_a_condition": ("SELECT p.id FROM p JOIN often o ON p.k = o.j", NOT_SELECTIVE),
    # The keys are collected before it.
    "having": (HAVING.format(""), NOT_SELECTIVE),
    "having_on_the_other_side_of_a_join": (
        "SELECT p.id FROM p JOIN (SELECT x.j FROM often x LEFT SEMI JOIN "
        "(SELECT j FROM often GROUP BY j HAVING count(*) > 4) y ON x.j = y.j) o ON p.k = o.j",
        NOT_SELECTIVE,
    ),
}
MADE = {
    "condition": ("SELECT p.id FROM p JOIN often o ON p.k = o.j WHERE o.h = 3", joins.SHUFFLED),
    "condition_before_having": (HAVING.format("WHERE h = 3"), joins.SHUFFLED),
    # The keys are collected after it.
    "having_before_a_broadcast": (HAVING.format(""), joins.BROADCAST),
}


@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("case", NOT_MADE)
def test_no_filter_of_keys_that_leave_nothing_out(compare: Comparer, case: str, adaptive: str) -> None:
    query, reason = NOT_MADE[case]
    run = compare(query, joins.SHUFFLED, FEW, joins.ADAPTIVE[adaptive], fires=False).on
    assert run.rows
    joins.assert_not_pruned(run, "j", "k")
    joins.assert_reason(run, reason)


@pytest.mark.parametrize("case", MADE)
def test_filter_of_keys_that_a_condition_reduces(compare: Comparer, case: str) -> None:
    query, strategy = MADE[case]
    joins.assert_pruned(compare(query, strategy, FEW).on, "k")


@pytest.mark.parametrize("strategy", joins.STRATEGIES)
def test_filters_of_joins_above_make_a_build_side_selective(compare: Comparer, strategy: str) -> None:
    # The join with b comes after the one that p is filtered by; its filter leaves rows of o out before it.
    query = "SELECT p.id, b.n FROM p JOIN often o ON p.k = o.j JOIN b ON o.n = b.j + 300"
    confs = (joins.STRATEGIES[strategy], FEW, joins.FOREVER)
    run = compare(query, *confs).on
    joins.assert_not_pruned(run, "k")
    joins.assert_reason(run, NOT_SELECTIVE)
    selective = compare(f"{query} WHERE b.h = 3", *confs).on
    assert selective.rows
    joins.assert_pruned(selective, "k")


@pytest.mark.parametrize("strategy", joins.STRATEGIES)
def test_where_statistics_say_that_all_rows_pass_nothing_is_read_first(
    spark: SparkSession, tmp_path: Path, compare: Comparer, strategy: str
) -> None:
    joins.view(spark, tmp_path, "all_ids", joins.build(range(tables.ROWS)))
    joins.view(spark, tmp_path, "some_ids", joins.build(range(610, 640, 2)))
    query = "SELECT /*+ DYNAMIC_FILTER(p) */ p.id, p.payload FROM p JOIN {} x ON p.id = x.j WHERE p.v < 5"
    for build, late in (("all_ids", 0), ("some_ids", 1)):
        settings = (joins.STRATEGIES[strategy], joins.FOREVER)
        run = compare(query.format(build), *settings, fires=build == "some_ids").on
        joins.assert_ready(run, "id")
        (scan,) = run.scans_with("id")
        assert scan["row_groups_late_materialized"] == late, f"{build}:\n{run}"


def test_few_nulls_are_not_worth_reading_a_column_first(
    spark: SparkSession, tmp_path: Path, compare: Comparer
) -> None:
    # All keys are matched: the filter leaves out what is NULL, which the footer counts.
    rows = range(tables.ROWS)
    payload = [format(i * 7919, "x").rjust(60, "abc"[i % 3]) for i in rows]
    for name, one_in in (("few_nulls", 40), ("many_nulls", 2)):
        keys = pa.array([None if i % one_in == 0 else i % 5_000 for i in rows], pa.int64())
        joins.view(spark, tmp_path, name, pa.table({"k": keys, "payload": payload}))
    joins.view(spark, tmp_path, "all_keys", joins.build(range(5_000)))
    for probe, pays in (("few_nulls", False), ("many_nulls", True)):
        run = compare(f"SELECT q.payload FROM {probe} q JOIN all_keys x ON q.k = x.j", joins.BROADCAST).on
        joins.assert_ready(run, "k")
        (scan,) = run.scans_with("k")
        assert (scan["row_groups_late_materialized"] > 0) == pays, f"{probe}:\n{run}"


def test_is_not_null_makes_no_first_pass_for_joins(
    spark: SparkSession, tmp_path: Path, compare: Comparer
) -> None:
    """Spark asks it of the keys of all other joins of a star, and few keys are NULL."""
    rows = range(tables.ROWS)
    other = [None if i // 3 % 40 == 0 else format(i * 104_729, "x").rjust(20, "b") for i in rows]
    table = pa.table(
        {"k": [i * 7919 % 5_000 for i in rows], "other": other, "payload": ["a" * 90] * len(rows)}
    )
    (tmp_path / "q").mkdir()
    pq.write_table(table, tmp_path / "q" / "0.parquet", use_dictionary=False)
    spark.read.parquet(str(tmp_path / "q")).createOrReplaceTempView("few_other")
    joins.view(spark, tmp_path, "few_keys", joins.build(range(0, 5_000, 50)))
    query = "SELECT other, payload FROM few_other q JOIN few_keys x ON q.k = x.j WHERE other IS NOT NULL"
    run = compare(query, joins.BROADCAST).on
    joins.assert_pruned(run, "k")
    (scan,) = run.scans_with("k")
    group = pq.ParquetFile(tmp_path / "q" / "0.parquet").metadata.row_group(0)
    assert scan["row_groups_late_materialized"] == 1, run
    assert scan["bytes_read_again"] <= group.column(0).total_compressed_size, run


def test_filter_that_nearly_all_rows_pass_is_left_out_of_first_passes(
    spark: SparkSession, tmp_path: Path, compare: Comparer
) -> None:
    """Fails if first passes decode the columns of all filters: then `o` is read twice in every row group."""
    rows = range(16 * 4_000)
    keys, others = [i * 7919 % 5_000 for i in rows], [i % 20 for i in rows]
    table = pa.table({"k": keys, "o": others, "payload": ["a" * 90] * len(rows)})
    (tmp_path / "two").mkdir()
    file = tmp_path / "two" / "0.parquet"
    pages = {"data_page_size": 1024, "write_batch_size": 50, "write_page_index": True}
    pq.write_table(table, file, row_group_size=4_000, use_dictionary=False, compression="none", **pages)
    spark.read.parquet(str(file.parent)).createOrReplaceTempView("two_keys")
    joins.view(spark, tmp_path, "few_keys", joins.build(range(0, 5_000, 500)))
    joins.view(spark, tmp_path, "most_keys", joins.build(range(20)))
    query = """SELECT q.payload FROM two_keys q JOIN few_keys x ON q.k = x.j
        JOIN (SELECT j FROM most_keys WHERE n < 19) y ON q.o = y.j"""
    run = compare(query, joins.BROADCAST | joins.ONE_SCAN_TASK).on
    joins.assert_ready(run, "o")
    (scan,) = run.scans_with("o")
    assert scan["row_groups_late_materialized"] == 16, run
    # It was 0.61 of a column's bytes, and is 0.35.
    assert scan["bytes_read_again"] < len(rows) * 8 / 2, run


#: Row groups of so many rows, of which the first part is looked at before the rest.
LARGE_ROW_GROUP = 60_000


@pytest.fixture(scope="module")
def days(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probe days of two row groups with page indexes, each sorted by day; of each the keys e are even
    in the first third only. Builds few and even."""
    folder = tmp_path_factory.mktemp("days")
    rows = range(2 * LARGE_ROW_GROUP)
    table = {
        "id": pa.array(rows, pa.int64()),
        "day": pa.array([i % LARGE_ROW_GROUP // 60 for i in rows], pa.int32()),
        "k": pa.array([None if i % 31 == 0 else i * 7919 % 10_000 for i in rows], pa.int64()),
        "e": [i * 7919 % 5_000 * 2 + (i % LARGE_ROW_GROUP > LARGE_ROW_GROUP // 3) for i in rows],
        "v": pa.array([i * 7919 % 10 for i in rows], pa.int32()),
        "a": pa.array([i * 104_729 % 1_000_003 for i in rows], pa.int64()),
        "payload": [format(i * 7919, "x").rjust(60, "abc"[i % 3]) for i in rows],
    }
    (folder / "days").mkdir()
    pq.write_table(
        pa.table(table),
        folder / "days" / "0.parquet",
        row_group_size=LARGE_ROW_GROUP,
        data_page_size=1024,
        write_batch_size=200,
        use_dictionary=False,
        write_page_index=True,
    )
    spark.read.parquet(str(folder / "days")).createOrReplaceTempView("days")
    joins.view(spark, folder, "few", joins.build(range(0, 10_000, 500)))
    joins.view(spark, folder, "even", joins.build(range(0, 10_000, 2)))
    return Comparer(spark)


@pytest.mark.parametrize("where", ["", "WHERE x.v = 3"], ids=["all", "own predicate"])
def test_columns_of_a_filter_that_lets_most_rows_pass_are_not_read_first(days: Comparer, where: str) -> None:
    for build, pays in (("even", False), ("few", True)):
        query = f"SELECT x.e, x.payload FROM days x JOIN {build} y ON x.e = y.j {where}"
        # All rows of a row group's first third pass `even`: tests may end before they drop any.
        run = days(query, joins.BROADCAST, fires=True if pays else None).on
        joins.assert_ready(run, "e")
        (scan,) = run.scans_with("e")
        assert (scan["row_groups_late_materialized"] > 0) == pays, f"{build}:\n{run}"


PREDICATES = {
    "two parts": ("(x.day < 10 OR x.day > 980)", 0.04),
    "most": ("x.day > 100", 0.95),
}
QUERIES = {
    "join": "SELECT x.a, x.payload FROM days x JOIN few y ON x.k = y.j WHERE {where}",
    "topk": "SELECT * FROM days x WHERE {where} ORDER BY x.k, x.id LIMIT 5",
    "min": "SELECT min(x.k), max(x.a) FROM days x WHERE {where}",
}


@pytest.mark.parametrize("case", QUERIES)
@pytest.mark.parametrize("where", PREDICATES)
def test_pages_that_the_querys_own_predicate_leaves_out_stay_unread(
    days: Comparer, case: str, where: str
) -> None:
    predicate, share = PREDICATES[where]
    settings = joins.BROADCAST | joins.ONE_SCAN_TASK
    run = days(QUERIES[case].format(where=predicate), settings, joins.FOREVER).on
    assert run.report is not None
    assert any(f["generation"] > 0 for f in run.report.filters), run
    scan = next(s for s in run.scans if s["row_groups_total"] == 2)
    assert 0 <= scan["rows_output"] <= scan["rows_total"] < 2 * LARGE_ROW_GROUP, run
    # The columns that are read first are read twice.
    assert scan["bytes_read"] < scan["bytes_total"] * min(share * 2, 1), run


@pytest.mark.timeout(60)
def test_what_is_expected_of_many_joins_is_known_at_once(spark: SparkSession, compare: Comparer) -> None:
    tables_of = " ".join(f"JOIN often o{i} ON p.k = o{i}.j" for i in range(32))
    with joins.settings(spark, joins.SHUFFLED):
        plan = spark.sql(f"EXPLAIN SELECT p.id FROM p {tables_of} WHERE o0.h = 3").collect()[0][0]
    assert plan.count("SortMergeJoin") == 32
    assert "DynamicFilter#" in plan
