"""Options of the tests' Java processes."""

from __future__ import annotations

from pathlib import Path

import pyspark

# Spark generates code for each query, and the tests run it once on little data: most of their time would go
# into compiling it well. The first compiler alone has a small cache by default, which long runs fill.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
# Written by tools/share_classes.py, for the newest Spark line.
_SHARED_CLASSES = Path(__file__).parents[2] / "build" / f"spark-{pyspark.__version__}.jsa"
if _SHARED_CLASSES.exists():
    _OPTIONS += f" -XX:SharedArchiveFile={_SHARED_CLASSES}"

#: Spark settings: the driver, or the process that is all there is, and executors start and warm up quickly.
QUICK = {"spark.driver.extraJavaOptions": _OPTIONS, "spark.executor.extraJavaOptions": _OPTIONS}

#: Spark settings: queries are compiled, as by default.
GENERATED = {"spark.sql.codegen.factoryMode": "FALLBACK"}
#: Spark settings: queries are interpreted, which spares a fourth of the time. Scans still return batches,
#: which they would not without `spark.sql.codegen.wholeStage`.
INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
