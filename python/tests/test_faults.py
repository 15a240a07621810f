"""`faults` against a session that only keeps settings."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import FakeSession

from spark_dynamic_filters.testing import FaultsNotEnabled, faults

_SPEC = "spark.dynamicFilters.testing.faults.spec"


class _Counted(FakeSession):
    """Its counters are a dict that tests change."""

    def __init__(self, master: str, enabled: bool = True) -> None:
        super().__init__()
        self.conf.values["spark.master"] = master
        self.counts = {"received": 5} | ({"faultLost": 2, "seenTaskFailures": 1} if enabled else {})

    def sql(self, text: str) -> Any:
        counts = self.counts

        class Frame:
            schema = None

            def collect(self) -> list[dict[str, Any]]:
                return [{"name": n, "value": v} for n, v in counts.items()]

        return Frame()


def _spec(spark: _Counted, **kinds: Any) -> dict[str, str]:
    with faults(spark, **kinds):  # type: ignore[arg-type]
        text = spark.conf.values[_SPEC]
    assert _SPEC not in spark.conf.values
    return dict(item.split("=") for item in text.split(","))


def test_kinds_that_are_named_are_all_there_is() -> None:
    spec = _spec(_Counted("local[2, 4]"), seed=7, lost=0.25, slow_coordinator=0.5)
    assert {k: spec[k] for k in ("seed", "lost", "coordinatorMillis")} == {
        "seed": "7",
        "lost": "0.25",
        "coordinatorMillis": "500",
    }
    assert "failingTasks" not in spec
    assert "late" not in spec


@pytest.mark.parametrize(
    ("master", "fails"),
    [
        ("local", False),
        ("local[*]", False),
        ("local[2]", False),
        ("local[2,1]", False),
        ("local[2, 4]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://host:7077", True),
    ],
)
def test_tasks_fail_by_default_where_spark_tries_again(master: str, fails: bool) -> None:
    assert ("failingTasks" in _spec(_Counted(master))) == fails


@pytest.mark.parametrize(
    ("master", "fault", "message"),
    [
        ("local[2]", {"failing_tasks": 0.5}, r"failing_tasks.*local\[2, 4\]"),
        ("local[2, 4]", {"killed_executors": 1}, r"killed_executors.*local-cluster"),
        ("local[2, 4]", {"fetch_failures": 0.1}, r"fetch_failures.*local-cluster"),
    ],
)
def test_impossible_faults(master: str, fault: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message), faults(_Counted(master), **fault):  # type: ignore[arg-type]
        pass


def test_counts_are_those_since_the_beginning() -> None:
    spark = _Counted("local[2, 4]")
    with faults(spark) as happened:  # type: ignore[arg-type]
        spark.counts["faultLost"] += 3
        spark.counts["seenTaskFailures"] += 1
    assert happened.injected == {"lost": 3}
    assert happened.seen == {"task_failures": 1}
    assert happened.total == 3
    assert repr(happened) == "Faults(lost=3, task_failures=1)"


def test_specification_of_before_comes_back() -> None:
    spark = _Counted("local[2, 4]")
    with faults(spark, lost=0.5):  # type: ignore[arg-type]
        outer = spark.conf.values[_SPEC]
        with pytest.raises(KeyError), faults(spark, late=0.5):  # type: ignore[arg-type]
            raise KeyError("from the body")
        assert spark.conf.values[_SPEC] == outer
    assert _SPEC not in spark.conf.values


def test_application_that_was_not_started_for_it() -> None:
    with (
        pytest.raises(FaultsNotEnabled, match=r"testing\.faults\.enabled=true"),
        faults(
            _Counted("local[2, 4]", enabled=False)  # type: ignore[arg-type]
        ),
    ):
        pass
