"""Settings, in SQL, by `spark.conf` and by `sdf.conf`."""

from __future__ import annotations

import spark_dynamic_filters as sdf

from .actions import LONG, Case, K, set_, sql

#: What SET is given, and what the error says of it.
UNKNOWN = {
    "SET of an unknown key": (
        f"{K}topk.maxLimits=5",
        f"{K}topk.maxLimits: no such setting; did you mean {K}topk.maxLimit?",
    ),
    "SET in another case": (
        "spark.dynamicfilters.enabled=false",
        f"spark.dynamicfilters.enabled: no such setting; did you mean {K}enabled?",
    ),
    "SET below another prefix": (
        "spark.dynamicFilter.join.enabled=false",
        f"spark.dynamicFilter.join.enabled: no such setting; did you mean {K}join.enabled?",
    ),
    "SET of nothing like a setting": (
        f"{K}colour=red",
        f"{K}colour: no such setting; SET -v lists the settings.",
    ),
    "SET of a long key": (
        f"{K}{LONG}=1",
        f"{K}{'x' * 78}…: no such setting; SET -v lists the settings.",
    ),
    "SET of a group": (
        f"{K}join=true",
        f"{K}join: no such setting but a group of them: set one, as {K}join.enabled.",
    ),
    "SET of the prefix": (
        f"{K[:-1]}=true",
        f"{K[:-1]}: no such setting but a group of them: set one, as {K}enabled.",
    ),
}
TIMES = "a time with its unit, such as '10s' or '500ms'; '0s' is none"
LIMITS = "a whole number from 0 to 2147483647"
#: By case: a setting, a value that it refuses, and the valid values as the error names them.
INVALID = {
    "of a word for a boolean": ("enabled", "maybe", "true or false"),
    "of a negative number": ("topk.maxLimit", "-1", LIMITS),
    "of a number too large": ("topk.maxLimit", "3000000000", LIMITS),
    "of no time": ("join.waitTimeout", "soon", TIMES),
    "of a time without a unit": ("join.waitTimeout", "5", TIMES),
    "of no size": (
        "maxFilterBytes",
        "big",
        "a size such as '8m' or '512k', or a number of bytes; at least 1 byte",
    ),
    "of no rate": ("bloom.fpp", "0", "a number between 0 and 1, both exclusive"),
    "of no share": ("selectivity.giveUp", "1.5", "a number from 0 to 1"),
    "of a long value": ("enabled", LONG, "true or false"),
}


def _invalid(key: str, value: str, takes: str) -> str:
    shown = value if len(value) < 60 else "x" * 59 + "…"
    return (
        f"[DYNAMIC_FILTER_INVALID_SETTING] {K}{key}: cannot be '{shown}'; it takes {takes}. SQLSTATE: 22023"
    )


CASES: dict[str, Case] = {
    **{
        name: (sql(f"SET {text}"), None, f"[DYNAMIC_FILTER_UNKNOWN_SETTING] {words} SQLSTATE: 22023")
        for name, (text, words) in UNKNOWN.items()
    },
    **{
        f"conf.set {name}": (set_(f"{K}{key}", value), None, _invalid(key, value, takes))
        for name, (key, value, takes) in INVALID.items()
    },
    "SET of a negative number": (
        sql(f"SET {K}topk.maxLimit=-1"),
        None,
        _invalid("topk.maxLimit", "-1", LIMITS),
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
}
