"""Joins whose filters are not made because of what earlier runs have shown."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import joins, tables
from support.joins import Comparer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USELESS = "most rows passed the filter in earlier runs of the query"


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Table: probe p (key k)."""
    joins.view(spark, tmp_path_factory.mktemp("learned"), "p", joins.probe())
    return Comparer(spark)


@pytest.mark.parametrize("strategy", joins.STRATEGIES)
def test_a_filter_that_all_rows_passed_before_is_not_made_again(
    spark: SparkSession, tmp_path: Path, compare: Comparer, strategy: str
) -> None:
    joins.view(spark, tmp_path, "whole", joins.build(range(joins.KEYS)))
    joins.view(spark, tmp_path, "part", joins.build(range(0, joins.KEYS, 2)))
    query = "SELECT {} p.id FROM p JOIN {} x ON p.k = x.j"
    confs = (joins.STRATEGIES[strategy], joins.FOREVER)
    for _ in range(2):
        joins.assert_ready(compare(query.format("", "whole"), *confs).on, "k")
    run = compare(query.format("", "whole"), *confs, fires=False).on
    joins.assert_reason(run, USELESS)
    assert not run.scans_with("k")
    hinted = query.format("/*+ DYNAMIC_FILTER(p) */", "whole")
    joins.assert_ready(compare(hinted, *confs).on, "k")
    never = {"spark.dynamicFilters.selectivity.giveUp": "1.0"}
    joins.assert_ready(compare(query.format("", "whole"), *confs, never).on, "k")
    # A filter that leaves something out, and one that does so since the table was written anew.
    for _ in range(4):
        joins.assert_ready(compare(query.format("", "part"), *confs).on, "k")
    shutil.rmtree(tmp_path / "whole")
    joins.view(spark, tmp_path, "whole", joins.build(range(0, joins.KEYS, 20)))
    joins.assert_pruned(compare(query.format("", "whole"), *confs).on, "k")


@pytest.mark.parametrize(("left_out", "pays"), [(5, False), (2, True)])
def test_a_filter_that_most_tested_rows_passed_before_is_not_made_again(
    spark: SparkSession, tmp_path: Path, compare: Comparer, left_out: int, pays: bool
) -> None:
    # More rows than are tested whatever it costs. Each row group has all keys, and of five rows four pass.
    # Whether rows are tested is decided for a partition as a whole: there are many.
    (tmp_path / "wide").mkdir()
    for i in range(40):
        ids = range(i * 5_000, (i + 1) * 5_000)
        part = pa.table({"k": pa.array((i % 1_000 for i in ids), pa.int64()), "id": ids})
        pq.write_table(part, tmp_path / "wide" / f"part-{i}.parquet")
    spark.read.parquet(str(tmp_path / "wide")).createOrReplaceTempView("wide")
    joins.view(spark, tmp_path, "most", joins.build(k for k in range(1_000) if k % left_out))
    query = "SELECT {} wide.k, count(*), sum(wide.id) FROM wide JOIN most x ON wide.k = x.j GROUP BY wide.k"
    confs = (joins.SHUFFLED, joins.FOREVER)
    for _ in range(2):
        joins.assert_ready(compare(query.format(""), *confs).on, "k")
    again = compare(query.format(""), *confs, fires=pays).on
    if pays:
        joins.assert_ready(again, "k")
        # Rows that are tested one by one count too.
        for _ in range(4):
            run = compare(query.format(""), *confs, {"spark.sql.codegen.wholeStage": "false"}).on
            joins.assert_ready(run, "k")
            joins.assert_pruned(run, "k")
        return
    joins.assert_reason(again, USELESS)
    assert not again.scans_with("k")
    joins.assert_ready(compare(query.format("/*+ DYNAMIC_FILTER(wide) */"), *confs).on, "k")
    never = {"spark.dynamicFilters.selectivity.giveUp": "1.0"}
    joins.assert_ready(compare(query.format(""), *confs, never).on, "k")
    # Another build side.
    joins.view(spark, tmp_path, "few", joins.build(range(0, 1_000, 100)))
    joins.assert_ready(compare(query.format("").replace("most", "few"), *confs).on, "k")


@pytest.mark.parametrize("end", ["LIMIT 10", "ORDER BY p.id LIMIT 10"])
def test_nothing_is_told_by_row_groups_that_a_limit_leaves_unread(
    spark: SparkSession, tmp_path: Path, compare: Comparer, end: str
) -> None:
    # All rows of the first row groups pass, and of the others none.
    table = joins.probe()
    one_file = table.slice(0, table.num_rows - 1)
    joins.view(spark, tmp_path, "one_file", one_file, row_group_size=tables.ROW_GROUP_ROWS)
    joins.view(spark, tmp_path, "lowest", joins.build(range(joins.KEYS // 4)))
    query = "SELECT p.id FROM one_file p JOIN lowest x ON p.k = x.j"
    confs = (joins.BROADCAST, joins.FOREVER, {"spark.sql.files.maxPartitionBytes": "64m"})
    with joins.settings(spark, *confs):
        for _ in range(3):
            joins.assert_ready(joins.run(spark, f"{query} {end}"), "k")
    joins.assert_row_groups_pruned(compare(query, *confs).on, "k")


def test_nothing_is_told_by_row_groups_that_another_filter_leaves_out(
    spark: SparkSession, tmp_path: Path, compare: Comparer
) -> None:
    joins.view(spark, tmp_path, "lower", joins.build(range(joins.KEYS)))
    joins.view(spark, tmp_path, "upper", joins.build(range(tables.ROWS)))
    # Of the rows that either filter leaves, the other one leaves all.
    query = (
        "SELECT p.v FROM p JOIN lower x ON p.k = x.j JOIN upper y ON p.id = y.j WHERE x.n < {} AND y.n < {}"
    )
    confs = (joins.BROADCAST, joins.FOREVER)
    for _ in range(3):
        compare(query.format(300, 2_000), *confs)
    joins.assert_row_groups_pruned(compare(query.format(joins.KEYS, 2_000), *confs).on, "id")
    for _ in range(3):
        compare(query.format(900, 300), *confs)
    joins.assert_row_groups_pruned(compare(query.format(900, tables.ROWS), *confs).on, "k")


@pytest.mark.parametrize(
    ("place", "strategy"), [("above", "broadcast"), ("above", "shuffled"), ("within", "shuffled")]
)
def test_tables_that_the_build_side_is_joined_with_have_changed(
    spark: SparkSession, tmp_path: Path, compare: Comparer, place: str, strategy: str
) -> None:
    dim = "JOIN dim d ON m.n = d.j AND d.w > 0"
    within = f"(SELECT m.j FROM whole m {dim})"
    query = "SELECT p.id FROM p JOIN " + (
        f"{within} m ON p.k = m.j" if place == "within" else f"whole m ON p.k = m.j {dim}"
    )
    confs = (joins.STRATEGIES[strategy], joins.FOREVER)
    joins.view(spark, tmp_path, "whole", joins.build(range(joins.KEYS)))
    joins.view(spark, tmp_path, "dim", joins.build(range(joins.KEYS)))
    for _ in range(2):
        compare(query, *confs)
    # A filter of another join may go on leaving out NULLs.
    run = compare(query, *confs, fires=None).on
    joins.assert_reason(run, USELESS)
    shutil.rmtree(tmp_path / "dim")
    joins.view(spark, tmp_path, "dim", joins.build(range(20)))
    run = compare(query, *confs).on
    assert not any(USELESS in (f["reason"] or "") for f in run.filters), f"{run}"


def test_a_changed_build_side_of_the_other_file_reader(
    spark: SparkSession, tmp_path: Path, compare: Comparer
) -> None:
    confs = (joins.BROADCAST, joins.FOREVER)
    query = "SELECT p.id FROM p JOIN elsewhere x ON p.k = x.j"
    for keys in (*[range(joins.KEYS)] * 3, range(20)):
        shutil.rmtree(tmp_path / "elsewhere", ignore_errors=True)
        with joins.settings(spark, {"spark.sql.sources.useV1SourceList": ""}):
            joins.view(spark, tmp_path, "elsewhere", joins.build(keys))
        run = compare(query, *confs).on
        joins.assert_ready(run, "k")
    joins.assert_row_groups_pruned(run, "k")
