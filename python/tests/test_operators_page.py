"""docs/operators.md lists the operators of the Spark that is installed, whichever line that is."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pyspark
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"

# What is not part of a query whose scans are filtered: commands, streams, and names that are no operators.
_ELSEWHERE = re.compile(
    r"/(command|streaming|debug|continuous)/|^scripting/"
    r"|/(LeafV2Command|V2Command|V2ExistingTableWrite|V2TableWrite)$"
    r"|datasources/v2/(Add|Alter|Append|Atomic|Cache|Create|Delete|Describe|Drop|Overwrite|Refresh|Rename"
    r"|Replace|Set|Show|Truncate|Uncache|Write|InsertOnly|Continuous|MicroBatch|RealTimeStream)"
)
_NO_OPERATORS = frozenset(
    # Abstract classes and traits.
    re.findall(
        r"\w+",
        "BaseAggregate BaseCacheTable BaseJoin BaseLimit BaseScriptTransformation BaseSubquery "
        "DataSourceScan DataSourceV2ScanBase EvalPython EvalPythonUDTF ExchangeQueryStage ExternalUDF "
        "FlatMapCoGroupsInBatch FlatMapGroupsInBatch InSubquery Limit "
        "MapInBatch ObjectConsumer ObjectProducer QueryStage "
        "Transactional RowLevelWrite TransformWithStateBase V2CreateTableAsSelectBase",
    )
)


def _operators() -> set[str]:
    names = set()
    for jar in (Path(pyspark.__file__).parent / "jars").glob("spark-*.jar"):
        if re.match(r"spark-(sql|hive)_", jar.name):
            with zipfile.ZipFile(jar) as archive:
                names |= {
                    match[1]
                    for name in archive.namelist()
                    if (match := re.fullmatch(r"org/apache/spark/sql/([\w/]+)Exec\.class", name))
                }
    return {name.rpartition("/")[2] for name in names if not _ELSEWHERE.search(name)} - _NO_OPERATORS


def test_every_operator_is_listed() -> None:
    operators = _operators()
    if not operators:
        pytest.skip("pyspark without jars")
    listed = set(re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8")))
    unknown = sorted(operators - listed)
    assert not unknown, (
        f"docs/operators.md does not list {unknown}: decide whether filters pass, in plan/PushDown.scala if "
        "they do, and add them to the page; plan/OperatorRules.scala may name what is in the way"
    )
