"""The conf object against a session that only keeps settings."""

from __future__ import annotations

import copy
import typing
from decimal import Decimal

import numpy as np
import pytest
from fakes import FakeSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters._conf import Conf, ConfGroup
from spark_dynamic_filters._errors import translated
from spark_dynamic_filters._settings import SETTINGS, below, encode, find, similar


def test_reading_and_setting() -> None:
    spark = FakeSession()
    conf = sdf.conf(spark)
    assert conf.enabled is True
    conf.topk.maxLimit = 5
    assert spark.conf.values["spark.dynamicFilters.topk.maxLimit"] == "5"
    assert conf.topk.maxLimit == 5
    assert conf.get("topk.maxLimit") == conf.topk.get("maxLimit") == 5
    conf.enabled = False
    assert spark.conf.values["spark.dynamicFilters.enabled"] == "false"
    del conf.enabled
    assert conf.enabled is True
    conf.topk.unset("maxLimit")
    assert spark.conf.values == {}


def test_wrong_names() -> None:
    conf = sdf.conf(FakeSession())
    for wrong in (
        lambda: conf.nothing,
        lambda: conf.topk.nothing,
        lambda: setattr(conf, "nothing", 1),
        lambda: setattr(conf, "topk", True),
        lambda: delattr(conf, "nothing"),
        lambda: conf.get("topk.nothing"),
    ):
        with pytest.raises(AttributeError, match="no such setting") as caught:
            wrong()
        assert isinstance(caught.value, sdf.DynamicFiltersError)
    assert not hasattr(conf, "nothing")


def test_override_sets_all_or_none() -> None:
    spark = FakeSession()
    conf = sdf.conf(spark)
    with pytest.raises(ValueError, match="bloom"), conf.override(enabled=False, **{"bloom.fp": 2}):
        pass
    assert spark.conf.values == {}
    spark.conf.refuses = "spark.dynamicFilters.topk.maxLimit"
    with pytest.raises(RuntimeError, match="refused"), conf.override(enabled=False, **{"topk.maxLimit": 1}):
        pass
    assert spark.conf.values == {}


def test_override_restores_what_was_set() -> None:
    spark = FakeSession()
    spark.conf.values["spark.dynamicFilters.enabled"] = "false"
    with sdf.conf(spark).override(enabled=True, **{"topk.maxLimit": 1}):
        assert spark.conf.values["spark.dynamicFilters.enabled"] == "true"
    assert spark.conf.values == {"spark.dynamicFilters.enabled": "false"}
    with sdf.conf(spark).topk.override(enabled=False) as topk:
        assert topk.enabled is False
    assert spark.conf.values == {"spark.dynamicFilters.enabled": "false"}


def test_looks_like_its_settings() -> None:
    conf = sdf.conf(FakeSession())
    assert {"enabled", "topk", "join", "override"} <= set(dir(conf))
    assert repr(conf.topk) == "Conf(topk: enabled=True, maxLimit=100000)"
    assert [pair.split("=")[0] for pair in repr(conf)[len("Conf(") :].split(", ")] == [
        s.name for s in SETTINGS
    ]
    assert "in.maxValues=10000" in repr(conf)


def test_a_group_whose_name_is_a_keyword_has_an_alias() -> None:
    spark = FakeSession()
    conf = sdf.conf(spark)
    conf.in_.maxValues = 5
    assert spark.conf.values == {"spark.dynamicFilters.in.maxValues": "5"}
    assert conf.in_.maxValues == conf.get("in.maxValues") == 5
    assert "in_" in dir(conf)
    assert "in" not in dir(conf)


def test_may_be_copied() -> None:
    conf = sdf.conf(FakeSession())
    assert repr(copy.copy(conf.topk)) == repr(conf.topk)


def test_missing_plugin() -> None:
    with pytest.raises(sdf.PluginNotLoaded, match="DynamicFiltersPlugin"):
        sdf.conf(FakeSession(plugin=False))
    # A setting that somebody gave without the plugin does not hide that it is missing.
    session = FakeSession(plugin=False)
    session.conf.values["spark.dynamicFilters.enabled"] = "true"
    with pytest.raises(sdf.PluginNotLoaded):
        sdf.conf(session)


def test_types_say_what_the_settings_are() -> None:
    typed: dict[str, object] = {}
    for name, kind in typing.get_type_hints(Conf, localns={"SparkSession": object}).items():
        if name.startswith("_"):
            continue
        if isinstance(kind, type) and issubclass(kind, ConfGroup):
            hints = typing.get_type_hints(kind, localns={"SparkSession": object})
            typed |= {f"{name}.{n}": k for n, k in hints.items() if not n.startswith("_")}
        else:
            typed[name] = kind
    assert typed == {
        s.name.replace("in.", "in_.", 1) if s.name.startswith("in.") else s.name: s.type for s in SETTINGS
    }


def test_override_hints_at_nested_names() -> None:
    conf = sdf.conf(FakeSession())
    with pytest.raises(sdf.UnknownSetting) as caught, conf.override(join_waitTimeout="1s"):
        pass
    assert str(caught.value) == (
        "spark.dynamicFilters.join_waitTimeout: no such setting; did you mean "
        'spark.dynamicFilters.join.waitTimeout? Write override(**{"join.waitTimeout": ...})'
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("topk.maxLimits", "topk.maxLimit"),
        ("tokp.enabled", "topk.enabled"),
        ("spark.dynamicfilters.ENABLED", "enabled"),
        ("spark.dynamicFilter.enable", "enabled"),
        ("waitTimeout", "join.waitTimeout"),
        ("join.wait_timeout", "join.waitTimeout"),
        ("topk.max", "topk.maxLimit"),
        ("bloomfpp", "bloom.fpp"),
        ("fpp", "bloom.fpp"),
        ("giveUp", "selectivity.giveUp"),
        ("late", "lateMaterialization.enabled"),
        ("colour", None),
        ("tokp", None),
        ("", None),
    ],
)
def test_similar_settings(name: str, meant: str | None) -> None:
    assert similar(name) == meant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (np.bool_(False), "false"),
        ("FALSE", "FALSE"),
        (np.int64(5), "5"),
        (np.float32(0.5), "0.5"),
        (Decimal("0.05"), "0.05"),
        ("2MB", "2MB"),
    ],
)
def test_values_as_text(value: object, text: str) -> None:
    assert encode(value) == text


def test_texts_as_values() -> None:
    assert find("enabled").decode("TRUE") is True
    assert find("topk.maxLimit").decode("12") == 12
    assert find("bloom.fpp").decode("0.01") == 0.01
    assert find("join.waitTimeout").decode("120s") == "120s"


def test_refused_value_is_an_error_of_python() -> None:
    error = translated(RuntimeError("[DYNAMIC_FILTER_INVALID_SETTING] a: cannot be 'b'. SQLSTATE: 22023"))
    assert isinstance(error, ValueError)
    assert str(error) == "a: cannot be 'b'"


def test_groups() -> None:
    assert below("join") == ["enabled", "waitTimeout", "maxBuildRows"]
    assert "topk" in below("")
    assert below("enabled") == []
