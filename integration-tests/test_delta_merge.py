"""MERGE into Delta tables: files that cannot match are not opened, and the table is as in stock Spark.

Run with `TABLE_FORMAT=delta`, on a Spark line that Delta has a package for.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support import joins

pytestmark = [pytest.mark.table_format("delta"), pytest.mark.core, pytest.mark.timeout(300)]

FILES = 6
ROWS = 3_000

#: Operation metrics that differ between two runs in stock Spark, too.
UNSTEADY = re.compile("Ms$|Bytes")

COMMANDS = {
    "upsert": "WHEN MATCHED THEN UPDATE SET v = s.nv "
    "WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.k, s.nv, 'new')",
    "update some": "WHEN MATCHED AND s.k % 2 = 0 THEN UPDATE SET v = s.nv, p = 'even'",
    "delete": "WHEN MATCHED THEN DELETE",
    "insert only": "WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.k, s.nv, 'new')",
    "delete the others": "WHEN MATCHED THEN UPDATE SET v = s.nv "
    "WHEN NOT MATCHED BY SOURCE AND t.id % 500 = 1 THEN DELETE",
    "all": "WHEN MATCHED AND s.k % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.nv "
    "WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.k, s.nv, 'new') "
    "WHEN NOT MATCHED BY SOURCE AND t.id % 700 = 3 THEN UPDATE SET p = 'old'",
}
#: Where a file that has no key of the source need not be opened.
PRUNED = {"upsert", "update some", "delete"}
#: Conditions of a MERGE if it is not `t.id = s.k`.
ON = {"update some": "t.id = s.k AND t.p <> 'p1'", "insert only": "t.id <=> s.k"}


def _target(spark: SparkSession, name: str, vectors: bool, feed: bool = False) -> None:
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} USING delta TBLPROPERTIES ("
        f"'delta.enableDeletionVectors' = '{str(vectors).lower()}', "
        f"'delta.enableChangeDataFeed' = '{str(feed).lower()}') AS SELECT IF(id % 997 = 5, NULL, id) AS id, "
        f"id * 3 AS v, CONCAT('p', id % 5) AS p FROM range(0, {ROWS}, 1, {FILES})"
    )


def _rows(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(query).collect()), key=repr)


def _merged(spark: SparkSession, name: str, source: str, command: str, feed: bool) -> dict[str, Any]:
    """Everything that a MERGE leaves behind, or its error."""
    try:
        on = ON.get(command, "t.id = s.k")
        merge = f"MERGE INTO {name} t USING {source} s ON {on} {COMMANDS[command]}"
        result = spark.sql(merge).collect()
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error).split("\n")[0].replace(name, "")}
    metrics = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()["operationMetrics"]
    left = {
        "result": result,
        "rows": _rows(spark, f"SELECT * FROM {name}"),
        "metrics": {k: v for k, v in metrics.items() if not UNSTEADY.search(k)},
    }
    if feed:
        changes = f"SELECT * EXCEPT (_commit_timestamp) FROM table_changes('{name}', 1)"
        left["changes"] = _rows(spark, changes)
    return left


def _opened(spark: SparkSession, name: str) -> list[tuple[int, int]]:
    """Of each filtered scan of the table: files in all, and those never opened."""
    scans = spark.sql("SELECT table_name, files_total, files_pruned FROM dynamic_filter_scans()").collect()
    return [(s.files_total, s.files_pruned) for s in scans if s.table_name.endswith(name)]


def _compare(
    spark: SparkSession, source: str, command: str, vectors: bool, feed: bool = False
) -> list[tuple[int, int]]:
    left = {}
    for enabled in ("false", "true"):
        with joins.settings(spark, {"spark.dynamicFilters.enabled": "false"}):
            _target(spark, f"target_{enabled}", vectors, feed)
        with joins.settings(spark, {"spark.dynamicFilters.enabled": enabled}, joins.FOREVER):
            left[enabled] = _merged(spark, f"target_{enabled}", source, command, feed)
    for what, stock in left["false"].items():
        assert left["true"].get(what) == stock, (what, command)
    return _opened(spark, "target_true")


@pytest.fixture(scope="module", autouse=True)
def sources(spark: SparkSession) -> None:
    """Keys of one file, new ones and NULL; as a Delta table, and as a query that Delta has to materialize."""
    values = (
        "SELECT 1203 + id AS k, id * 1000 AS nv FROM range(40) UNION ALL SELECT 900000 + id, 7 FROM range(3) "
    )
    spark.sql("DROP TABLE IF EXISTS source")
    spark.sql(f"CREATE TABLE source USING delta AS {values} UNION ALL SELECT NULL, -1")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW computed AS {values}")
    spark.sql("CREATE OR REPLACE TEMP VIEW doubled AS SELECT * FROM source UNION ALL SELECT 1210, 5")
    spark.sql("DROP TABLE IF EXISTS target_true")


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("strategy", joins.STRATEGIES)
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
@pytest.mark.parametrize("command", COMMANDS)
def test_merge(spark: SparkSession, command: str, adaptive: str, strategy: str, vectors: bool) -> None:
    feed = vectors and command == "all"
    with joins.settings(spark, joins.STRATEGIES[strategy], joins.ADAPTIVE[adaptive]):
        opened = _compare(spark, "source", command, vectors, feed)
    if command in PRUNED and (strategy, adaptive) != ("shuffled", "off"):
        assert opened[-1][0] in (1, FILES), opened
        assert (FILES, FILES - 1) in opened, opened


@pytest.mark.parametrize("source", ["computed", "doubled"])
@pytest.mark.parametrize("command", COMMANDS)
def test_merge_of_other_sources(spark: SparkSession, command: str, source: str) -> None:
    """A row of the target that matches twice is an error, unless it is only deleted."""
    _compare(spark, source, command, vectors=True)


@pytest.mark.parametrize("second", [120, 2400])
def test_commands_at_once_conflict_as_in_stock_spark(spark: SparkSession, second: int) -> None:
    """Delta looks at files that a command has listed, not at those that were opened: one of them fails."""
    outcomes = []
    # So that both have read before one writes.
    slow = (
        "(SELECT id + {} AS k, java_method('java.lang.Thread', 'sleep', 5L) AS z, -7 AS nv FROM range(100))"
    )
    for enabled in ("false", "true"):
        _target(spark, "contested", vectors=False)
        texts = [
            f"MERGE INTO contested t USING {slow.format(first)} s ON t.id = s.k "
            "WHEN MATCHED THEN UPDATE SET v = s.nv"
            for first in (100, second)
        ]
        with (
            joins.settings(spark, {"spark.dynamicFilters.enabled": enabled}, joins.FOREVER),
            ThreadPoolExecutor(2) as threads,
        ):
            done = [threads.submit(lambda text: spark.sql(text).collect(), text) for text in texts]
            outcomes.append(sorted(re.sub(r"\W.*", "", str(d.exception()), flags=re.S) for d in done))
        changed = spark.sql("SELECT count(*), count(DISTINCT id) FROM contested WHERE v = -7").first()
        assert changed[0] == changed[1] == (100 if any(o != "None" for o in outcomes[-1]) else 200)
    # On a busy machine one may be over before the other begins.
    assert len({tuple(o) for o in outcomes if o != ["None", "None"]}) <= 1, outcomes


def test_merge_of_a_streams_batches(spark: SparkSession, tmp_path: Path) -> None:
    """Fails if the reports of batches are not those of the session that started the stream."""
    _target(spark, "streamed", vectors=True)
    path = str(tmp_path / "stream")
    for start in (1203, 2203):
        rows = spark.range(start, start + 40, 1, 1).selectExpr("id AS k", "id * 1000 AS nv")
        rows.write.mode("append").parquet(path)

    def merge(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("updates")
        batch.sparkSession.sql(f"MERGE INTO streamed t USING updates s ON t.id = s.k {COMMANDS['upsert']}")

    stream = spark.readStream.schema("k BIGINT, nv BIGINT").option("maxFilesPerTrigger", 1).parquet(path)
    writer = stream.writeStream.foreachBatch(merge).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(200)
    changed = spark.sql("SELECT count(*) FROM streamed WHERE v = id * 1000 AND id > 0").first()
    assert changed[0] == 80
    # The first batch adds a file.
    found = [files for files in _opened(spark, "streamed") if files[0] >= FILES]
    assert found == [(FILES, FILES - 1), (FILES + 1, FILES)]
