"""Rows that are dropped from batches of vectors that are not Spark's own: Arrow's and ORC's.

Spark 4.3 caches tables as Arrow (`spark.sql.cache.serializer`) and has timestamps of nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyspark
import pytest
from pyspark.sql import SparkSession

from support import joins
from support.joins import Comparer

SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))
pytestmark = pytest.mark.skipif(SPARK < (4, 3), reason="needs Spark 4.3")

ARROW = "org.apache.spark.sql.execution.columnar.ArrowCachedBatchSerializer"
BATCHES = {"spark.sql.inMemoryColumnarStorage.batchSize": "100"}
NANOS = "CAST('2020-01-01 00:00:00.000000123' AS TIMESTAMP_{}(9))"
#: Whose getters are made of a vector's children by default, which these vectors do not have.
VALUES = {
    "interval": "make_interval(0, CAST(id % 5 AS INT), 0, CAST(id % 9 AS INT))",
    "ntz": f"IF(id % 4 = 0, NULL, {NANOS.format('NTZ')} + make_dt_interval(CAST(id % 9 AS INT)))",
    "ltz": NANOS.format("LTZ"),
    "struct": f"named_struct('a', id, 'b', {NANOS.format('NTZ')})",
    "array": f"array({NANOS.format('NTZ')}, NULL)",
    "variant": "parse_json(CONCAT('{\"a\": ', id, '}'))",
}
ORC = ("ntz", "ltz", "struct")


def _query(kinds: Iterable[str]) -> str:
    values = ", ".join(f"{VALUES[kind]} AS c_{kind}" for kind in kinds)
    return f"SELECT CAST(id DIV 3 AS INT) AS k, id, {values} FROM range(3000)"


@contextmanager
def _arrow(spark: SparkSession) -> Iterator[None]:
    """Meanwhile tables are cached as Arrow. The setting is static, and Spark keeps the first one."""
    java = getattr(spark, "_jvm", None)
    if java is None:
        pytest.skip("sets a static setting in the driver")
    conf = spark._jsparkSession.sessionState().conf()
    key = "spark.sql.cache.serializer"
    before = spark.conf.get(key)

    def serialize_by(name: str) -> None:
        conf.setConfString(key, name)
        relation = getattr(java.org.apache.spark.sql.execution.columnar, "InMemoryRelation$")
        getattr(relation, "MODULE$").clearSerializer()

    serialize_by(ARROW)
    try:
        yield
    finally:
        serialize_by(before)


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Keys: a view of every 40th `k` of 1,000."""
    # Off by default in 4.3.0.
    spark.conf.set("spark.sql.timestampNanosTypes.enabled", "true")
    path = str(tmp_path_factory.mktemp("keys") / "keys")
    spark.sql("SELECT CAST(id * 40 AS INT) k, id x FROM range(30)").write.parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("arrow_keys")
    return joins.Comparer(spark)


def _assert_drops_rows(compare: Comparer, table: str, kinds: Iterable[str]) -> None:
    values = ", ".join(f"CAST(c.c_{kind} AS STRING) AS {kind}_" for kind in kinds)
    query = f"""SELECT /*+ MERGE(c), DYNAMIC_FILTER(c) */ c.id, {values}
        FROM {table} c JOIN arrow_keys y ON c.k = y.k WHERE y.x < 5"""
    run = compare(query, joins.SHUFFLED).on
    assert len(run.rows) == 15
    assert [s["rows_output"] for s in run.scans_with("k")] == [15], str(run)


def test_values_of_cached_arrow_vectors(spark: SparkSession, compare: Comparer) -> None:
    """Fails if a view of a batch reads them through children (NullPointerException in getChild)."""
    with _arrow(spark), joins.settings(spark, BATCHES):
        frame = spark.sql(_query(VALUES)).cache()
        try:
            frame.createOrReplaceTempView("arrow_c")
            _assert_drops_rows(compare, "arrow_c", VALUES)
        finally:
            frame.unpersist()


def test_values_of_orc_vectors(spark: SparkSession, compare: Comparer) -> None:
    """Fails if a view of a batch reads them through children (UNSUPPORTED_CALL getChild)."""
    spark.sql(f"CREATE TABLE arrow_o USING orc AS {_query(ORC)}")
    try:
        _assert_drops_rows(compare, "arrow_o", ORC)
    finally:
        spark.sql("DROP TABLE arrow_o")
