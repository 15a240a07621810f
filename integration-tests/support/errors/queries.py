"""SQL functions, hints, and what tests use."""

from __future__ import annotations

from spark_dynamic_filters.testing import assert_same_result, faults

from .actions import LONG, Case, K, sql, where, with_

CASES: dict[str, Case] = {
    "SQL: unknown filter": (
        where("dynamic_filter('nobody', seq)"),
        None,
        "[DYNAMIC_FILTER_NOT_FOUND] filter 'nobody' is unknown in this session; names belong "
        "to the session that created them. SQLSTATE: 42704",
    ),
    "SQL: long name": (
        where(f"dynamic_filter('{LONG}', seq)"),
        None,
        "[DYNAMIC_FILTER_NOT_FOUND] filter '"
        + "x" * 59
        + "…' is unknown in this session; names belong to the session that created them. SQLSTATE: 42704",
    ),
    "SQL: column of another type": (
        where("dynamic_filter('wanted', c_date)"),
        None,
        "[DYNAMIC_FILTER_TYPE_MISMATCH] filter 'wanted' of type bigint: t.c_date is of type "
        "date. SQLSTATE: 42804",
    ),
    "SQL: long expression": (
        where(f"dynamic_filter('wanted', concat(c_string, '{LONG}'))"),
        None,
        "[DYNAMIC_FILTER_TYPE_MISMATCH] filter 'wanted' of type bigint: concat(t.c_string, '"
        + "x" * 39
        + "… is of type string. SQLSTATE: 42804",
    ),
    "SQL: one argument": (
        where("dynamic_filter('wanted')"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] dynamic_filter takes a filter's name and a column, "
        "dynamic_filter('name', column); given: 1. SQLSTATE: 42601",
    ),
    "SQL: three arguments": (
        where("dynamic_filter_prune('wanted', seq, 1)"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] dynamic_filter_prune takes a filter's name and a "
        "column, dynamic_filter_prune('name', column); given: 3. SQLSTATE: 42601",
    ),
    "SQL: no name": (
        where("dynamic_filter(seq, seq)"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] dynamic_filter takes a filter's name first, not t.seq. SQLSTATE: 42601",
    ),
    "SQL: NOT prune": (
        where("NOT dynamic_filter_prune('wanted', seq)"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] filter 'wanted' of type bigint: dynamic_filter_prune "
        "may let rows pass that do not match, so it can only be a condition of WHERE or of an "
        "inner join, alone or joined by AND; dynamic_filter can stand anywhere. SQLSTATE: "
        "42601",
    ),
    "SQL: filters with an argument": (
        sql("SELECT * FROM dynamic_filters(1)"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] dynamic_filters takes no arguments, 1 given. SQLSTATE: 42601",
    ),
    "SQL: report of no tag": (
        sql("SELECT * FROM dynamic_filter_report()"),
        None,
        "[DYNAMIC_FILTER_INVALID_USE] dynamic_filter_report takes one argument, the text of a "
        "query's tag. SQLSTATE: 42601",
    ),
    "hint: a number": (
        sql("SELECT /*+ DYNAMIC_FILTER(5) */ * FROM {t}"),
        None,
        "[DYNAMIC_FILTER_HINT_PARAMETER] The hint DYNAMIC_FILTER takes names of tables or "
        "aliases, as identifiers or strings, but was given 5. SQLSTATE: 42601",
    ),
    "hint: an expression": (
        sql(f"SELECT /*+ NO_DYNAMIC_FILTER(concat('{LONG}', 'y')) */ * FROM {{t}}"),
        None,
        "[DYNAMIC_FILTER_HINT_PARAMETER] The hint NO_DYNAMIC_FILTER takes names of tables or aliases, "
        "as identifiers or strings, but was given concat('" + "x" * 51 + "…. SQLSTATE: 42601",
    ),
    "df.hint: a number": (
        lambda s, f, t: s.table(t).hint("dynamic_filter", 5).collect(),
        None,
        "[DYNAMIC_FILTER_HINT_PARAMETER] The hint DYNAMIC_FILTER takes names of tables or "
        "aliases, as identifiers or strings, but was given 5. SQLSTATE: 42601",
    ),
    "faults: share": (
        with_(lambda s: faults(s, lost=2)),
        ValueError,
        "faults: lost cannot be 2; it takes a share from 0 to 1",
    ),
    "faults: sum": (
        with_(lambda s: faults(s, lost=0.9, late=0.9)),
        ValueError,
        "faults: lost, late, duplicated, reordered and undecodable are shares of the same "
        "updates; together they are above 1",
    ),
    "faults: executors": (
        with_(lambda s: faults(s, killed_executors=1)),
        ValueError,
        "faults: killed_executors: with master local[2, 4] there are no executors but the "
        "driver; use local-cluster or a cluster",
    ),
    "faults: shuffle files": (
        with_(lambda s: faults(s, fetch_failures=1)),
        ValueError,
        "faults: fetch_failures: with master local[2, 4] Spark does not recover from them: it "
        "keeps the broadcasts of all later queries; use local-cluster or a cluster",
    ),
    "SET of an unknown fault": (
        sql(f"SET {K}testing.faults.spec=burnt=1"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.testing.faults.spec: there is "
        "no fault burnt; there are seed, lost, late, duplicated, reordered, undecodable, "
        "delayMillis, failingTasks, slowTasks, slowMillis, killedExecutors, killBest, "
        "fetchFailures, coordinatorMillis, trace. SQLSTATE: 22023",
    ),
    "SET of no fault": (
        sql(f"SET {K}testing.faults.spec={LONG}"),
        None,
        "[DYNAMIC_FILTER_INVALID_SETTING] spark.dynamicFilters.testing.faults.spec: "
        + "x" * 19
        + "… is not of the form key=value. SQLSTATE: 22023",
    ),
    "assert_same_result: keys": (
        lambda s, f, t: assert_same_result(s, f"SELECT * FROM {t} ORDER BY seq LIMIT 3", keys=["SEQ"]),
        ValueError,
        "assert_same_result: keys SEQ: no such column in the result; it has id, seq, grp, "
        "c_boolean, c_tinyint, c_smallint, c_int, c_bigint, c_decimal_int, c_decimal_long, "
        "c_decimal_big, c_float,…",
    ),
}
