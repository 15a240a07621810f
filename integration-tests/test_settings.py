"""The settings, through the conf object and through SQL: the same checks in every kind of session."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters._settings import SETTINGS, find

pytestmark = pytest.mark.client

#: A setting and a value that it refuses, as text or as Python has it.
BAD_VALUES: list[tuple[str, object]] = [
    ("enabled", "maybe"),
    ("enabled", 1),
    ("enabled", "x" * 1000),
    ("topk.enabled", "2"),
    ("topk.maxLimit", "-1"),
    ("topk.maxLimit", "3000000000"),
    ("topk.maxLimit", 1.5),
    ("join.waitTimeout", "soon"),
    ("join.waitTimeout", 5),
    ("join.maxBuildRows", "0"),
    ("maxFilterBytes", "big"),
    ("maxFilterBytes", [8]),
    ("in.maxValues", True),
    ("bloom.fpp", "0"),
    ("bloom.fpp", "1.0"),
    ("selectivity.giveUp", "1.5"),
    ("selectivity.giveUp", None),
    ("report.retainedQueries", "0"),
]


@pytest.mark.core
def test_sql_lists_the_settings(spark: SparkSession, spark_config: dict[str, str]) -> None:
    rows = spark.sql("SET -v").where("key LIKE 'spark.dynamicFilters.%'").collect()
    # The tests' own application sets a few.
    expected = {s.key: (spark_config.get(s.key, s.default), s.meaning) for s in SETTINGS}
    assert {row["key"]: (row["value"], row["meaning"]) for row in rows} == expected
    conf = sdf.conf(spark)
    for setting in SETTINGS:
        assert conf.get(setting.name) == setting.decode(expected[setting.key][0]), setting


@pytest.mark.core
def test_python_and_sql_suggest_the_same_setting(spark: SparkSession) -> None:
    for name in ("giveUp", "fpp", "path", "late", "tokp.enabled", "topk.max", "join", "colour"):
        with pytest.raises(sdf.UnknownSetting) as caught:
            sdf.conf(spark).get(name)
        with pytest.raises(Exception, match="no such setting") as refused:
            spark.sql(f"SET spark.dynamicFilters.{name}=1").collect()
        assert str(caught.value) in str(refused.value)


@pytest.mark.core
@pytest.mark.parametrize(("name", "value"), BAD_VALUES, ids=lambda value: str(value)[:30])
def test_bad_values_are_refused(spark: SparkSession, name: str, value: object) -> None:
    """The texts as a whole are in support/errors.py."""
    setting = find(name)
    before = spark.conf.get(setting.key)
    for refused in (
        lambda: spark.sql(f"SET {setting.key}={value}").collect(),
        lambda: spark.conf.set(setting.key, str(value)),
        lambda: sdf.conf(spark).set(name, value),
    ):
        with pytest.raises(Exception, match=rf"{setting.key}: cannot be '.*'; it takes ") as caught:
            refused()
        assert f"'; it takes {setting.takes}" in str(caught.value)
    assert spark.conf.get(setting.key) == before


def test_sql_and_conf_see_the_same(spark: SparkSession) -> None:
    conf = sdf.conf(spark)
    spark.sql("SET spark.dynamicFilters.topk.maxLimit=77").collect()
    assert conf.topk.maxLimit == 77
    conf.topk.maxLimit = 78
    assert spark.sql("SET spark.dynamicFilters.topk.maxLimit").collect()[0]["value"] == "78"
    spark.sql("RESET spark.dynamicFilters.topk.maxLimit").collect()
    assert conf.topk.maxLimit == 100_000
