"""The settings, through the conf object and through SQL: the same checks in every kind of session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import spark_dynamic_filters as sdf
from spark_dynamic_filters._settings import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.client

#: Values as Python has them, and ends of ranges. Those of support/errors.py are others.
BAD_VALUES = {
    "topk.enabled": "2",
    "join.waitTimeout": 5,
    "join.maxBuildRows": "0",
    "bloom.fpp": "1.0",
    "report.retainedQueries": "0",
    "enabled": 1,
    "topk.maxLimit": 1.5,
    "maxFilterBytes": [8],
    "in.maxValues": True,
    "selectivity.giveUp": None,
}


@pytest.mark.core
def test_defaults(spark: SparkSession) -> None:
    conf = sdf.conf(spark)
    assert conf.enabled is True
    assert conf.topk.enabled is True
    assert conf.topk.maxLimit == 100_000
    assert conf.bloom.fpp == 0.01
    assert conf.join.waitTimeout == "10s"
    assert conf.maxFilterBytes == "8m"
    assert conf.report.retainedQueries == 100


@pytest.mark.core
def test_sql_lists_the_settings(spark: SparkSession, spark_config: dict[str, str]) -> None:
    rows = spark.sql("SET -v").where("key LIKE 'spark.dynamicFilters.%'").collect()
    # The tests' own application sets a few.
    expected = {s.key: (spark_config.get(s.key, s.default), s.meaning) for s in SETTINGS}
    assert {row["key"]: (row["value"], row["meaning"]) for row in rows} == expected


@pytest.mark.core
def test_python_and_sql_suggest_the_same_setting(spark: SparkSession) -> None:
    for name in ("giveUp", "fpp", "path", "late", "tokp.enabled", "topk.max", "join", "colour"):
        with pytest.raises(sdf.UnknownSetting) as caught:
            sdf.conf(spark).get(name)
        with pytest.raises(Exception, match="no such setting") as refused:
            spark.sql(f"SET spark.dynamicFilters.{name}=1").collect()
        assert str(caught.value) in str(refused.value)


@pytest.mark.core
@pytest.mark.parametrize(("name", "value"), BAD_VALUES.items())
def test_bad_values_are_refused(spark: SparkSession, name: str, value: object) -> None:
    key = f"spark.dynamicFilters.{name}"
    before = spark.conf.get(key)
    for refused in (
        lambda: spark.sql(f"SET {key}={value}").collect(),
        lambda: spark.conf.set(key, str(value)),
        lambda: sdf.conf(spark).set(name, value),
    ):
        with pytest.raises(Exception, match=rf"{key}: cannot be '.*'; it takes"):
            refused()
    assert spark.conf.get(key) == before


def test_sql_and_conf_see_the_same(spark: SparkSession) -> None:
    conf = sdf.conf(spark)
    spark.sql("SET spark.dynamicFilters.topk.maxLimit=77").collect()
    assert conf.topk.maxLimit == 77
    conf.topk.maxLimit = 78
    assert spark.sql("SET spark.dynamicFilters.topk.maxLimit").collect()[0]["value"] == "78"
    spark.sql("RESET spark.dynamicFilters.topk.maxLimit").collect()
    assert conf.topk.maxLimit == 100_000


def test_override_restores(spark: SparkSession) -> None:
    conf = sdf.conf(spark)
    conf.topk.maxLimit = 9
    with conf.override(enabled=False, **{"topk.maxLimit": 5, "join.waitTimeout": "1s"}):
        assert (conf.enabled, conf.topk.maxLimit, conf.join.waitTimeout) == (False, 5, "1s")
        with conf.override(enabled=True):
            assert conf.enabled is True
        assert conf.enabled is False
    # `bloom.fpp` was not set before. The value is refused, and nothing stays changed.
    with pytest.raises(ValueError, match=r"bloom\.fpp"), conf.override(enabled=False, **{"bloom.fpp": 7}):
        pass
    assert (conf.enabled, conf.topk.maxLimit, conf.join.waitTimeout) == (True, 9, "10s")
    assert "spark.dynamicFilters.enabled" not in spark.conf.getAll
    del conf.topk.maxLimit
    assert conf.topk.maxLimit == 100_000
