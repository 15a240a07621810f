"""Python and pandas functions between a producer and the scan: filters pass where the key goes through."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import PandasUDFType
from pyspark.sql.types import LongType

from spark_dynamic_filters import analyze, create_filter, isin
from support import joins
from support.applications import run_application, value
from support.checks import Check, assert_rejected

Half = Callable[..., Any]


def _halves() -> dict[str, Callable[..., Any]]:
    # Not of the module: such a function goes to a worker by the name of the module, which is not known there.
    def half(value: int | None) -> int | None:
        return None if value is None else value // 2

    def halves(values: Any) -> Any:
        return values // 2

    return {
        "python": F.udf(half, LongType(), useArrow=False),
        "arrow": F.udf(half, LongType(), useArrow=True),
        "pandas": F.pandas_udf(halves, LongType(), PandasUDFType.SCALAR),
    }


@pytest.fixture(params=["python", "arrow", "pandas"])
def half(request: pytest.FixtureRequest, spark: SparkSession) -> Half:
    """A function of the half of its argument."""
    return _halves()[request.param]


@pytest.fixture(scope="module", autouse=True)
def _views(spark: SparkSession, t: str) -> None:
    spark.range(100, 140).selectExpr("id AS j", "id * 2 AS n").createOrReplaceTempView("few")


def _counted(t: DataFrame) -> DataFrame:
    return t.groupBy("c_int").agg(F.count("*").alias("n"))


def _last(frame: DataFrame) -> DataFrame:
    return frame.orderBy(F.desc_nulls_last("c_int")).limit(10)


#: Of the table `t` and a function of the half of its argument.
FRAMES: dict[str, Callable[[DataFrame, Half], DataFrame]] = {
    "condition": lambda t, half: t.where(half("id") % 3 == 1).orderBy(F.desc("id")).limit(10),
    "renamed_key": lambda t, half: (
        t.select(F.col("id").alias("k"), half("seq").alias("h")).where("h > 10").orderBy("k").limit(10)
    ),
    "groups": lambda t, half: _last(_counted(t).select("c_int", half("c_int").alias("h"), "n")),
    "groups_of_a_condition": lambda t, half: (
        t.where(half("id") > 5).groupBy("c_int").agg(F.max("seq")).orderBy("c_int").limit(7)
    ),
    "minimum": lambda t, half: t.where(half("id") % 7 == 2).agg(F.min("id"), F.max("id")),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_best_rows(spark: SparkSession, assert_same_result: Check, half: Half, frame: str) -> None:
    result = assert_same_result(FRAMES[frame](spark.table("t"), half), ordered=True)
    assert "EvalPython" in result.plan


@pytest.mark.parametrize("strategy", joins.STRATEGIES)
def test_join(spark: SparkSession, assert_same_result: Check, half: Half, strategy: str) -> None:
    few = spark.table("few").where(half("n") > 110)
    probe = spark.table("t").withColumn("h", half("seq")).where(half("id") % 2 == 0)
    with joins.settings(spark, joins.STRATEGIES[strategy]):
        assert_same_result(probe.join(few, F.col("id") == F.col("j")))


def test_filter_of_ones_own(spark: SparkSession, assert_same_result: Check, half: Half) -> None:
    with create_filter(spark, "chosen", "bigint") as f:
        f.update(isin([7, 1007, 3000]))
        # Spark brings the condition below the function.
        assert_same_result(spark.table("t").withColumn("h", half("id")).where(f.matches("id")))


def test_several_functions(spark: SparkSession, assert_same_result: Check) -> None:
    by = _halves()
    frame = spark.table("t").withColumn("a", by["python"]("id")).withColumn("b", by["pandas"]("a"))
    with joins.settings(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "200"}):
        frame = frame.where(by["arrow"]("b") > 10).orderBy("id").limit(20)
        assert_same_result(frame, ordered=True)


@pytest.mark.parametrize("strategy", joins.STRATEGIES)
def test_functions_of_batches_see_none_without_rows(
    spark: SparkSession, assert_same_result: Check, strategy: str
) -> None:
    """From Spark 4.3 on they may be given what a scan puts out, batch by batch."""

    def less_the_first(values: Any) -> Any:
        return values - 0 * values.iloc[0]

    function = F.pandas_udf(less_the_first, LongType(), PandasUDFType.SCALAR)
    settings = {
        "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "true",
        "spark.sql.parquet.columnarReaderBatchSize": "16",
        "spark.dynamicFilters.lateMaterialization.enabled": "false",
    }
    with joins.settings(spark, joins.STRATEGIES[strategy], joins.FOREVER, settings):
        # With = a condition on NULLs would come between, which takes rows.
        probe = spark.table("t").select("id", function("id").alias("x"))
        scattered = spark.table("t").where("id % 97 = 5").selectExpr("id AS j")
        assert_same_result(probe.join(scattered, F.col("id").eqNullSafe(F.col("j"))))


_PIPELINED = """
from pyspark.sql import Window, functions as F
spark = start("local[4]", settings={
    "spark.python.udf.pipelined.enabled": "true", "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50", "spark.sql.parquet.columnarReaderBatchSize": "64",
    "spark.sql.files.maxPartitionBytes": "64m", "spark.sql.files.openCostInBytes": "32m",
})
# The best rows come last: as many as can be are counted.
source = spark.range(0, 10000, 1, 2).selectExpr("10000 - id AS k", "id DIV 9 AS g", "md5(string(id)) AS pad")
source.write.option("parquet.block.size", 8192).option("parquet.block.size.row.check.min", 10).parquet("t")
t = spark.read.parquet("t").withColumn("h", F.udf(lambda v: v // 2, "bigint")("k")).where("h >= 0")
rank = F.rank().over(Window.partitionBy().orderBy("k"))
frames = {
    "rows": lambda: t.orderBy("k").limit(700).select("k"),
    "groups": lambda: t.groupBy("g").agg(F.count("*").alias("n")).orderBy(F.desc("g")).limit(600),
    "rank": lambda: t.select("k", rank.alias("r")).where("r <= 500"),
}
wrong = []
for name, frame in frames.items():
    with sdf.conf(spark).override(enabled=False):
        expected = sorted(frame().collect())
    wrong += [name for _ in range(2) if sorted(frame().collect()) != expected]
print("WRONG", json.dumps(wrong))
made = "SELECT max(generation) g FROM dynamic_filters() WHERE producer = 'topk'"
print("MADE", spark.sql(made).head().g)
print("FAILURES", counters(spark)["failures"])
"""


@pytest.mark.exhaustive
def test_functions_that_are_fed_by_a_thread_of_their_own(tmp_path: Path) -> None:
    """From Spark 4.3 on: then the scan runs in another thread than the operators that count its rows."""
    out = run_application(_PIPELINED, tmp_path)
    assert json.loads(value(out, "WRONG")) == []
    assert int(value(out, "MADE")) > 0
    assert value(out, "FAILURES") == "0"


def test_not_deterministic(spark: SparkSession, half: Half) -> None:
    chance, t = half.asNondeterministic(), spark.table("t")
    for frame in (
        t.where(chance("id") % 3 == 1).orderBy("id").limit(10),
        t.where(chance("id") >= 0).join(spark.table("few"), F.col("id") == F.col("j")),
    ):
        analysis = analyze(frame)
        assert not any(f["generation"] for f in analysis.filters), analysis
        assert any("deterministic" in reason for reason in analysis.reasons()), analysis


#: Frames whose scan is not filtered, and words of the reason.
STOPS: dict[str, tuple[Callable[[DataFrame, Half], DataFrame], str]] = {
    "key": (
        lambda t, half: t.select("id", half("id").alias("x")).orderBy("x", "id").limit(5),
        "computed by a Python function",
    ),
    # Groups past the bound may have lost rows: a user's function may not expect what is left.
    "part_of_a_group": (
        lambda t, half: _last(_counted(t).select("c_int", half("n").alias("h"))),
        "may fail if a filter removes rows",
    ),
    "map_in_pandas": (
        lambda t, half: t.select("id").mapInPandas(lambda b: b, "id bigint").orderBy("id").limit(5),
        "in the way",
    ),
}


@pytest.mark.parametrize("case", STOPS)
def test_not_filtered(spark: SparkSession, assert_same_result: Check, half: Half, case: str) -> None:
    frame, words = STOPS[case]
    result = assert_same_result(frame(spark.table("t"), half), ordered=True, fires=False)
    assert_rejected(result, words)


def test_table_function(spark: SparkSession, assert_same_result: Check) -> None:
    @F.udtf(returnType="h bigint")
    class Halves:
        def eval(self, value: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
            yield (value // 2,)

    spark.udtf.register("halves", Halves)
    query = "SELECT id, h FROM t, LATERAL halves(id) ORDER BY id LIMIT 5"
    assert_rejected(assert_same_result(query, ordered=True, fires=False), "not deterministic")


@pytest.mark.parametrize("hint", ["merge", "broadcast"])
def test_function_over_an_iterator_of_batches_sees_all_rows(
    spark: SparkSession, assert_same_result: Check, hint: str
) -> None:
    @F.pandas_udf(LongType(), PandasUDFType.SCALAR_ITER)
    def counted(batches: Any) -> Any:
        seen = 0
        for batch in batches:
            seen += len(batch)
            yield batch * 0 + seen

    few = spark.table("few").where("n < 250").hint(hint)
    frame = spark.table("t").withColumn("seen", counted("id"))
    result = assert_same_result(frame.join(few, F.col("id") == F.col("j")).select("id", "seen"), fires=False)
    assert_rejected(result, "a Python function over an iterator of batches is in the way", producer="join")
