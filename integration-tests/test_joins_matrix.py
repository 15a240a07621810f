"""Join kinds x strategies x adaptive execution x build sides: the rows are Spark's own, the filter fires
where it may and only there.

A query joins all build sides at once: its branches are one join each, of tables of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from support import joins
from support.joins import Comparer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.exhaustive

# Far outside of the probe's keys, so that a range alone tells nothing.
_OUTSIDE = [-50, 50_000]
# Row groups of the probe have nulls where their number is odd.
BUILDS: dict[str, list[int | None]] = {
    "selective": [*joins.within_row_group(3)],
    "empty": [],
    "all_null": [None] * 30,
    "duplicates": [*joins.within_row_group(7, 12)] * 20,
    "with_nulls": [*joins.within_row_group(4), *[None] * 20],
    "scattered": [*joins.within_row_group(2), *joins.within_row_group(15), *_OUTSIDE],
}


@dataclass(frozen=True)
class Kind:
    """A join of probe `p` and build `b`.

    Attributes:
        query: with {p}, {b} for the tables, {k} for the probe's key, {name} for the build, {hint}.
        broadcast: whether Spark can broadcast the build side.
        null_safe: whether null equals null.
        reason: where no filter is allowed: words of the reason, if one is due.
    """

    query: str
    broadcast: bool = True
    null_safe: bool = False
    reason: str = ""


# The probe's rows without a match do not matter.
FILTERED = {
    "inner": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id, p.{k} AS k, b.n "
        "FROM {p} p JOIN {b} b ON p.{k} = b.j"
    ),
    "inner_build_first": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.payload, b.w "
        "FROM {b} b JOIN {p} p ON b.j = p.{k} AND p.v >= b.h - 5"
    ),
    "left_outer": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id, p.payload, b.j, b.n "
        "FROM {b} b LEFT JOIN {p} p ON p.{k} = b.j",
        broadcast=False,
    ),
    "left_outer_with_condition": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id, p.payload, b.j, b.n "
        "FROM {b} b LEFT JOIN {p} p ON p.{k} = b.j AND p.v > b.h AND b.n % 3 = 0",
        broadcast=False,
    ),
    "right_outer": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id, p.payload, b.j, b.n "
        "FROM {p} p RIGHT JOIN {b} b ON p.{k} = b.j",
        broadcast=False,
    ),
    "left_semi": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id, p.{k} AS k "
        "FROM {p} p LEFT SEMI JOIN {b} b ON p.{k} = b.j"
    ),
    "left_semi_of_the_build": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, b.j, b.n FROM {b} b LEFT SEMI JOIN {p} p ON p.{k} = b.j",
        broadcast=False,
    ),
    "left_anti_of_the_build": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, b.j, b.n FROM {b} b LEFT ANTI JOIN {p} p ON p.{k} = b.j",
        broadcast=False,
    ),
    "existence_of_the_build": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, b.j, b.n FROM {b} b "
        "WHERE b.n % 3 = 0 OR EXISTS (SELECT 1 FROM {p} p WHERE p.{k} = b.j)",
        broadcast=False,
    ),
    "null_safe": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id, p.{k} AS k, b.n "
        "FROM {p} p JOIN {b} b ON p.{k} <=> b.j",
        null_safe=True,
    ),
    "null_safe_left_outer": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id, p.payload, b.n "
        "FROM {b} b LEFT JOIN {p} p ON p.{k} <=> b.j",
        broadcast=False,
        null_safe=True,
    ),
}
# Each of the probe's rows matters.
UNFILTERED = {
    "left_outer_of_the_probe": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id, b.n FROM {p} p LEFT JOIN {b} b ON p.{k} = b.j"
    ),
    "right_outer_of_the_probe": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id, b.n FROM {b} b RIGHT JOIN {p} p ON p.{k} = b.j",
    ),
    "full_outer": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id, b.n FROM {p} p FULL JOIN {b} b ON p.{k} = b.j",
        reason="full outer",
    ),
    "left_anti": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id FROM {p} p LEFT ANTI JOIN {b} b ON p.{k} = b.j"
    ),
    "existence": Kind(
        "SELECT '{name}' AS build, p.id FROM {p} p "
        "WHERE p.v = 3 OR EXISTS (SELECT /*+ {hint}(b) */ 1 FROM {b} b WHERE p.{k} = b.j)"
    ),
    "not_in": Kind(
        "SELECT '{name}' AS build, p.id FROM {p} p WHERE p.{k} NOT IN (SELECT /*+ {hint}(b) */ j FROM {b} b)",
        reason="not in",
    ),
    "null_safe_left_outer_of_the_probe": Kind(
        "SELECT /*+ {hint}(b) */ '{name}' AS build, p.id, b.n FROM {p} p LEFT JOIN {b} b ON p.{k} <=> b.j",
        null_safe=True,
    ),
}

# Names of hints, and what a shuffled join of small tables becomes while it runs.
REPLANNED = "REPLANNED"
PLANS = [
    (strategy, adaptive) for strategy in ("BROADCAST", "SHUFFLE_HASH", "MERGE") for adaptive in joins.ADAPTIVE
] + [(REPLANNED, "on")]


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    folder = tmp_path_factory.mktemp("matrix")
    for name, keys in BUILDS.items():
        joins.view(spark, folder, f"p_{name}", joins.probe(key=f"k_{name}"))
        joins.view(spark, folder, f"b_{name}", joins.build(keys))
    return Comparer(spark)


def _compare(
    compare: Comparer,
    kinds: dict[str, Kind],
    kind: str,
    strategy: str,
    adaptive: str,
    fires: bool | None,
) -> joins.Comparison:
    # An unknown hint is a warning, and nothing more.
    hint = "MERGE" if strategy == REPLANNED else strategy
    branches = [
        kinds[kind].query.format(p=f"p_{name}", b=f"b_{name}", k=f"k_{name}", name=name, hint=hint)
        for name in BUILDS
    ]
    query = " UNION ALL ".join(branches)
    settings = joins.FEW_TASKS | joins.SHUFFLED | joins.ADAPTIVE[adaptive]
    if strategy == REPLANNED:
        query = query.replace("/*+ MERGE(b) */ ", "")
        settings |= {"spark.sql.adaptive.autoBroadcastJoinThreshold": "10m"}
    return compare(query, settings, expected=kind, fires=fires)


@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
@pytest.mark.parametrize("kind", FILTERED)
def test_probe_is_filtered(compare: Comparer, kind: str, strategy: str, adaptive: str) -> None:
    how = "broadcast" if strategy == "BROADCAST" and FILTERED[kind].broadcast else "shuffled"
    fires = joins.in_time(how, adaptive)
    run = _compare(compare, FILTERED, kind, strategy, adaptive, fires).on
    if not fires:
        assert not any(f["wait_ms"] for f in run.filters), str(run)
        assert any(f["generation"] > 0 for f in run.filters), str(run)
        return
    nothing_matches = ["empty"] if FILTERED[kind].null_safe else ["empty", "all_null"]
    for name in BUILDS:
        if name in nothing_matches:
            joins.assert_never_read(run, f"k_{name}")
        else:
            joins.assert_row_groups_pruned(run, f"k_{name}")


@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
@pytest.mark.parametrize("kind", UNFILTERED)
def test_probe_is_not_filtered(compare: Comparer, kind: str, strategy: str, adaptive: str) -> None:
    run = _compare(compare, UNFILTERED, kind, strategy, adaptive, fires=False).on
    joins.assert_not_pruned(run, *(f"k_{name}" for name in BUILDS))
    if UNFILTERED[kind].reason:
        joins.assert_reason(run, UNFILTERED[kind].reason)
