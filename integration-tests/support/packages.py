"""Packages of table formats: which one fits this Spark, and how it is brought in.

They have to be there when the application starts, so a run of pytest has one of them or none: the environment
variable `TABLE_FORMAT` names it.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Package:
    """A table format.

    Attributes:
        sparks: by Spark line (`4.1`), the Maven coordinates of the package for it.
        settings: what the application is started with. `{folder}` is one for tables.
    """

    name: str
    sparks: dict[str, str]
    settings: dict[str, str]

    @property
    def coordinates(self) -> str | None:
        """Those that fit this Spark, None if there are none."""
        return self.sparks.get(".".join(pyspark.__version__.split(".")[:2]))

    def jars(self) -> list[Path]:
        """The jars, fetched by Maven where they are not there yet."""
        assert self.coordinates, f"{self.name} has no package for Spark {pyspark.__version__}"
        folder = ROOT / ".data" / "jars" / self.coordinates.replace(":", "_")
        subprocess.run([str(ROOT / "tools" / "fetch-jars"), str(folder), self.coordinates], check=True)
        return sorted(folder.glob("*.jar"))

    def config(self, folder: Path) -> dict[str, str]:
        """Spark settings of an application with the package."""
        values = {key: value.format(folder=folder) for key, value in self.settings.items()}
        return {"spark.jars": ",".join(map(str, self.jars())), **values}


ICEBERG = Package(
    "iceberg",
    {"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"},
    {
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": "{folder}",
    },
)
DELTA = Package(
    "delta",
    {line: f"io.delta:delta-spark_{line}_2.13:4.4.0" for line in ("4.1", "4.2")},
    {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Tables of few files: Delta's own queries over its log need no 50 tasks.
        "spark.databricks.delta.snapshotPartitions": "2",
    },
)
AVRO = Package("avro", {"4.1": "org.apache.spark:spark-avro_2.13:4.1.1"}, {})
ALL = {p.name: p for p in (ICEBERG, DELTA, AVRO)}


def chosen() -> Package | None:
    """The package of this run of pytest."""
    name = os.environ.get("TABLE_FORMAT")
    return ALL[name] if name else None
