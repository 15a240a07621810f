"""MERGE into Iceberg tables in merge-on-read mode: files that cannot match are left out.

Run with `TABLE_FORMAT=iceberg`, on a Spark line that Iceberg has a package for.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support import joins
from support.joins import STRATEGIES

pytestmark = [pytest.mark.table_format("iceberg"), pytest.mark.core]

FILES = 8
MATCHED = "WHEN MATCHED THEN UPDATE SET v = n"
NOT_MATCHED = "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (j, n)"
BY_SOURCE = "WHEN NOT MATCHED BY SOURCE AND v = 7 THEN DELETE"
#: By clauses, the files that are left out.
CASES = {
    MATCHED: FILES - 1,
    f"WHEN MATCHED AND n > 1 THEN DELETE {NOT_MATCHED}": FILES - 1,
    f"{MATCHED} {BY_SOURCE}": 0,
}


def _create(spark: SparkSession, name: str) -> None:
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"""CREATE TABLE {name} (k BIGINT, v BIGINT) USING iceberg TBLPROPERTIES ('format-version'='2',
        'write.merge.mode'='merge-on-read', 'read.split.open-file-cost'='4096')"""
    )
    values = f"SELECT /*+ REPARTITION_BY_RANGE({FILES}, k) */ id k, id v FROM range({FILES * 1000})"
    spark.sql(f"INSERT INTO {name} {values}")


def _pruned(spark: SparkSession) -> dict[tuple[int, int], int]:
    return {(s.query_id, s.scan_id): s.files_pruned for s in sdf.scans(spark).collect()}


@pytest.mark.parametrize("clauses", CASES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_files_that_cannot_match_are_not_opened(
    spark: SparkSession, tmp_path: Path, strategy: str, clauses: str
) -> None:
    """Without row numbers that only MergeRowsExec sees, "a non-deterministic projection is in the way"."""
    joins.view(spark, tmp_path, "merged", pa.table({"j": [3, 100, 200, 900, 900_000] * 2, "n": range(10)}))
    left, pruned = {}, {}
    with joins.settings(spark, STRATEGIES[strategy], joins.FOREVER):
        for enabled in (False, True):
            name = f"ice.db.merge_{enabled}"
            _create(spark, name)
            merge = f"MERGE INTO {name} t USING (SELECT * FROM merged WHERE n < 5) s ON k = j {clauses}"
            before = _pruned(spark)
            with sdf.conf(spark).override(enabled=enabled):
                spark.sql(merge)
            pruned[enabled] = sum(n for scan, n in _pruned(spark).items() if scan not in before)
            left[enabled] = sorted(spark.table(name).collect())
    assert left[True] == left[False]
    assert pruned[True] == CASES[clauses]
    assert not pruned[False]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_that_match_twice_are_an_error(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    """Spark finds them by the target's row numbers, which are others where rows are left out."""
    joins.view(spark, tmp_path, "twice", pa.table({"j": [3, 100, 3], "n": [1, 2, 3]}))
    with joins.settings(spark, STRATEGIES[strategy], joins.FOREVER):
        for enabled in (False, True):
            _create(spark, "ice.db.twice")
            merge = f"MERGE INTO ice.db.twice t USING twice s ON k = j {MATCHED}"
            with (
                sdf.conf(spark).override(enabled=enabled),
                pytest.raises(PySparkException, match="MERGE_CARDINALITY_VIOLATION"),
            ):
                spark.sql(merge)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_row_numbers_of_the_source_are_written_as_without_filters(
    spark: SparkSession, tmp_path: Path, strategy: str
) -> None:
    """If a column `__row_id` counted as Spark's own by its name, the source would be filtered below it, and
    the MERGE would write other numbers."""
    rows = range(40_000)
    joins.view(spark, tmp_path, "numbered", pa.table({"j": rows, "n": rows}), row_group_size=400)
    joins.view(spark, tmp_path, "few", pa.table({"f": range(7, 8_000, 400), "m": range(20)}))
    numbered = "(SELECT *, monotonically_increasing_id() AS __row_id FROM numbered)"
    source = f"(SELECT x.* FROM {numbered} x JOIN few ON j = f WHERE m % 10 = 1)"
    written = {}
    with joins.settings(
        spark, STRATEGIES[strategy], joins.FOREVER, {"spark.sql.files.maxPartitionBytes": "64k"}
    ):
        for enabled in (False, True):
            _create(spark, "ice.db.numbered")
            with sdf.conf(spark).override(enabled=enabled):
                spark.sql(
                    f"MERGE INTO ice.db.numbered t USING {source} s ON k = j "
                    "WHEN MATCHED THEN UPDATE SET v = s.__row_id"
                )
            written[enabled] = sorted(spark.sql("SELECT * FROM ice.db.numbered WHERE v <> k").collect())
    assert written[True] == written[False]
    assert len(written[True]) == 2
