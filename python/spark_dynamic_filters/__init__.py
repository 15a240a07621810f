"""Dynamic filters for Apache Spark: configure a session, change settings, see what was skipped.

```python
import spark_dynamic_filters as sdf
from pyspark.sql import SparkSession

spark = sdf.configure(SparkSession.builder.master("local[*]")).getOrCreate()
print(sdf.status(spark))
print(sdf.analyze(spark.table("hits").orderBy("EventTime").limit(10)))
```

Everything works alike in classic sessions and in Spark Connect, there with the `pyspark-client` package
alone.
"""

from __future__ import annotations

from ._analyze import Analysis, analyze
from ._conf import Conf, conf
from ._configure import configure
from ._errors import DynamicFiltersError, PluginNotLoaded, UnknownSetting, VersionMismatch
from ._jar import jar_path
from ._report import filters, scans
from ._status import Status, status
from ._version import __version__

__all__ = [
    "Analysis",
    "Conf",
    "DynamicFiltersError",
    "PluginNotLoaded",
    "Status",
    "UnknownSetting",
    "VersionMismatch",
    "__version__",
    "analyze",
    "conf",
    "configure",
    "filters",
    "jar_path",
    "scans",
    "status",
]
