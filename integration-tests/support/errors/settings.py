"""Settings, in SQL, by `spark.conf` and by `sdf.conf`."""

from __future__ import annotations

import spark_dynamic_filters as sdf

from .actions import LONG, Case, K, set_, sql, with_

CASES: dict[str, Case] = {
    "SET of an unknown key": (
        sql(f"SET {K}topk.maxLimits=5"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilters.topk.maxLimits: no such "
        "setting; did you mean spark.dynamicFilters.topk.maxLimit? SQLSTATE: 22023",
    ),
    "SET in another case": (
        sql("SET spark.dynamicfilters.enabled=false"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicfilters.enabled: no such setting; did "
        "you mean spark.dynamicFilters.enabled? SQLSTATE: 22023",
    ),
    "SET below another prefix": (
        sql("SET spark.dynamicFilter.join.enabled=false"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilter.join.enabled: no such setting; "
        "did you mean spark.dynamicFilters.join.enabled? SQLSTATE: 22023",
    ),
    "SET of nothing like a setting": (
        sql(f"SET {K}colour=red"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilters.colour: no such setting; SET "
        "-v lists the settings. SQLSTATE: 22023",
    ),
    "SET of a long key": (
        sql(f"SET {K}{LONG}=1"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilters."
        + "x" * 78
        + "…: no such setting; SET -v lists the settings. SQLSTATE: 22023",
    ),
    "SET of a word for a boolean": (
        sql(f"SET {K}enabled=maybe"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.enabled: cannot be 'maybe'; it "
        "takes true or false. SQLSTATE: 22023",
    ),
    "SET of a negative number": (
        sql(f"SET {K}topk.maxLimit=-1"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.topk.maxLimit: cannot be '-1'; "
        "it takes a whole number from 0 to 2147483647. SQLSTATE: 22023",
    ),
    "conf.set of a number too large": (
        set_(f"{K}topk.maxLimit", "3000000000"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.topk.maxLimit: cannot be "
        "'3000000000'; it takes a whole number from 0 to 2147483647. SQLSTATE: 22023",
    ),
    "conf.set of no time": (
        set_(f"{K}join.waitTimeout", "soon"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.join.waitTimeout: cannot be "
        "'soon'; it takes a time such as '10s' or '500ms'; '0s' is none. SQLSTATE: 22023",
    ),
    "conf.set of no size": (
        set_(f"{K}maxFilterBytes", "big"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.maxFilterBytes: cannot be "
        "'big'; it takes a size such as '8m' or '512k', or a number of bytes; at least 1 "
        "byte. SQLSTATE: 22023",
    ),
    "conf.set of no rate": (
        set_(f"{K}bloom.fpp", "0"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.bloom.fpp: cannot be '0'; it "
        "takes a number between 0 and 1, both exclusive. SQLSTATE: 22023",
    ),
    "conf.set of no share": (
        set_(f"{K}selectivity.giveUp", "1.5"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.selectivity.giveUp: cannot be "
        "'1.5'; it takes a number from 0 to 1. SQLSTATE: 22023",
    ),
    "conf.set of a long value": (
        set_(f"{K}enabled", LONG),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.enabled: cannot be '"
        + "x" * 59
        + "…'; it takes true or false. SQLSTATE: 22023",
    ),
    "sdf.conf: unknown": (
        lambda s, f, t: sdf.conf(s).get("topk.maxLimits"),
        sdf.UnknownSetting,
        "spark.dynamicFilters.topk.maxLimits: no such setting; did you mean "
        "spark.dynamicFilters.topk.maxLimit?",
    ),
    "sdf.conf: attribute": (
        lambda s, f, t: setattr(sdf.conf(s).join, "waitTimout", "1s"),
        sdf.UnknownSetting,
        "spark.dynamicFilters.join.waitTimout: no such setting; did you mean "
        "spark.dynamicFilters.join.waitTimeout?",
    ),
    "sdf.conf: nothing like it": (
        lambda s, f, t: sdf.conf(s).colour,
        sdf.UnknownSetting,
        "spark.dynamicFilters.colour: no such setting; SET -v lists the settings",
    ),
    "SET of a group": (
        sql(f"SET {K}join=true"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilters.join: no such setting but a group "
        "of them: set one, as spark.dynamicFilters.join.enabled. SQLSTATE: 22023",
    ),
    "SET of the prefix": (
        sql(f"SET {K[:-1]}=true"),
        None,
        "[DYNAMIC_FILTER_UNKNOWN_SETTING] spark.dynamicFilters: no such setting but a group "
        "of them: set one, as spark.dynamicFilters.enabled. SQLSTATE: 22023",
    ),
    "sdf.conf: no name": (
        lambda s, f, t: sdf.conf(s).get(None),
        sdf.InvalidArgument,
        "conf: the name of a setting is a string, got NoneType",
    ),
    "sdf.conf: a group": (
        lambda s, f, t: setattr(sdf.conf(s), "topk", True),
        sdf.UnknownSetting,
        "spark.dynamicFilters.topk: no such setting but a group of them: set one, as "
        "spark.dynamicFilters.topk.enabled",
    ),
    "sdf.conf: bad value": (
        lambda s, f, t: sdf.conf(s).set("topk.maxLimit", -1),
        ValueError,
        "spark.dynamicFilters.topk.maxLimit: cannot be '-1'; it takes a whole number from 0 to 2147483647",
    ),
    "sdf.conf: bad text": (
        lambda s, f, t: sdf.conf(s).set("enabled", "maybe"),
        ValueError,
        "spark.dynamicFilters.enabled: cannot be 'maybe'; it takes true or false",
    ),
    "sdf.conf: long value": (
        lambda s, f, t: sdf.conf(s).set("enabled", LONG),
        ValueError,
        "spark.dynamicFilters.enabled: cannot be '" + "x" * 59 + "…'; it takes true or false",
    ),
    "sdf.conf: override": (
        with_(lambda s: sdf.conf(s).override(join_waitTimeout="1s")),
        sdf.UnknownSetting,
        "spark.dynamicFilters.join_waitTimeout: no such setting; did you mean "
        'spark.dynamicFilters.join.waitTimeout? Write override(**{"join.waitTimeout": ...})',
    ),
}
