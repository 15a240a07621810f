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
from ._compare import Comparison, compare
from ._conf import Conf, conf
from ._configure import configure
from ._errors import (
    DuplicateFilter,
    DynamicFiltersError,
    FilterClosed,
    FilterNotFound,
    FilterTypeMismatch,
    InvalidArgument,
    InvalidFilterForm,
    PluginNotLoaded,
    UnknownSetting,
    UnsupportedSpark,
    VersionMismatch,
)
from ._forms import Form, between, bitmap, bloom, everything, isin, nothing
from ._jar import jar_path
from ._report import filters, scans
from ._status import Status, status
from ._user_filters import FilterSnapshot, UserFilter, create_filter
from ._version import __version__
from ._watch import Watch, watch

__all__ = [
    "Analysis",
    "Comparison",
    "Conf",
    "DuplicateFilter",
    "DynamicFiltersError",
    "FilterClosed",
    "FilterNotFound",
    "FilterSnapshot",
    "FilterTypeMismatch",
    "Form",
    "InvalidArgument",
    "InvalidFilterForm",
    "PluginNotLoaded",
    "Status",
    "UnknownSetting",
    "UnsupportedSpark",
    "UserFilter",
    "VersionMismatch",
    "Watch",
    "__version__",
    "analyze",
    "between",
    "bitmap",
    "bloom",
    "compare",
    "conf",
    "configure",
    "create_filter",
    "everything",
    "filters",
    "isin",
    "jar_path",
    "nothing",
    "scans",
    "status",
    "watch",
]
