"""User filters against a session that only answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import FakeSession
from pyspark.sql.types import ArrayType, LongType

import spark_dynamic_filters as sdf
from spark_dynamic_filters import _commands
from spark_dynamic_filters._session import is_stopped
from spark_dynamic_filters.testing import assert_same_result


class _Calls:
    """Stands for a command: fails with the errors given, one a call, and then works."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.count = 0

    def __call__(self, *_: Any) -> None:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)


def _filter(spark: Any = None) -> sdf.UserFilter:
    return sdf.UserFilter(spark or FakeSession(), "f", "bigint", "token")


def test_close_that_failed_can_be_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    close = _Calls(RuntimeError("no connection"))
    monkeypatch.setattr(_commands, "close", close)
    f = _filter()
    with pytest.raises(RuntimeError, match="no connection"):
        f.close()
    assert "closed" not in repr(f)
    f.close()
    f.close()
    assert close.count == 2
    assert "closed" in repr(f)


def test_close_after_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    close = _Calls(RuntimeError("no session"))
    monkeypatch.setattr(_commands, "close", close)
    client = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "is_stopped": True})
    classic = FakeSession()
    classic._sc = SimpleNamespace(_jsc=None)  # type: ignore[attr-defined]
    for spark in (client(), classic):
        assert is_stopped(spark)
        with _filter(spark) as f:
            pass
        assert "closed" in repr(f)
    assert close.count == 0
    assert not is_stopped(FakeSession())


def test_errors_of_the_body_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_commands, "close", _Calls(RuntimeError("no connection"), RuntimeError("again")))
    with pytest.raises(KeyError, match="body"), _filter():
        raise KeyError("body")
    with pytest.raises(RuntimeError, match="again"), _filter():
        pass


@pytest.mark.parametrize("kind", [sdf.InvalidArgument, sdf.DynamicFiltersError, sdf.InvalidFilterForm])
def test_errors_of_updates_name_the_filter_once(
    monkeypatch: pytest.MonkeyPatch, kind: type[sdf.DynamicFiltersError]
) -> None:
    expected = "filter 'f' of type bigint: a command is refused"
    errors = kind("a command is refused"), kind(expected)
    monkeypatch.setattr(_commands, "update", _Calls(*errors))
    for _ in errors:
        with pytest.raises(kind) as caught:
            _filter().update(sdf.everything())
        assert str(caught.value) == expected
        assert type(caught.value) is kind


def test_an_update_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(_commands, "_by_gateway", lambda spark, encoded: sent.append(len(encoded)))
    monkeypatch.setattr(_commands, "MAX_BYTES", 2_000)
    _filter().update(sdf.bitmap(bytes(1_900)))
    assert len(sent) == 1
    with pytest.raises(sdf.DynamicFiltersError) as caught:
        _filter().update(sdf.bitmap(bytes(2_001)))
    size = 2_001 + sent.pop() - 1_900
    assert str(caught.value) == (
        f"filter 'f' of type bigint: the command has {size:,} bytes; at most 2,000 can be sent"
    )
    assert not sent


@pytest.mark.parametrize("given", ["bigint", LongType(), LongType])
def test_types_by_name_and_as_pyspark_has_them(monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    monkeypatch.setattr(_commands, "create", _Calls())
    assert sdf.create_filter(FakeSession(), "f", given).type == "bigint"


@pytest.mark.parametrize(
    ("given", "named"), [(int, "the class int"), (ArrayType, "the class ArrayType"), (5, "int")]
)
def test_what_is_no_type(given: Any, named: str) -> None:
    with pytest.raises(sdf.InvalidArgument, match=f"or a pyspark DataType, got {named}$"):
        sdf.create_filter(FakeSession(), "f", given)


def test_a_name_that_cannot_be_sent() -> None:
    with pytest.raises(sdf.InvalidArgument, match="half a character"):
        sdf.create_filter(FakeSession(), "a\ud800", "int")


def test_notebooks_show_filters_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    now = sdf.FilterSnapshot("f", "bigint", 1, "range", "5 <= f <= 9", None, 20)
    monkeypatch.setattr(sdf.UserFilter, "snapshot", lambda _: now)
    assert "<td>generation</td><td>1</td>" in _filter()._repr_html_()
    html = sdf.conf(FakeSession())._repr_html_()
    assert "<td>spark.dynamicFilters.topk.maxLimit</td><td>100000</td><td>100000</td>" in html
    assert "topk" not in sdf.conf(FakeSession()).join._repr_html_()


def test_missing_strings_of_pandas_are_null() -> None:
    class Series(list[Any]):
        dtype = "str"
        tolist = list[Any].copy

    assert repr(sdf.isin(Series(["a", float("nan")]))) == repr(sdf.isin(["a", None]))


@pytest.mark.parametrize(
    ("module", "remedy"), [("pandas.core.frame", "createDataFrame"), ("pyspark.pandas.frame", "to_spark")]
)
def test_frames_of_pandas_are_named(module: str, remedy: str) -> None:
    frame = type("DataFrame", (), {"__module__": module})()
    with pytest.raises(
        sdf.InvalidArgument, match=rf"^analyze: expected a Spark DataFrame, got a pandas.*{remedy}"
    ):
        sdf.analyze(frame)


def test_tolerance_of_numpy() -> None:
    with pytest.raises(sdf.PluginNotLoaded):
        assert_same_result(FakeSession(plugin=False), "SELECT 1", tolerance=np.float32(0.5))
    with pytest.raises(ValueError, match="tolerance"):
        assert_same_result(FakeSession(), "SELECT 1", tolerance=np.float32(-1))
