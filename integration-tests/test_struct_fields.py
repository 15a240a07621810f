"""Filters of keys that are fields of struct columns, by the statistics of the fields in the files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_dynamic_filters.testing import assert_same_result
from support import joins, tables
from support.joins import STRATEGIES, Comparer

ROWS = 4_000

QUERIES = {
    "topk_of_text": "SELECT id, payload FROM s ORDER BY st.t DESC LIMIT 7",
    "topk_deep": "SELECT id, payload FROM s ORDER BY st.inner.ts DESC LIMIT 7",
    "topk_computed": "SELECT id FROM s ORDER BY to_date(st.inner.ts) DESC, id LIMIT 7",
    "extremes": "SELECT max(st.k) FROM s",
    "subquery": "SELECT id FROM s WHERE st.k = (SELECT max(j) FROM b)",
    "range": "SELECT s.id FROM s JOIN b ON s.st.k BETWEEN b.j AND b.j + 3",
}
KEYS = {
    "integers": "s.st.k = b.j",
    "text": "s.st.t = b.t",
    "computed": "s.st.inner.l DIV 10 = b.j DIV 10",
    "null_safe": "s.st.k <=> b.j",
}


@pytest.fixture(scope="module", autouse=True)
def _views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder: Path = tmp_path_factory.mktemp("structs")
    inner = "IF(id % 70 = 3, NULL, named_struct('l', id, 'ts', ts, 'tags', array(id, id + 1)))"
    fields = f"'k', i, 't', format_string('%05d', id), 'inner', {inner}"
    struct = f"IF(id % 40 = 11, NULL, named_struct({fields})) AS st"
    rows = tables.hours(spark, ROWS).selectExpr("id", struct, "payload")
    # INT96 has no statistics, and no first pass learns them of a field.
    with joins.settings(spark, {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}):
        rows.write.option("parquet.block.size", 4_096).parquet(str(folder / "s"))
    spark.read.parquet(str(folder / "s")).createOrReplaceTempView("s")
    spark.sql("SELECT * FROM VALUES (1735L, '01735'), (1736L, '01736'), (NULL, NULL) AS b(j, t)").coalesce(
        1
    ).write.parquet(str(folder / "b"))
    spark.read.parquet(str(folder / "b")).createOrReplaceTempView("b")


@pytest.mark.core
@pytest.mark.parametrize("query", QUERIES)
def test_producers(spark: SparkSession, query: str) -> None:
    """Without `NestedField`: "the sort key is computed"."""
    assert_same_result(spark, QUERIES[query])


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("key", KEYS)
def test_joins(compare: Comparer, key: str, strategy: str) -> None:
    """Fails if rows below an exchange are not tested by the field, also where the struct is NULL."""
    # Each row group has NULLs, and a join tests fields of its own stage itself.
    fires = None if (key, strategy) == ("null_safe", "broadcast") else True
    query = f"SELECT s.id, s.payload, b.t FROM s JOIN b ON {KEYS[key]}"
    run = compare(query, STRATEGIES[strategy], fires=fires).on
    if key == "integers":
        assert any(s["row_groups_pruned"] > 0 or s["files_pruned"] > 0 for s in run.scans), str(run)


@pytest.mark.parametrize(
    "setting",
    [
        {"spark.sql.parquet.enableNestedColumnVectorizedReader": "false"},
        {"spark.sql.optimizer.nestedSchemaPruning.enabled": "false"},
        {"spark.dynamicFilters.lateMaterialization.enabled": "false"},
    ],
    ids=["rows", "whole_structs", "no_first_pass"],
)
def test_readers(compare: Comparer, setting: dict[str, str]) -> None:
    compare(f"SELECT s.id, s.st.t FROM s JOIN b ON {KEYS['text']}", STRATEGIES["shuffled"], setting)


def test_files_with_other_structs(spark: SparkSession, compare: Comparer, tmp_path: Path) -> None:
    """The order of fields differs, a field or the whole column is missing, and a struct has one field only.

    Fails if a field is found by its position, or if a missing one counts as unknown values that pass.
    """
    k = pa.array(range(400), pa.int64())
    other = pa.array([f"{i:05d}" for i in range(400)])
    structs = {
        "ordered": {"k": k, "t": other},
        "reordered": {"t": other, "k": k},
        "without_field": {"t": other},
    }
    for name, fields in structs.items():
        st = pa.StructArray.from_arrays(list(fields.values()), list(fields))
        pq.write_table(pa.table({"id": k, "st": st}), tmp_path / f"{name}.parquet", row_group_size=50)
    pq.write_table(pa.table({"id": k}), tmp_path / "without_column.parquet", row_group_size=50)
    schema = "id BIGINT, st STRUCT<k: BIGINT, t: STRING>"
    spark.read.schema(schema).parquet(str(tmp_path)).createOrReplaceTempView("mixed")
    small = "(SELECT CAST(37 AS BIGINT) AS j)"
    for strategy, how in zip(STRATEGIES.values(), ("=", "<=>"), strict=True):
        compare(f"SELECT m.* FROM mixed m JOIN {small} b ON m.st.k {how} b.j", strategy, fires=None)
    for order, fires in (("DESC NULLS LAST", True), ("NULLS FIRST", None)):
        query = f"SELECT id, st FROM mixed ORDER BY st.k {order}, id, st.t LIMIT 9"
        assert_same_result(spark, query, fires=fires)


def test_fields_with_the_same_text(spark: SparkSession, tmp_path: Path) -> None:
    """What was learned of a field is not believed of another one that reports call the same."""
    rows = range(4_000)
    structs = pa.StructArray.from_arrays(
        [pa.array([{"b": i} for i in rows]), pa.array([4_000 - i for i in rows], pa.int64())], ["a", "a.b"]
    )
    table = pa.table({"id": pa.array(rows, pa.int64()), "st": structs})
    for i in range(4):
        file = tmp_path / f"{i}.parquet"
        pq.write_table(table.slice(i * 1_000, 1_000), file, row_group_size=100)
        # Younger files are not remembered.
        os.utime(file, (time.time() - 900,) * 2)
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("same_text")
    for key in ("s.st.a.b", "s.st.`a.b`", "s.st.a.b"):
        assert_same_result(spark, f"SELECT s.id, s.st FROM same_text s JOIN b ON {key} = b.j")


def test_column_with_the_path_of_a_field(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet takes the column's dictionary for that of the field, and writes one bloom filter for both."""
    rows = range(2_000)
    columns = {
        "id": pa.array(rows, pa.int64()),
        "st": pa.array([{"k": i} for i in rows]),
        "st.k": pa.array([2_000 - i for i in rows], pa.int64()),
    }
    (tmp_path / "dictionaries").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "dictionaries" / "0.parquet", row_group_size=200)
    frame = spark.read.parquet(str(tmp_path / "dictionaries"))
    frame.coalesce(1).write.options(
        **{
            "parquet.enable.dictionary": "false",
            "parquet.bloom.filter.enabled": "true",
            "parquet.bloom.filter.max.bytes": 2_048,
            "parquet.block.size": 4_096,
        }
    ).parquet(str(tmp_path / "blooms"))
    # One value: dictionaries and bloom filters are not asked for a range.
    one = "(SELECT max(j) AS j FROM b)"
    for kind in ("dictionaries", "blooms"):
        spark.read.parquet(str(tmp_path / kind)).createOrReplaceTempView("same_path")
        for key in ("s.st.k", "s.`st.k`"):
            query = f"SELECT s.id, s.st, s.`st.k` FROM same_path s JOIN {one} b ON {key} = b.j"
            assert_same_result(spark, query, fires=None)


def test_other_formats_are_not_filtered(spark: SparkSession, compare: Comparer, tmp_path: Path) -> None:
    spark.table("s").write.orc(str(tmp_path / "orc"))
    spark.read.orc(str(tmp_path / "orc")).createOrReplaceTempView("s_orc")
    spark.table("s").cache().createOrReplaceTempView("s_cached")
    for view in ("s_orc", "s_cached"):
        run = compare(f"SELECT s.id FROM {view} s JOIN b ON s.st.k = b.j", joins.SHUFFLED, fires=False)
        assert any("the join key is computed" in f["reason"] for f in run.on.analysis.filters)
    spark.catalog.uncacheTable("s_cached")
