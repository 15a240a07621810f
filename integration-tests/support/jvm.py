"""Options of the tests' Java processes."""

from __future__ import annotations

# Spark generates code for each query, and the tests run it once on little data: most of their time would go
# into compiling it well. The first compiler alone has a small cache by default, which long runs fill.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"

#: Spark settings: the driver, or the process that is all there is, and executors start and warm up quickly.
QUICK = {"spark.driver.extraJavaOptions": _OPTIONS, "spark.executor.extraJavaOptions": _OPTIONS}

#: Spark settings: queries are compiled, as by default.
GENERATED = {"spark.sql.codegen.factoryMode": "FALLBACK"}
#: Spark settings: queries are interpreted, which spares a fourth of the time. Scans still return batches,
#: which they would not without `spark.sql.codegen.wholeStage`.
INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
