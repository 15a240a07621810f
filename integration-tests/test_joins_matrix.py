"""Join kinds x strategies x adaptive execution x build sides: the rows are Spark's own, the filter fires
where it may and only there.

A query joins all build sides at once: its branches are one join each, of tables of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from support import joins
from support.joins import Comparer

pytestmark = pytest.mark.exhaustive

# Row groups of the probe have nulls where their number is odd.
BUILDS: dict[str, list[int | None]] = {
    "selective": [*joins.within_row_group(3)],
    "empty": [],
    "all_null": [None] * 30,
    "with_nulls": [*joins.within_row_group(4), *[None] * 20],
    # Beside keys far outside of the probe's, a range alone tells nothing.
    "scattered": [*joins.within_row_group(2), *joins.within_row_group(15), -50, 50_000],
}


class Kind(NamedTuple):
    """A join of probe p and build b.

    Attributes:
        columns: of the result, beside the name of the build side.
        tables: with {p}, {b}, {k} for the probe's key, and {hint} in a block that is not the first.
        broadcast: whether Spark can broadcast the build side.
        null_safe: whether null equals null.
        reason: where no filter is allowed: words of the reason, if one is due.
    """

    columns: str
    tables: str
    broadcast: bool = True
    null_safe: bool = False
    reason: str = ""


# The probe's rows without a match do not matter.
FILTERED = {
    "inner": Kind("p.id, p.{k} AS k, b.n", "{p} JOIN {b} ON p.{k} = b.j"),
    "inner_build_first": Kind("p.payload, b.w", "{b} JOIN {p} ON b.j = p.{k} AND p.v >= b.h - 5"),
    "left_outer": Kind("p.id, p.payload, b.j, b.n", "{b} LEFT JOIN {p} ON p.{k} = b.j", broadcast=False),
    "right_outer": Kind("p.id, p.payload, b.j, b.n", "{p} RIGHT JOIN {b} ON p.{k} = b.j", broadcast=False),
    "left_semi": Kind("p.id, p.{k} AS k", "{p} LEFT SEMI JOIN {b} ON p.{k} = b.j"),
    "left_semi_of_the_build": Kind("b.j, b.n", "{b} LEFT SEMI JOIN {p} ON p.{k} = b.j", broadcast=False),
    "left_anti_of_the_build": Kind("b.j, b.n", "{b} LEFT ANTI JOIN {p} ON p.{k} = b.j", broadcast=False),
    "existence_of_the_build": Kind(
        "b.j, b.n",
        "{b} WHERE b.n % 3 = 0 OR EXISTS (SELECT 1 FROM {p} WHERE p.{k} = b.j)",
        broadcast=False,
    ),
    "null_safe": Kind("p.id, p.{k} AS k, b.n", "{p} JOIN {b} ON p.{k} <=> b.j", null_safe=True),
}
# Each of the probe's rows matters.
UNFILTERED = {
    "left_outer_of_the_probe": Kind("p.id, b.n", "{p} LEFT JOIN {b} ON p.{k} = b.j"),
    "right_outer_of_the_probe": Kind("p.id, b.n", "{b} RIGHT JOIN {p} ON p.{k} = b.j"),
    "full_outer": Kind("p.id, b.n", "{p} FULL JOIN {b} ON p.{k} = b.j", reason="full outer"),
    "left_anti": Kind("p.id", "{p} LEFT ANTI JOIN {b} ON p.{k} = b.j"),
    "existence": Kind("p.id", "{p} WHERE p.v = 3 OR EXISTS (SELECT {hint} 1 FROM {b} WHERE p.{k} = b.j)"),
    "not_in": Kind("p.id", "{p} WHERE p.{k} NOT IN (SELECT {hint} j FROM {b})", reason="not in"),
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
    compare: Comparer, kind: str, strategy: str, adaptive: str, fires: bool | None
) -> joins.Comparison:
    columns, tables = (FILTERED | UNFILTERED)[kind][:2]
    hint = f"/*+ {strategy}(b) */"
    settings = joins.FEW_TASKS | joins.SHUFFLED | joins.ADAPTIVE[adaptive]
    if strategy == REPLANNED:
        hint = ""
        settings |= {"spark.sql.adaptive.autoBroadcastJoinThreshold": "10m"}
    branch = f"SELECT {{hint}} '{{name}}' AS build, {columns} FROM {tables}"
    branches = [
        branch.format(p=f"p_{name} p", b=f"b_{name} b", k=f"k_{name}", name=name, hint=hint)
        for name in BUILDS
    ]
    return compare(" UNION ALL ".join(branches), settings, expected=kind, fires=fires)


@pytest.mark.parametrize(("strategy", "adaptive"), PLANS)
@pytest.mark.parametrize("kind", FILTERED)
def test_probe_is_filtered(compare: Comparer, kind: str, strategy: str, adaptive: str) -> None:
    how = "broadcast" if strategy == "BROADCAST" and FILTERED[kind].broadcast else "shuffled"
    fires = joins.in_time(how, adaptive)
    run = _compare(compare, kind, strategy, adaptive, fires).on
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
    run = _compare(compare, kind, strategy, adaptive, fires=False).on
    joins.assert_not_pruned(run, *(f"k_{name}" for name in BUILDS))
    if UNFILTERED[kind].reason:
        joins.assert_reason(run, UNFILTERED[kind].reason)
