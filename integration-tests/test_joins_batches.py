"""Rows that were read in full, and are dropped before they go into an exchange or a join."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import joins, tables
from support.joins import Comparer

PLAIN = {"spark.dynamicFilters.lateMaterialization.enabled": "false"}

JOIN = "SELECT p.id, p.payload, few.n FROM p JOIN few ON p.k = few.j"

#: Some of every row group: none can be skipped as a whole.
SCATTERED = range(5, joins.KEYS, 50)

#: Beside the atomic types of `t`, what Spark reads through the children of a vector.
NESTED = (
    "struct(c_int, c_string, struct(c_date, c_binary) AS inner) AS s",
    "array(c_date, c_date) AS a",
    "array(struct(id, c_string)) AS structs",
    "map(id, struct(c_string, c_double)) AS m",
    "make_dt_interval(0, 0, 0, id) AS i",
)


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: probe p with key k, build few with keys of every row group, build most with nearly all keys."""
    folder = tmp_path_factory.mktemp("batches")
    joins.view(spark, folder, "p", joins.probe())
    joins.view(spark, folder, "few", joins.build(SCATTERED))
    joins.view(spark, folder, "most", joins.build(k for k in range(joins.KEYS) if k % 50))
    return Comparer(spark)


def _output(run: joins.Run, column: str = "k") -> tuple[int, int]:
    """Rows that the filtered scan handed on, and rows of its table."""
    (scan,) = run.scans_with(column)
    return scan["rows_output"], scan["rows_total"]


@pytest.mark.core
@pytest.mark.parametrize("strategy", joins.STRATEGIES)
def test_rows_that_do_not_match_reach_no_exchange_and_no_join(compare: Comparer, strategy: str) -> None:
    run = compare(JOIN, joins.STRATEGIES[strategy], joins.FOREVER, PLAIN).on
    joins.assert_ready(run, "k")
    assert _output(run) == (len(run.rows), tables.ROWS), run


@pytest.mark.core
@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", joins.STRATEGIES)
def test_all_types_and_nested_ones(
    spark: SparkSession, t: str, tmp_path: Path, compare: Comparer, strategy: str
) -> None:
    spark.table(t).selectExpr("*", *NESTED).write.parquet(str(tmp_path / "wide"))
    spark.read.parquet(str(tmp_path / "wide")).createOrReplaceTempView("wide")
    query = "SELECT w.* FROM wide w JOIN (SELECT id FROM t WHERE id % 7 = 3) b ON w.id = b.id"
    for name, settings in {
        "plain": {},
        "off-heap": {"spark.sql.columnVector.offheap.enabled": "true"},
        "nested not vectorized": {"spark.sql.parquet.enableNestedColumnVectorizedReader": "false"},
        "no batches": {"spark.sql.codegen.maxFields": "10"},
    }.items():
        confs = (joins.STRATEGIES[strategy], joins.FOREVER, PLAIN, settings)
        # Readers of rows skip whole files only, and each file has some of the keys.
        in_batches = name in ("plain", "off-heap")
        run = compare(query, *confs, expected="types", fires=in_batches or strategy == "shuffled").on
        assert run.rows, name
        if in_batches:
            assert _output(run, "id")[0] == len(run.rows), f"{name}:\n{run}"


def test_columns_that_files_do_not_store(spark: SparkSession, tmp_path: Path, compare: Comparer) -> None:
    spark.table("p").write.partitionBy("g").parquet(str(tmp_path / "by_g"))
    schema = "k BIGINT, id BIGINT, gone STRING, g INT"
    spark.read.schema(schema).parquet(str(tmp_path / "by_g")).select(
        "*", "_metadata.row_index", "_metadata.file_size"
    ).createOrReplaceTempView("by_g")
    query = "SELECT x.* FROM by_g x JOIN few ON x.k = few.j"
    run = compare(query, joins.SHUFFLED, joins.FOREVER, PLAIN).on
    assert _output(run)[0] == len(run.rows) < _output(run)[1], run


# One process tests enough rows to give up.
@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", joins.STRATEGIES)
def test_filter_that_lets_most_rows_pass_is_given_up_in_its_own_stage(
    compare: Comparer, strategy: str
) -> None:
    query = "SELECT p.id, most.n FROM p JOIN most ON p.k = most.j"
    # Tests are counted over many row groups.
    tasks = {"spark.sql.files.maxPartitionBytes": "8k", "spark.sql.files.openCostInBytes": "8k"}
    never = {"spark.dynamicFilters.selectivity.giveUp": "1"}
    confs = (joins.STRATEGIES[strategy], joins.FOREVER, PLAIN, tasks)
    always = compare(query, *confs, never).on
    usual = compare(query, *confs).on
    assert _output(always)[0] == len(always.rows)
    (scan,) = usual.scans_with("k")
    given_up = any("rows are not tested one by one" in reason for reason in scan["reasons"])
    if strategy == "broadcast":
        assert given_up, scan
        assert len(usual.rows) < _output(usual)[0] < tables.ROWS, usual
    else:
        # Below an exchange every attempt of a partition must hand on the same rows.
        assert not given_up, scan
        assert _output(usual)[0] == len(usual.rows), usual
