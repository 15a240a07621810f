"""Runs one query under several settings and compares its rows."""

from __future__ import annotations

import numbers
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._analyze import Analysis, tagged
from .._conf import conf
from .._errors import InvalidArgument, shown
from .._report import by_tag
from .._session import require_session, session_of
from .._settings import find
from ._rows import multiset_difference, same_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    Query = str | DataFrame | Callable[[], DataFrame]

PRODUCERS = ("topk", "join", "aggregate", "subquery")
_SHOWN_ROWS = 5
#: How often the run with all filters on is made until one of them skips rows, if one has to.
FIRING_RUNS = 3
_NOT_RUN = "(none: Spark knew the rows without running anything)"


def _only(*producers: str) -> dict[str, bool]:
    return {"enabled": True} | {f"{p}.enabled": p in producers for p in PRODUCERS}


# The first is Spark itself: every other run must give its rows.
RUNS: dict[str, dict[str, bool]] = {
    "off": {"enabled": False},
    "on": _only(*PRODUCERS),
    **{producer: _only(producer) for producer in PRODUCERS},
}


@dataclass
class SameResult:
    """What `assert_same_result` saw.

    Attributes:
        rows: the rows of each run: "off", "on", and those of "topk", "join", "aggregate", "subquery" that
            ran alone.
        analysis: the report of the run with all filters on; None if Spark knew the rows without running
            anything.
    """

    rows: dict[str, list[Row]] = field(default_factory=dict)
    analysis: Analysis | None = None

    @property
    def off(self) -> list[Row]:
        """The rows without dynamic filters."""
        return self.rows["off"]

    @property
    def on(self) -> list[Row]:
        """The rows with all dynamic filters on."""
        return self.rows["on"]

    @property
    def filters(self) -> list[Row]:
        """The `dynamic_filters()` rows of the run with all filters on."""
        return self.analysis.filters if self.analysis else []

    @property
    def scans(self) -> list[Row]:
        """The `dynamic_filter_scans()` rows of the run with all filters on."""
        return self.analysis.scans if self.analysis else []

    @property
    def plan(self) -> str:
        """The executed plan of the run with all filters on."""
        return self.analysis.plan if self.analysis else ""

    def fired(self) -> bool:
        """Whether, with all filters on, a filter was built and rows were skipped because of it."""
        return self.analysis is not None and self.analysis.fired()

    def reasons(self) -> list[str]:
        """Why filters that were considered in the run with all filters on are not in force."""
        return self.analysis.reasons() if self.analysis else []


def assert_same_result(
    spark: SparkSession,
    query: Query,
    ordered: bool = False,
    keys: Sequence[str] | None = None,
    tolerance: float = 0.0,
    alone: bool = True,
    fires: bool | None = True,
) -> SameResult:
    """Asserts that dynamic filters do not change a query's rows, and that one of them skipped rows.

    Runs the query with filters off, with all on, and, where the report of that run names several producers
    (topk, join, aggregate, subquery), with each of them alone. A single one was alone already. The settings
    are the session's while it runs, as in `Conf.override`: other threads with this session have them too.

    Args:
        spark: a classic or Spark Connect session with the plugin.
        query: SQL text, a DataFrame of `spark`, or a function without arguments that returns one. A
            DataFrame keeps the physical plan of its first run, so not itself but `df.select("*")` is run:
            that is planned anew each time. Tables cached by `cache()` keep the plan they were cached with.
        ordered: whether the order of the rows counts.
        keys: names of the columns to compare; for a LIMIT that may choose among ties, its sort keys.
            Default: all.
        tolerance: largest relative or absolute difference between floats that counts as equal. 0.0: none.
            NaN equals NaN.
        alone: whether to run with single producers, too; False: only with filters off and on.
        fires: whether a filter has to skip rows in the run with all on, see `SameResult.fired`. True: at
            least one filter must skip rows, in one of three runs: a filter may come after the last row of a
            small table was read. False: no filter may skip rows. None: not asserted, for example
            because the filter may come too late.

    Returns:
        The rows of every run, and the report of the one with all filters on.

    Raises:
        AssertionError: rows differ; shows the differing rows, the settings and the plan. Where a LIMIT chose
            among rows that are equal in its sort keys, it starts with "only ties differ" and the `keys` to
            pass. Or no filter fired, or one did with `fires=False`; shows the reasons and the report.
        PluginNotLoaded: the plugin is not active.
        ValueError: a key that is no column of the result, a DataFrame of another session, or a tolerance
            below 0.
        InvalidArgument: `query` is none of the three, `spark` no session, `keys` a string, or `fires` none
            of the three (also a TypeError).
    """
    require_session("assert_same_result", spark)
    if isinstance(keys, str):
        raise InvalidArgument(f"assert_same_result: keys is a list of names; pass keys=[{keys!r}]")
    if not isinstance(tolerance, numbers.Real) or not tolerance >= 0:
        raise ValueError(f"assert_same_result: tolerance is {shown(tolerance)}; valid are numbers from 0")
    if fires is not None and not isinstance(fires, bool):
        raise InvalidArgument(f"assert_same_result: fires is {shown(fires)}; valid are True, False and None")
    settings = conf(spark)
    build = _builder(spark, query)
    result = SameResult()
    for name, values in RUNS.items():
        if name in PRODUCERS and not (alone and name in _several(result)):
            continue
        with settings.override(**values):
            for _ in range(FIRING_RUNS if name == "on" and fires else 1):
                with tagged(spark) as tag:
                    start = time.perf_counter()
                    rows = build().collect()
                    seconds = time.perf_counter() - start
                result.rows[name] = rows
                if name == "on":
                    report = by_tag(spark, tag)
                    result.analysis = report and Analysis(report, seconds)
                _compare(spark, name, result, ordered, keys, tolerance, tag)
                if not may_fire_next_time(result.analysis):
                    break
    assert_fires(fires, query, result.analysis)
    return result


def may_fire_next_time(report: Analysis | None) -> bool:
    """Whether a filter was there and skipped nothing: it may have come after the last row was read."""
    return report is not None and not report.fired() and any(f["state"] != "disabled" for f in report.filters)


def assert_fires(fires: bool | None, query: object, report: Analysis | None) -> None:
    """Asserts that a filter skipped rows (True) or that none did (False); None asserts nothing.

    `report` is None if Spark knew the rows without running anything.
    """
    if fires is None or fires == (report is not None and report.fired()):
        return
    if fires:
        title = "no dynamic filter fired; pass fires=False if none may, fires=None if that depends on timing"
    else:
        title = "a dynamic filter fired, and with fires=False none may"
    reasons = "; ".join(report.reasons()) if report else ""
    lines = [title, f"query: {shown(query, 400)}", f"reasons: {reasons or 'none'}", str(report or _NOT_RUN)]
    raise AssertionError("\n".join(lines))


def _several(result: SameResult) -> set[str]:
    """The producers that made or considered a filter in the run with all on, if more than one."""
    if result.analysis is None:
        # Spark knew the rows without running anything; or there is no report, which may not hide a fault.
        return set(PRODUCERS)
    named = {str(f["producer"]) for f in result.filters} & set(PRODUCERS)
    return named if len(named) > 1 else set()


def _builder(spark: SparkSession, query: Query) -> Callable[[], DataFrame]:
    if isinstance(query, str):
        return lambda: spark.sql(query)
    if hasattr(query, "sparkSession"):
        if session_of("assert_same_result", query) is not spark:
            raise ValueError(
                "assert_same_result: the DataFrame belongs to another session than the one given"
            )
        df: Any = query
        return lambda: df.select("*")
    if callable(query):
        return query
    raise InvalidArgument(
        "assert_same_result: query must be SQL text, a DataFrame, or a function that returns a DataFrame, "
        f"not {type(query).__name__}"
    )


def _compare(
    spark: SparkSession,
    name: str,
    result: SameResult,
    ordered: bool,
    keys: Sequence[str] | None,
    tolerance: float,
    tag: str,
) -> None:
    expected, actual = (_project(rows, keys) for rows in (result.off, result.rows[name]))
    if ordered and _same_order(expected, actual, tolerance):
        return
    missing, extra = multiset_difference(expected, actual, tolerance)
    if not ordered and not missing and not extra:
        return
    report = by_tag(spark, tag)
    plan = report.plan if report else _NOT_RUN
    tied = _tied_keys(result.off, result.rows[name], plan, ordered, tolerance) if keys is None else None
    lines = [f"only ties differ; pass keys={tied}"] if tied else []
    lines += [
        f"dynamic filters changed the result: {len(expected)} rows without them, {len(actual)} with them",
        "with: " + ", ".join(f"{find(k).key}={str(v).lower()}" for k, v in RUNS[name].items()),
    ]
    if ordered and not missing and not extra:
        lines.append(_first_misplaced(expected, actual, tolerance))
    lines += _sample("only without dynamic filters", missing) + _sample("only with dynamic filters", extra)
    lines += ["plan:", plan]
    raise AssertionError("\n".join(lines))


# The sort keys of a TopK, as plans print them: orderBy=[a#1L ASC NULLS FIRST,b#2 DESC NULLS LAST].
_ORDER = re.compile(r"\borderBy=\[([^\]]*)\]")
_DIRECTION = re.compile(r" (?:ASC|DESC) NULLS (?:FIRST|LAST)")
_SORT_KEY = re.compile(r"(?:^|,\s*)(\w+)#\d+L?" + _DIRECTION.pattern)


def _tied_keys(off: list[Row], on: list[Row], plan: str, ordered: bool, tolerance: float) -> list[str] | None:
    """The sort keys of the result's TopK, if the rows are the same in these and in their order; else None.

    A LIMIT may choose any of the rows that are equal in its sort keys, and so may Spark itself.
    """
    found = _ORDER.search(plan)
    names = _SORT_KEY.findall(found[1]) if found else []
    # Rows may differ in a key that is an expression, which has no name in them.
    if found and len(names) != len(_DIRECTION.findall(found[1])):
        return None
    if not names or not off or not on or any(name not in off[0].__fields__ for name in names):
        return None
    expected, actual = _project(off, names), _project(on, names)
    if ordered:
        return names if _same_order(expected, actual, tolerance) else None
    return None if any(multiset_difference(expected, actual, tolerance)) else names


def _project(rows: list[Row], keys: Sequence[str] | None) -> list[Any]:
    if keys is None or not rows:
        return rows
    unknown = [key for key in keys if key not in rows[0].__fields__]
    if unknown:
        raise ValueError(
            f"assert_same_result: keys {shown(', '.join(unknown))}: no such column in the result; "
            f"it has {shown(', '.join(rows[0].__fields__), 120)}"
        )
    return [tuple(row[key] for key in keys) for row in rows]


def _same_order(expected: list[Any], actual: list[Any], tolerance: float) -> bool:
    return len(expected) == len(actual) and all(
        same_row(a, b, tolerance) for a, b in zip(expected, actual, strict=True)
    )


def _first_misplaced(expected: list[Any], actual: list[Any], tolerance: float) -> str:
    pairs = enumerate(zip(expected, actual, strict=True))
    i, (a, b) = next((i, pair) for i, pair in pairs if not same_row(*pair, tolerance))
    return f"same rows in another order, first at row {i}: without {a}, with {b}"


def _sample(title: str, rows: list[Any]) -> list[str]:
    if not rows:
        return []
    shown = [f"  {row}" for row in rows[:_SHOWN_ROWS]]
    return [f"{title} ({len(rows)} rows, first {len(shown)}):", *shown]
