"""Spark's own files through DataSource V2: rows dropped below exchanges, files left out by partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import spark_dynamic_filters as sdf
from support import joins
from support.joins import STRATEGIES, Comparer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("parquet", "orc", "csv")
SCHEMA = "k BIGINT, id BIGINT, g INT, v INT, s STRING, payload STRING"
PARTS = "k BIGINT, id BIGINT, v INT, s STRING, payload STRING, g INT"


@pytest.fixture(scope="module", autouse=True)
def through_v2(spark: SparkSession) -> Iterator[None]:
    with joins.settings(spark, {"spark.sql.sources.useV1SourceList": ""}):
        yield


@pytest.fixture(scope="module")
def compare(spark: SparkSession, through_v2: None, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probe <format>_p and, by partitions of g, <format>_parts; build b."""
    folder = tmp_path_factory.mktemp("sources")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "b", joins.build([*joins.within_row_group(3), None]))
    for name in FORMATS:
        spark.table("p").write.format(name).save(str(folder / name))
        spark.table("p").repartition(2).write.partitionBy("g").format(name).save(
            str(folder / f"{name}_parts")
        )
        frame = spark.read.format(name).schema(SCHEMA).load(str(folder / name))
        frame.createOrReplaceTempView(f"{name}_p")
        parts = spark.read.format(name).schema(PARTS).load(str(folder / f"{name}_parts"))
        parts.createOrReplaceTempView(f"{name}_parts")
    return Comparer(spark)


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_dropped_below_an_exchange(compare: Comparer, name: str) -> None:
    for query in (
        f"SELECT x.id, x.payload, b.n FROM {name}_p x JOIN b ON x.k = b.j",
        f"SELECT x.id FROM {name}_p x WHERE x.k IN (SELECT j FROM b)",
        f"SELECT x.id FROM {name}_p x JOIN b ON x.k = b.j AND x.g = b.h",
    ):
        run = compare(query, joins.SHUFFLED, joins.FOREVER).on
        joins.assert_ready(run, "k")
        assert "BatchScan" in run.plan, run.plan
        assert sum(s["rows_pruned"] for s in run.scans_with("k")) > 0, str(run)
        compare(query, joins.SHUFFLED, joins.ADAPTIVE["off"], fires=joins.in_time("shuffled", "off"))


@pytest.mark.parametrize("name", FORMATS)
def test_in_the_same_stage_nothing_is_filtered(compare: Comparer, name: str) -> None:
    run = compare(f"SELECT x.id FROM {name}_p x JOIN b ON x.k = b.j", joins.BROADCAST, fires=False).on
    joins.assert_not_pruned(run, "k")
    joins.assert_reason(run, "DataSource V2", "same stage")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", FORMATS)
def test_files_are_left_out_by_partition_columns(compare: Comparer, name: str, strategy: str) -> None:
    for query in (
        f"SELECT x.id FROM {name}_parts x JOIN (SELECT h FROM b WHERE n IN (3, 4)) y ON x.g = y.h",
        f"SELECT x.id FROM {name}_parts x JOIN b ON x.g = b.h AND x.k = b.j WHERE b.n IN (3, 4)",
    ):
        run = compare(query, STRATEGIES[strategy], joins.FOREVER).on
        (scan,) = run.scans_with("g")
        assert scan["files_total"] > 0, str(run)
        assert scan["files_pruned"] >= scan["files_total"] // 2, str(run)


def test_topk(compare: Comparer) -> None:
    run = compare("SELECT g, id FROM parquet_parts ORDER BY g DESC, id LIMIT 5").on
    (scan,) = run.scans
    assert scan["files_pruned"] > 0, str(run)
    run = compare("SELECT g, id FROM parquet_parts ORDER BY id DESC LIMIT 5", fires=False).on
    reasons = [f["reason"] for f in run.report.filters]
    assert any("DataSource V2" in r and "TopK" in r for r in reasons), reasons


def test_users_filter(spark: SparkSession, compare: Comparer) -> None:
    with sdf.create_filter(spark, "mine", "int") as f:
        f.update(sdf.between(3, 4))
        for table, pruned in (("parquet_parts", True), ("orc_p", False)):
            run = joins.run(spark, f"SELECT id, g FROM {table} WHERE dynamic_filter('mine', g)")
            assert len(run.rows) == 800
            (row,) = [x for x in run.report.filters if x["producer"] == "user"]
            if pruned:
                # Spark lists the files by it; none of those that it lists is left out.
                assert row["state"] == "ready", row
                assert not row["reason"], row
            else:
                assert "the condition above it" in row["reason"], row


def test_empty_build_side(compare: Comparer) -> None:
    for name in FORMATS:
        for settings in STRATEGIES.values():
            query = f"SELECT x.id FROM {name}_parts x JOIN (SELECT h FROM b WHERE n > 100) y ON x.g = y.h"
            # Adaptive execution may drop the scan before it runs.
            assert not compare(query, settings, joins.FOREVER, fires=None).off.rows


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_plan_that_is_executed_twice(spark: SparkSession, compare: Comparer, strategy: str) -> None:
    settings = STRATEGIES[strategy]
    with joins.settings(spark, settings, joins.FOREVER):
        frame = spark.sql("SELECT x.id, b.n FROM orc_parts x JOIN b ON x.g = b.h AND x.k = b.j")
        first = sorted(frame.collect())
        assert first
        assert sorted(frame.collect()) == first
        assert frame.count() == len(first)
