"""The table of settings, by itself: parsing, defaults, messages."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from spark_dynamic_filters import UnknownSetting
from spark_dynamic_filters._settings import SETTINGS, Setting, below, find


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_defaults_are_valid(setting: Setting) -> None:
    assert setting.encode(setting.default) == setting.default
    assert setting.meaning.endswith(".")
    assert setting.key == f"spark.dynamicFilters.{setting.name}"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("enabled", True, "true"),
        ("enabled", "FALSE", "FALSE"),
        ("topk.maxLimit", 5, "5"),
        ("topk.maxLimit", "0", "0"),
        ("bloom.fpp", 0.5, "0.5"),
        ("selectivity.giveUp", 1, "1"),
        ("join.waitTimeout", "500ms", "500ms"),
        ("join.waitTimeout", "0", "0"),
        ("maxFilterBytes", 1024, "1024"),
        ("maxFilterBytes", "2MB", "2MB"),
        ("maxFilterBytes", "1p", "1p"),
        ("enabled", np.bool_(False), "false"),
        ("topk.maxLimit", np.int64(5), "5"),
        ("bloom.fpp", np.float32(0.5), "0.5"),
        ("bloom.fpp", Decimal("0.05"), "0.05"),
    ],
)
def test_good_values(name: str, value: object, text: str) -> None:
    assert find(name).encode(value) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enabled", 1),
        ("enabled", "yes"),
        ("enabled", None),
        ("topk.maxLimit", -1),
        ("topk.maxLimit", 1.5),
        ("topk.maxLimit", True),
        ("topk.maxLimit", 2**31),
        ("join.maxBuildRows", 0),
        ("bloom.fpp", 0.0),
        ("bloom.fpp", 1),
        ("bloom.fpp", "nan"),
        ("selectivity.giveUp", -0.1),
        ("join.waitTimeout", "10 parsecs"),
        ("join.waitTimeout", "-1s"),
        ("join.waitTimeout", "10 s"),
        ("join.waitTimeout", "٣s"),
        ("maxFilterBytes", "8 m"),
        ("maxFilterBytes", np.array([8])),
        ("topk.maxLimit", Decimal("1.5")),
        ("maxFilterBytes", "1.5m"),
        ("maxFilterBytes", "0m"),
        ("maxFilterBytes", [8]),
    ],
)
def test_bad_values_name_the_key_and_what_it_takes(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"spark.dynamicFilters.{name}: cannot be .*; it takes") as caught:
        find(name).encode(value)
    assert find(name).expected in str(caught.value)


def test_decoding() -> None:
    assert find("enabled").decode("TRUE") is True
    assert find("topk.maxLimit").decode("12") == 12
    assert find("bloom.fpp").decode("0.01") == 0.01
    # Another spelling of the default is shown as documented, anything else as it was set.
    assert find("join.waitTimeout").decode("10000ms") == "10s"
    assert find("join.waitTimeout").decode("120s") == "120s"
    assert find("maxFilterBytes").decode("8388608b") == "8m"
    assert find("maxFilterBytes").decode("9m") == "9m"


def test_unknown_names_list_the_valid_ones() -> None:
    with pytest.raises(
        UnknownSetting, match=r"spark\.dynamicFilters\.topk\.max: no such setting.*topk\.maxLimit"
    ):
        find("topk.max")
    assert find("spark.dynamicFilters.enabled") is find("enabled")


def test_groups() -> None:
    assert below("join") == ["enabled", "waitTimeout", "maxBuildRows"]
    assert "topk" in below("")
    assert below("enabled") == []
