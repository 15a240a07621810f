"""Iceberg tables partitioned by a UUID, as Trino, Flink and Java make them: Spark shows it as STRING.

Iceberg orders UUIDs in another way than Spark orders their texts. So it may be told values, and no range.
Run with `TABLE_FORMAT=iceberg`, on a Spark line that Iceberg has a package for.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support import joins
from support.joins import Comparer

pytestmark = [pytest.mark.table_format("iceberg"), pytest.mark.core]

FILES = 16
# Both tables are small: a hint says which one is the build side.
HINTS = ("BROADCAST(d)", "MERGE(d)")
# Spark's own pruning tells Iceberg the keys as well, and fails for a key that is no UUID.
ALONE = {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}


def _uuid(i: int) -> str:
    return f"{i:x}0000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Tables: ice.db.uuids of a file for each digit `k`; keys d, of which `g` is the digit; odd keys."""
    java, folder = spark._jvm, tmp_path_factory.mktemp("uuids")
    types, fields = java.org.apache.iceberg.types.Types, java.java.util.ArrayList()
    fields.add(types.NestedField.optional(1, "u", types.UUIDType.get()))
    fields.add(types.NestedField.optional(2, "k", types.LongType.get()))
    schema = java.org.apache.iceberg.Schema(fields)
    by = java.org.apache.iceberg.PartitionSpec.builderFor(schema).identity("u").build()
    warehouse = spark.conf.get("spark.sql.catalog.ice.warehouse")
    catalog = java.org.apache.iceberg.hadoop.HadoopCatalog(spark._jsc.hadoopConfiguration(), warehouse)
    spark.sql("DROP TABLE IF EXISTS ice.db.uuids")
    name = java.org.apache.iceberg.catalog.TableIdentifier.parse("db.uuids")
    catalog.createTable(name, schema, by)
    keys = pa.table({"d": [_uuid(i) for i in range(FILES)], "g": range(FILES)})
    joins.view(spark, folder, "d", keys)
    joins.view(spark, folder, "odd", pa.table({"d": [_uuid(3), _uuid(10).upper(), "no uuid", "", "a" * 50]}))
    spark.sql("INSERT INTO ice.db.uuids SELECT d, g FROM d")
    return Comparer(spark)


@pytest.mark.parametrize("strategy", HINTS)
@pytest.mark.parametrize("most", [2, 1000])
def test_a_join_tells_values_and_no_range(compare: Comparer, strategy: str, most: int) -> None:
    """Rows are lost if Iceberg is told the keys' range: none of its UUIDs lies between these texts."""
    keys = {"spark.dynamicFilters.in.maxValues": str(most)}
    join = f"SELECT /*+ {strategy}, DYNAMIC_FILTER(t) */ t.k FROM ice.db.uuids t JOIN d ON u = d.d"
    query = f"{join} WHERE g > 5 AND g % 2 = 0"
    # Iceberg alone knows which files it leaves out.
    run = compare(query, joins.FOREVER, ALONE, keys, fires=None).on
    assert sorted(r.k for r in run.rows) == [6, 8, 10, 12, 14]
    joins.assert_ready(run, "u")
    assert [s["rows_total"] for s in run.scans_with("u")] == [FILES if most == 2 else 5], str(run)


@pytest.mark.parametrize("strategy", HINTS)
def test_keys_that_are_no_uuids(compare: Comparer, strategy: str) -> None:
    """Iceberg takes upper case for the same UUID. For other texts it throws: then no filter is told."""
    for where in ("", "WHERE length(d) = 36"):
        keys = f"(SELECT d FROM odd {where}) d"
        query = f"SELECT /*+ {strategy}, DYNAMIC_FILTER(t) */ t.k FROM ice.db.uuids t JOIN {keys} ON u = d.d"
        run = compare(query, joins.FOREVER, ALONE, fires=None).on
        assert [r.k for r in run.rows] == [3]
        joins.assert_ready(run, "u")
