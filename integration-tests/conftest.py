"""Data that several modules use. The `spark` fixture comes from the package's own pytest plugin."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters.testing import SameResult, SparkApplication
from support import choice, joins, jvm, packages, tables

#: The mark of tests that have a reason to run in a mode other than classic: they need processes, or the
#: client makes a difference. Of all others, whose engine is the same everywhere, few run there.
REASON = {"local-cluster": "processes", "connect": "client"}
#: Parameters that say how a query is executed: each value occurs in each mode, in one module or another.
#: Parameters that say what is queried (shapes, types, values) vary only in classic, and in tests that have a
#: reason to run in the mode.
AXES = frozenset({"strategy", "adaptive", "reader", "full_retry", "kept", "cached", "how"})
#: On older lines each test of the core is run once, and each way to execute a query.
CORE_AXES = AXES | {choice.FUNCTION}
_EVERY = bool(os.environ.get("EVERY_CASE"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="1/1", help="part of the modules to run, for example 1/2")


# Last: of those that -m and -k have left.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mode, markers = config.getoption("--spark-mode"), config.option.markexpr
    cases = {item: _case(item) for item in items if _runs(item, mode, markers)}
    core = markers == "core"
    reason = None if core else REASON.get(mode)
    own = {case for item, case in cases.items() if not core and _is_own(item, reason)}
    chosen = own if _EVERY and not reason else _chosen(own, mode, axes=None)
    rest = set(cases.values()) - own
    if core or _EVERY:
        chosen |= _chosen(rest, "core" if core else mode, None if _EVERY else CORE_AXES, chosen)
    else:
        chosen |= _with_each_axis(rest, mode, chosen)
        chosen |= _chosen(rest, mode, (), chosen)
    sizes = Counter(item.path.stem for item in items if cases.get(item) in chosen)
    number, parts = map(int, config.getoption("--part").split("/"))
    modules = choice.parts(sizes, parts)[number - 1]
    left = {item for item in items if cases.get(item) in chosen and item.path.stem in modules}
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = [item for item in items if item in left]


def _is_own(item: pytest.Item, reason: str | None) -> bool:
    return reason is None or item.get_closest_marker(reason) is not None


def _with_each_axis(cases: set[choice.Case], salt: str, given: set[choice.Case]) -> set[choice.Case]:
    """Tests that together have each value of each axis; their modules do not matter."""
    anywhere = {replace(c, module="", name=f"{c.module} {c.name}"): c for c in cases | given}
    before = {case for case, of in anywhere.items() if of in given}
    return {anywhere[case] for case in _chosen(set(anywhere) - before, salt, AXES, before)}


def _chosen(
    cases: set[choice.Case], salt: str, axes: choice.Axes, given: Collection[choice.Case] = ()
) -> set[choice.Case]:
    chosen = choice.choose(list(cases), salt, axes, given)
    lost = choice.not_covered(cases, chosen | set(given), axes)
    if lost:
        raise pytest.UsageError(
            "no test of this mode has "
            + ", ".join(f"{parameter}={value} of {module}" for module, parameter, value in lost)
        )
    return chosen


def _runs(item: pytest.Item, mode: str, markers: str) -> bool:
    """Whether the test is meant for this mode at all."""
    exhaustive = mode != "classic" and item.get_closest_marker("exhaustive")
    large = item.get_closest_marker("large") and "large" not in markers
    drawn = item.get_closest_marker("browser") and "browser" not in markers
    table_format, package = item.get_closest_marker("table_format"), packages.chosen()
    wanted = {package.name if package else None}
    # One application runs the core of an older line and that of a table format.
    wanted |= {None} if markers == "core" else set()
    fits = (table_format.args[0] if table_format else None) in wanted
    only = item.get_closest_marker("only")
    of_mode = only is None or mode in only.args
    return fits and of_mode and not exhaustive and not large and not drawn


def _case(item: pytest.Item) -> choice.Case:
    call = getattr(item, "callspec", None)
    values = (
        {name: choice.text(value, call.indices[name]) for name, value in call.params.items()} if call else {}
    )
    return choice.Case(item.path.stem, item.name, tuple(sorted(values.items())))


@pytest.fixture(scope="session")
def spark_config(
    tmp_path_factory: pytest.TempPathFactory, spark_mode: str, pytestconfig: pytest.Config
) -> dict[str, str]:
    # Connect, and the core on each line, run compiled code. So does what is run of a table format by itself.
    package = packages.chosen()
    whole = not pytestconfig.option.markexpr
    interpreted = whole and package is None and spark_mode != "connect" and not _EVERY
    return {
        **(package.config(tmp_path_factory.mktemp(package.name)) if package else {}),
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.session.timeZone": "UTC",
        # Several splits and tasks for little data, so that tasks share bounds while they run.
        "spark.sql.files.maxPartitionBytes": "256k",
        "spark.sql.files.openCostInBytes": "64k",
        **jvm.QUICK,
        **(jvm.INTERPRETED if interpreted else {}),
        # One driver lives through all modules, and in local mode a task without memory ends it. Each hash
        # table that Spark broadcasts for a bigint key takes a page: 32 MiB by default, until it is collected.
        "spark.driver.memory": "2g",
        "spark.buffer.pageSize": "2m",
    }


@pytest.fixture(scope="module", autouse=True)
def _interpreted_format(request: pytest.FixtureRequest) -> None:
    """In the core of a table format most queries are the format's own, over its metadata."""
    of_format = any(marker.name == "table_format" for marker in request.node.iter_markers())
    if of_format and request.config.option.markexpr == "core":
        for key, value in jvm.INTERPRETED.items():
            request.getfixturevalue("spark").conf.set(key, value)


@pytest.fixture(scope="session")
def all_types_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every atomic type, 4,000 rows in 20 row groups, with page indexes."""
    return tables.write(tables.all_types(), tmp_path_factory.mktemp("all_types"), write_page_index=True)


@pytest.fixture(scope="session")
def shuffled_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `all_types_path`, all rows in random order: row groups are as good as each other."""
    table = tables.all_types(seed=2, block=None)
    return tables.write(table, tmp_path_factory.mktemp("shuffled"), write_page_index=True)


@pytest.fixture
def same_twice(assert_same_result: Callable[..., SameResult]) -> Callable[..., SameResult]:
    """`assert_same_result` with filters off and on only: for many queries of one producer."""
    return functools.partial(assert_same_result, alone=False)


@pytest.fixture(scope="module")
def compare(spark: SparkSession) -> joins.Comparer:
    """Some modules have one of their own, with tables."""
    return joins.Comparer(spark)


@pytest.fixture(scope="module")
def t(spark: SparkSession, all_types_path: Path) -> str:
    """The name of a view of `all_types_path`."""
    spark.read.parquet(str(all_types_path)).createOrReplaceTempView("t")
    return "t"


@pytest.fixture
def f(spark: SparkSession) -> Iterator[sdf.UserFilter]:
    """A user filter, as for `seq` of `t`, which ascends from 0 to 3999."""
    with sdf.create_filter(spark, "wanted", "bigint") as made:
        yield made


@pytest.fixture
def new_session(spark_application: SparkApplication) -> Iterator[Callable[[], SparkSession]]:
    """Makes sessions beside the `spark` fixture's; they are closed when the test ends."""
    made: list[SparkSession] = []

    def make() -> SparkSession:
        made.append(spark_application.new_session())
        return made[-1]

    yield make
    for session in made:
        spark_application.close_session(session)
