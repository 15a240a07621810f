"""Writes an archive of the classes that Spark loads, which Java processes share (CDS).

A Spark process that has the archive starts in less than two thirds of the processor time, and the tests start
dozens of processes. Java ignores an archive of another Java or of other jars.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

QUERIES = (
    "SELECT a.id, b.s FROM t a JOIN t b ON a.id = b.id WHERE a.s LIKE '%1' ORDER BY a.id LIMIT 5",
    "SELECT /*+ MERGE(b) */ a.g, count(*), max(b.s) FROM t a LEFT JOIN t b ON a.id = b.id GROUP BY a.g",
    "SELECT id, rank() OVER (PARTITION BY g ORDER BY s) FROM t WHERE id IN (SELECT max(id) FROM t)",
)


def main(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    options = f"-XX:ArchiveClassesAtExit={target.resolve()} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    # Java warns of each class that cannot be in the archive.
    options += " -Xlog:cds=error -Xlog:cds+dynamic=error"
    settings = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": options}
    settings |= {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
    with tempfile.TemporaryDirectory() as folder:
        settings |= {"spark.sql.warehouse.dir": folder, "spark.driver.host": "127.0.0.1"}
        spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        path = f"{folder}/t"
        spark.range(0, 1_000, 1, 4).selectExpr("id", "id % 7 AS g", "string(id) AS s").write.parquet(path)
        spark.read.parquet(path).createOrReplaceTempView("t")
        for adaptive in ("true", "false"):
            spark.conf.set("spark.sql.adaptive.enabled", adaptive)
            for query in QUERIES:
                spark.sql(query).collect()
        gateway = SparkContext._gateway
        spark.stop()
        # Java writes the archive when it ends, and it ends with its standard input.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(120)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
