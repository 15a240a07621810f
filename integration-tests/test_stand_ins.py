"""Our classes that stand in for Spark's: each method that Spark may call is theirs, or has a reason here.

A method that a later Spark adds with a default body is not forwarded. So this runs
on each Spark line, by reflection, and names such methods.
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import spark_dynamic_filters as sdf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.core

SQL = "org.apache.spark.sql"
#: What Spark, Parquet and Hadoop call: each class of ours that is one of these is asked.
KINDS = (
    f"{SQL}.vectorized.ColumnVector",
    f"{SQL}.vectorized.ColumnarBatch",
    f"{SQL}.execution.datasources.FileFormat",
    f"{SQL}.execution.datasources.FileIndex",
    f"{SQL}.connector.read.Scan",
    f"{SQL}.connector.read.Batch",
    f"{SQL}.connector.read.InputPartition",
    f"{SQL}.connector.read.PartitionReader",
    f"{SQL}.connector.read.PartitionReaderFactory",
    f"{SQL}.connector.metric.CustomTaskMetric",
    f"{SQL}.columnar.CachedBatchSerializer",
    "org.apache.spark.rdd.RDD",
    "org.apache.parquet.column.page.PageReadStore",
    "org.apache.parquet.column.page.PageReader",
    "org.apache.parquet.io.SeekableInputStream",
)
_PLANNED = "asked before the scan is planned, of the format that Spark planned"
_ROWS = "the default reads row by row, by a getter that is forwarded"
_STREAMS = dict.fromkeys(("toMicroBatchStream", "toContinuousStream"), "streams are not filtered")
_STREAM = {
    **dict.fromkeys(
        ("readAllBytes", "readNBytes", "skipNBytes", "transferTo"), "the default reads by read()"
    ),
    **dict.fromkeys(("mark", "markSupported", "reset"), "Parquet seeks"),
}
_RDD = {
    "partitioner": "scans have none",
    "clearDependencies": "it holds its parent among its dependencies only",
    "isBarrier_": "the default asks the parents",
    "getOutputDeterministicLevel": "the default asks the parents; scans have none",
}
#: By method, why a class does not have it.
REASONS: dict[str, dict[str, str]] = {
    "SelectedVector": {
        **{f"get{t}s": _ROWS for t in ("Boolean", "Byte", "Short", "Int", "Long", "Float", "Double")},
        "getBinaryView": "the default reads getBinary, which is forwarded",
        **{f"get{t}": "SelectedBatch copies such values" for t in ("Geography", "Geometry")},
        **{f"getTimestamp{t}Nanos": "SelectedBatch copies such values" for t in ("NTZ", "LTZ")},
    },
    "DynamicParquetFormat": {
        "inferSchema": _PLANNED,
        "prepareWrite": "a scan writes nothing",
        "shortName": _PLANNED,
        "buildReader": "called by buildReaderWithPartitionValues of the format that it stands for",
    },
    "OtherFileFormat": {
        "buildReader": "called by buildReaderWithPartitionValues of the format that it stands for",
    },
    "ChosenScan": _STREAMS,
    "ChosenFilteredScan": _STREAMS,
    "SharedStream": _STREAM,
    **dict.fromkeys(("ConsumerTaskRDD", "ScanTaskRDD", "ChosenFileScanRDD", "FileRunsRDD"), _RDD),
    "MappedRDD": _RDD | {"getPreferredLocations": "Spark asks the parent of a narrow dependency"},
}
#: Most methods of an RDD are for users. Those for subclasses are the ones that these have.
RDDS = (
    "org.apache.spark.rdd.MapPartitionsRDD",
    f"{SQL}.execution.datasources.FileScanRDD",
    f"{SQL}.execution.datasources.v2.DataSourceRDD",
)
ABSTRACT = 0x400
_METHOD = re.compile(
    r"(?P<words>(?:[a-z]+ )*)[^ ,]+ (?P<owner>[\w.$]+)\.(?P<name>[\w$]+)\((?P<types>[^)]*)\)"
)


@dataclass(frozen=True)
class Method:
    """A method as Java prints it."""

    name: str
    types: str
    owner: str
    words: frozenset[str]

    @property
    def may_be_forwarded(self) -> bool:
        """Whether a subclass can override it and code outside of the subclass can call it."""
        callable_ = self.words & {"public", "protected"} and not self.words & {"static", "final"}
        return bool(callable_) and "$" not in self.name and self.owner != "java.lang.Object"


class Reflection:
    """Classes of the driver, read in few calls."""

    def __init__(self, spark: SparkSession) -> None:
        self._java = spark._jvm
        self._loader = self._java.org.apache.spark.util.Utils.getContextOrSparkClassLoader()

    def load(self, name: str) -> Any:
        return self._loader.loadClass(name)

    def declared(self, cls: Any) -> set[Method]:
        return self._parsed(cls.getDeclaredMethods())

    def names(self, cls: Any) -> set[str]:
        return {m.name for m in self.declared(cls) | self._parsed(cls.getMethods())}

    def ancestors(self, cls: Any) -> set[str]:
        utils = self._java.org.apache.commons.lang3.ClassUtils
        found = f"{utils.getAllSuperclasses(cls).toString()} {utils.getAllInterfaces(cls).toString()}"
        return set(re.findall(r"(?:class|interface) ([\w.$]+)", found))

    def inherited(self, cls: Any) -> set[Method]:
        """Methods of the class that none of ours declares: public, or protected in a superclass."""
        found, own = self._parsed(cls.getMethods()), set()
        parent = cls
        while parent is not None and parent.getName() != "java.lang.Object":
            methods = self.declared(parent)
            if _is_ours(parent.getName()):
                own |= methods
            found |= {m for m in methods if "protected" in m.words}
            parent = parent.getSuperclass()
        ours = {(m.name, m.types) for m in own} | {(m.name, m.types) for m in found if _is_ours(m.owner)}
        return {m for m in found if m.may_be_forwarded and (m.name, m.types) not in ours}

    def _parsed(self, methods: Any) -> set[Method]:
        text = self._java.org.apache.commons.lang3.ArrayUtils.toString(methods)
        return {
            Method(m["name"], m["types"], m["owner"], frozenset(m["words"].split()))
            for m in _METHOD.finditer(text)
        }


def _is_ours(name: str) -> bool:
    return "dynamicfilters" in name


def _classes() -> list[str]:
    """Classes of the jar, without Scala's objects, which extend nothing of Spark's that is asked here."""
    with zipfile.ZipFile(sdf.jar_path()) as jar:
        names = [e.removesuffix(".class").replace("/", ".") for e in jar.namelist() if e.endswith(".class")]
    return [n for n in names if not n.endswith("$") and ".proto." not in n]


def test_each_method_is_forwarded_or_has_a_reason(spark: SparkSession) -> None:
    if getattr(spark, "_jvm", None) is None:
        pytest.skip("looks into the driver")
    reflection = Reflection(spark)
    # Mixed in are Logging and the like, too.
    of_kinds = {k: reflection.names(reflection.load(k)) for k in KINDS}
    of_kinds["org.apache.spark.rdd.RDD"] = {
        m.name for name in RDDS for m in reflection.declared(reflection.load(name))
    }
    missing: dict[str, set[str]] = {}
    for name in _classes():
        cls = reflection.load(name)
        is_of = reflection.ancestors(cls) & set(KINDS)
        if not is_of or cls.getModifiers() & ABSTRACT:
            continue
        asked = set().union(*(of_kinds[k] for k in is_of))
        missing[name.rsplit(".", 1)[1]] = asked & {m.name for m in reflection.inherited(cls)}
    unexplained = {n: sorted(ms - set(REASONS.get(n, {}))) for n, ms in missing.items()}
    assert missing, "the jar has such classes"
    assert not [f"{n}: {', '.join(ms)}" for n, ms in unexplained.items() if ms]
