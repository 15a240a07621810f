"""The table of benchmarks: what each measures, in which sizes, how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import event_cases
import join_queries
import layouts
import planning_cases
import queries
import runs
import table_cases
import tpc_cases
import user_cases
from case import Case, Variant
from engines import DataFusion, DuckDb, Engine, Planner, Spark
from results import rows_differ

LATE = {"spark.dynamicFilters.join.waitTimeout": "0s"}
NOT_ADAPTIVE = LATE | {"spark.sql.adaptive.enabled": "false"}
AGGREGATES = {
    "groups": (
        "SELECT CounterID, count(*), max(EventTime) FROM hits GROUP BY CounterID ORDER BY CounterID LIMIT 20"
    ),
    "min and max": "SELECT min(EventTime), max(EventTime) FROM hits",
}


def _no_settings() -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Suite:
    """A benchmark.

    Attributes:
        title: of its report.
        cases: makes its cases of one size.
        sizes: millions of rows, or scale factors.
        rounds, warm_up: rounds that count, and before.
        by_round: whether all cases run once a round. Each then meets a JVM that has compiled what all share:
            measured one after the other, A/A of TPC-DS alone showed 20 %.
        is_compared: whether small differences count: the heap has its size from the start, and shuffle files
            are in memory.
        settings: further ones of the session.
        engine: what the session is used as.
        peers: engines beside it.
        has_chart: whether the page has one.
    """

    title: str
    cases: Callable[[float], Iterator[Case]]
    sizes: Sequence[float]
    rounds: int = 5
    warm_up: int = 2
    by_round: bool = False
    is_compared: bool = False
    settings: Callable[[], Mapping[str, str]] = _no_settings
    engine: type[Spark] = Spark
    peers: Mapping[str, type[Engine]] = field(default_factory=dict)
    has_chart: bool = False


def _log(size: float) -> int:
    """Millions of rows of a web log beside joins of a size: its files have two."""
    return max(2, int(size * 0.8) // 2 * 2)


def _topk(size: float) -> Iterator[Case]:
    for layout in layouts.LAYOUTS:
        yield from queries.scaling(layout, int(size))


def _useless(size: float) -> Iterator[Case]:
    yield from queries.useless("int64", int(size))
    yield from queries.unprunable()


def _joins(size: float) -> Iterator[Case]:
    yield from join_queries.clustered(size)
    yield from join_queries.computed(size)
    yield from join_queries.ranges(size)
    yield from join_queries.outer(size)
    yield from join_queries.values(size)
    if size <= 10:
        yield from join_queries.star(size)


def _cost(size: float) -> Iterator[Case]:
    yield from join_queries.useless(size)
    yield from join_queries.tap(size * 0.3)
    yield from join_queries.short(size)
    yield from queries.useless("int64", _log(size), part="topk")
    yield from table_cases.formats(size * 0.3)


def _tables(size: float) -> Iterator[Case]:
    yield from table_cases.tables(_log(size), size)
    yield from table_cases.merges([int(size * 1_000), int(size * 10_000)])


def _peers(size: float) -> Iterator[Case]:
    joins = [*join_queries.clustered(size), *join_queries.star(size)]
    cases = [*queries.scaling("int64", _log(size)), *(case for case in joins if case.name == "broadcast")]
    yield from map(tpc_cases.beside_peers, [*cases, *tpc_cases.queries("tpch", size / 10)])


def _versions(size: float) -> Iterator[Case]:
    """Joins and TopKs, and joins whose filter comes late, in processes with two jars."""
    cases = []
    for case in (*join_queries.clustered(size), *join_queries.star(size), *join_queries.useless(size)):
        cases.append(case)
        if "merge" in case.name or case.part == "star":
            late = {"never waits": LATE, "never waits, not adaptive": NOT_ADAPTIVE}
            for how, confs in late.items():
                cases.append(replace(case, name=f"{case.name}, {how}", confs={**case.confs, **confs}))
    topks = list(queries.scaling("int64", _log(size)))
    cases += topks
    cases += [
        replace(topks[0], part="aggregate", name=name, variants={"": Variant(text)}, difference=rows_differ)
        for name, text in AGGREGATES.items()
    ]
    yield from map(_with_two_jars, cases)


def _with_two_jars(case: Case) -> Case:
    text = next(iter(case.variants.values())).text
    return replace(case, variants={name: Variant(text, engine=name) for name in ("before", "after")})


def _tpc(suite: str) -> Callable[[float], Iterator[Case]]:
    return lambda scale: tpc_cases.queries(suite, scale)


def _tpc_versions(suite: str) -> Callable[[float], Iterator[Case]]:
    return lambda scale: map(_with_two_jars, tpc_cases.queries(suite, scale))


SUITES = {
    "topk": Suite("TopK filters on a web log", _topk, (2, 8, 32), has_chart=True),
    "topk-useless": Suite("TopK filters of little use", _useless, (8,), rounds=11, is_compared=True),
    "joins": Suite("Join filters", _joins, (10, 100), has_chart=True),
    "events": Suite("Other keys and producers", event_cases.events, (10, 100), rounds=3),
    "user": Suite("Filters of users", user_cases.users, (50,)),
    "cached": Suite("Cached tables", table_cases.cached, (10,), rounds=7),
    "cost": Suite("What filters cost where they are of no use", _cost, (10,), rounds=11, is_compared=True),
    "tables": Suite("Table formats beside Parquet", _tables, (10,), settings=table_cases.table_settings),
    "tpcds": Suite("TPC-DS", _tpc("tpcds"), (1,), by_round=True, is_compared=True),
    "tpch": Suite("TPC-H", _tpc("tpch"), (1,), by_round=True, is_compared=True),
    "peers": Suite(
        "Beside DuckDB and DataFusion",
        _peers,
        (10,),
        peers={"DuckDB": DuckDb, "DataFusion": DataFusion},
        has_chart=True,
    ),
    "planning": Suite(
        "Planning with and without filters",
        lambda _: planning_cases.planning(),
        (1,),
        rounds=15,
        warm_up=5,
        is_compared=True,
        engine=Planner,
    ),
    "versions": Suite("Two jars", _versions, (10,)),
    "versions-tpcds": Suite("Two jars, TPC-DS", _tpc_versions("tpcds"), (1,), by_round=True),
    "versions-tpch": Suite("Two jars, TPC-H", _tpc_versions("tpch"), (1,), by_round=True),
}


def settings(suite: Suite, sizes: Sequence[float]) -> dict[str, str]:
    """Of the session that a suite is measured in."""
    found = {**runs.LARGE, **suite.settings()}
    if suite.is_compared:
        found |= runs.STEADY
        found |= (
            runs.shuffles_in_memory() if max(sizes) <= 10 and not (suite.by_round and max(sizes) > 1) else {}
        )
    return found


def default_report(name: str, sizes: Sequence[float]) -> Path:
    """Where a suite's report goes if the command line does not say."""
    scale = f"-{sizes[0]:g}" if name.startswith("tpc") else ""
    return runs.ROOT / "build" / "bench" / f"{name}{scale}.json"
