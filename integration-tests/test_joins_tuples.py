"""Joins by several keys: rows are skipped whose tuple of keys the build side has not, where each key alone
has a match.

In each row group of the probe every key has every value, so that the filters of single keys skip nothing:
what is skipped is skipped by tuples.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spark_dynamic_filters as sdf
from support import joins, tables
from support.joins import Comparer, Run

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

STRATEGIES = {"broadcast": joins.BROADCAST, "shuffled": joins.SHUFFLED}
VALUES = 100

# A value of each type for the numbers from 0 to 99.
KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "tinyint": (pa.int8(), lambda n: n),
    "int": (pa.int32(), lambda n: n),
    "bigint": (pa.int64(), lambda n: n),
    "decimal": (pa.decimal128(7, 2), lambda n: Decimal(n).scaleb(-2)),
    "wide_decimal": (pa.decimal128(12, 4), lambda n: Decimal(n).scaleb(-2)),
    "big_decimal": (pa.decimal128(30, 6), lambda n: Decimal(n * 10**18)),
    "double": (pa.float64(), lambda n: float("nan") if n == 7 else -0.0 if n == 8 else 1 + n / 4),
    "string": (pa.string(), lambda n: f"key {n}"),
    "binary": (pa.binary(), lambda n: b"\x00\xff" * n),
    "date": (pa.date32(), lambda n: dt.date(2020, 1, 1) + dt.timedelta(days=n)),
    "timestamp": (pa.timestamp("us", tz="UTC"), lambda n: dt.datetime(2020, 1, 1) + dt.timedelta(hours=n)),
}

Pair = tuple[int | None, int | None]

# Each row group has pairs (n, n + its number) for all n; these are none of them, but have all values.
ELSEWHERE: list[Pair] = [(n, (n + 50) % VALUES) for n in range(VALUES)]
# Neighbouring rows of row group 3.
HITS: list[Pair] = [(6, 9), (7, 10), (8, 11)]
MATCHING = len(HITS) * tables.ROW_GROUP_ROWS // VALUES


# Of rows with nulls, each in one row group only.
HITS_WITH_NULLS: list[Pair] = [(6, None), (None, 10), (None, None)]


def _probe() -> list[Pair]:
    """Every second row group has nulls, each beside a value that it has in no other row group."""
    pairs: list[Pair] = []
    for i in range(tables.ROWS):
        group, n = divmod(i, tables.ROW_GROUP_ROWS)
        x, y = n % VALUES, (n + group) % VALUES
        no_x = (group % 2 and n % 50 == group) or (group == 5 and n % 50 == 7)
        no_y = (group % 2 and n % 50 == group + 1) or (group == 5 and n % 50 == 7)
        pairs.append((None if no_x else x, None if no_y else y))
    return pairs


def _columns(pairs: Iterable[Pair], x: str, y: str) -> dict[str, pa.Array]:
    """Both numbers of the pairs in every type, as `<x>_<type>` and `<y>_<type>`.

    Where the probe has -0.0 the build side has 0.0.
    """
    rows = list(pairs)

    def of(n: int | None, kind: str, name: str) -> Any:
        value = None if n is None else KINDS[kind][1](n)
        return value + 0.0 if kind == "double" and name in "uv" and n is not None else value

    return {
        f"{name}_{kind}": pa.array([of(p[side], kind, name) for p in rows], type_)
        for side, name in enumerate((x, y))
        for kind, (type_, _) in KINDS.items()
    }


def _view(spark: SparkSession, folder: Path, name: str, pairs: list[Pair], x: str = "u", y: str = "v") -> str:
    extra = {"id": pa.array(range(len(pairs)), pa.int64())}
    if len(pairs) >= tables.ROWS:
        extra["payload"] = pa.array(
            [format(i * 7919, "x").rjust(60, "abc"[i % 3]) for i in range(len(pairs))]
        )
        options = {"max_rows_per_page": 20, "write_batch_size": 20, "data_page_size": 128}
    else:
        options = {}
    return joins.view(spark, folder, name, pa.table(_columns(pairs, x, y) | extra), **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuples")


@pytest.fixture(scope="module")
def compare(spark: SparkSession, folder: Path) -> Comparer:
    _view(spark, folder, "p", _probe(), "x", "y")
    _view(spark, folder, "q", _probe(), "m", "n")
    _view(spark, folder, "b", [*ELSEWHERE, *HITS, *HITS_WITH_NULLS])
    _view(spark, folder, "nothing", [])
    _view(spark, folder, "half_null", [(n, None) for n in range(50)] + [(None, n) for n in range(50)])
    _view(spark, folder, "every", [(x, y) for x in (6, 7) for y in (9, 10)])
    return Comparer(spark)


def _tuples(run: Run, *columns: str) -> list[Row]:
    """The filters of tuples of these columns, in whatever order."""
    return [f for f in run.filters if sorted(f["columns"] or []) == sorted(columns)]


def assert_by_tuples(run: Run, *columns: str, form: str = "in", rows: int = tables.ROWS) -> None:
    """The filter of tuples was ready, and skipped almost all rows."""
    ready = [f for f in _tuples(run, *columns) if f["state"] == "ready" and f["generation"] > 0]
    assert ready, f"no filter of tuples of {columns} was ready:\n{run}"
    assert {f["form"] for f in ready} == {form}, str(run)
    ids = {f["filter_id"] for f in ready}
    scans = [s for s in run.scans if ids & set(s["filter_ids"])]
    assert scans, str(run)
    for scan in scans:
        assert scan["rows_pruned"] >= rows - 2 * tables.ROW_GROUP_ROWS, f"few rows were skipped:\n{run}"


def assert_no_tuples(run: Run, *words: str, columns: tuple[str, ...] = ()) -> None:
    """There is no filter of tuples, for a reason with these words."""
    several = [f for f in run.filters if len(f["columns"] or []) > 1]
    assert not any(f["generation"] for f in several), str(run)
    reasons = [f["reason"] or "" for f in (_tuples(run, *columns) if columns else several)]
    assert any(all(w in reason for w in words) for reason in reasons), f"reasons are {reasons}\n{run}"


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("adaptive", joins.ADAPTIVE)
def test_two_numbers(compare: Comparer, strategy: str, adaptive: str) -> None:
    query = "SELECT p.id, b.id, p.payload FROM p JOIN b ON p.x_int = b.u_int AND p.y_int = b.v_int"
    settings = (STRATEGIES[strategy], joins.ADAPTIVE[adaptive])
    result = compare(query, *settings)
    assert len(result.off.rows) == MATCHING
    if strategy == "shuffled" and adaptive == "off":
        return  # The filter comes when it comes.
    assert_by_tuples(result.on, "x_int", "y_int")
    for column in ("x_int", "y_int"):
        single = [f for f in result.on.on_column(column) if len(f["columns"]) == 1]
        assert [f["form"] for f in single] == ["range"], "the keys alone were to leave nothing out"


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ("int", "string"),
        ("string", "bigint"),
        ("decimal", "date"),
        ("double", "binary"),
        ("big_decimal", "double"),
        ("tinyint", "timestamp"),
        ("wide_decimal", "string"),
    ],
)
def test_types(compare: Comparer, x: str, y: str, strategy: str) -> None:
    query = f"SELECT p.id, p.payload, b.id FROM p JOIN b ON p.x_{x} = b.u_{x} AND p.y_{y} = b.v_{y}"
    result = compare(query, STRATEGIES[strategy])
    assert len(result.off.rows) == MATCHING
    assert_by_tuples(result.on, f"x_{x}", f"y_{y}")


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_integers_of_two_widths(compare: Comparer, strategy: str) -> None:
    for x, u, y, v in (
        ("int", "bigint", "bigint", "int"),
        ("tinyint", "int", "string", "string"),
        ("bigint", "tinyint", "int", "bigint"),
    ):
        query = f"SELECT p.id, p.payload, b.id FROM p JOIN b ON p.x_{x} = b.u_{u} AND p.y_{y} = b.v_{v}"
        result = compare(query, STRATEGIES[strategy])
        assert len(result.off.rows) == MATCHING
        assert_by_tuples(result.on, f"x_{x}", f"y_{y}")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_three_keys(compare: Comparer, strategy: str) -> None:
    query = (
        "SELECT p.id, p.payload FROM p JOIN b "
        "ON p.x_int = b.u_int AND p.y_string = b.v_string AND p.y_date = b.v_date"
    )
    result = compare(query, STRATEGIES[strategy])
    assert len(result.off.rows) == MATCHING
    assert_by_tuples(result.on, "x_int", "y_string", "y_date")


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("first", "second"), [("=", "<=>"), ("<=>", "="), ("<=>", "<=>")])
def test_nulls_as_values(compare: Comparer, first: str, second: str, strategy: str) -> None:
    for x, y in (("int", "int"), ("string", "date")):
        query = (
            f"SELECT p.id, p.payload, b.id FROM p JOIN b "
            f"ON p.x_{x} {first} b.u_{x} AND p.y_{y} {second} b.v_{y}"
        )
        result = compare(query, STRATEGIES[strategy])
        assert len(result.off.rows) > MATCHING, "no null has a match"
        assert_by_tuples(result.on, f"x_{x}", f"y_{y}")


def test_tuples_that_are_null_match_nothing(compare: Comparer) -> None:
    for settings in STRATEGIES.values():
        query = "SELECT p.id FROM p JOIN half_null b ON p.x_int = b.u_int AND p.y_int = b.v_int"
        result = compare(query, settings)
        assert not result.off.rows
        joins.assert_never_read(result.on, "x_int")


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_empty_build_side(compare: Comparer, strategy: str) -> None:
    query = "SELECT p.id FROM p JOIN nothing b ON p.x_int = b.u_int AND p.y_string = b.v_string"
    result = compare(query, STRATEGIES[strategy])
    joins.assert_never_read(result.on, "x_int", "y_string")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_tuples_are_a_bloom_filter(compare: Comparer, strategy: str) -> None:
    query = "SELECT p.id, p.payload FROM p JOIN b ON p.x_int = b.u_int AND p.y_int = b.v_int"
    few = {"spark.dynamicFilters.in.maxValues": "20", "spark.dynamicFilters.bloom.fpp": "0.0001"}
    result = compare(query, STRATEGIES[strategy], few)
    assert_by_tuples(result.on, "x_int", "y_int", form="bloom")


# Joins whose probe side may lose rows without a match.
FILTERED = {
    "semi": "SELECT p.id, p.payload FROM p LEFT SEMI JOIN b ON {on}",
    "in": "SELECT p.id, p.payload FROM p WHERE (x_int, y_string) IN (SELECT u_int, v_string FROM b)",
    "exists": "SELECT p.id, p.payload FROM p WHERE EXISTS (SELECT 1 FROM b WHERE {on})",
    "right_of_left_outer": "SELECT b.id, p.payload FROM b LEFT JOIN p ON {on}",
    "left_of_right_outer": "SELECT b.id, p.payload FROM p RIGHT JOIN b ON {on}",
    "right_of_anti": "SELECT b.id FROM b LEFT ANTI JOIN p ON {on} AND p.payload <> 'z'",
    "with_condition": "SELECT p.id, b.id FROM p JOIN b ON {on} AND length(p.payload) > b.id % 3",
}

# Joins that need every row of the larger side, and words of the reason.
NOT_FILTERED = {
    "left_outer": ("SELECT p.id, b.id FROM p LEFT JOIN b ON {on}", "needs every row"),
    "anti": ("SELECT p.id FROM p LEFT ANTI JOIN b ON {on}", "needs every row"),
    "full_outer": ("SELECT p.id, b.id FROM p FULL JOIN b ON {on}", "needs every row"),
}

_ON = "p.x_int = b.u_int AND p.y_string = b.v_string"


@pytest.mark.core
@pytest.mark.parametrize("kind", FILTERED)
def test_kinds_of_joins(compare: Comparer, kind: str) -> None:
    result = compare(FILTERED[kind].format(on=_ON), joins.SHUFFLED)
    assert_by_tuples(result.on, "x_int", "y_string")


@pytest.mark.core
@pytest.mark.parametrize("kind", NOT_FILTERED)
def test_kinds_of_joins_that_need_every_row(compare: Comparer, kind: str) -> None:
    query, reason = NOT_FILTERED[kind]
    for settings in STRATEGIES.values():
        run = compare(query.format(on=_ON), settings).on
        joins.assert_not_pruned(run, "x_int", "y_string")
        assert not _tuples(run, "x_int", "y_string"), str(run)
        if kind == "full_outer" or settings is joins.BROADCAST:
            joins.assert_reason(run, reason)


def test_null_aware_anti_join(compare: Comparer) -> None:
    query = "SELECT p.id FROM p WHERE (x_int, y_string) NOT IN (SELECT u_int, v_string FROM b)"
    for settings in STRATEGIES.values():
        run = compare(query, settings).on
        joins.assert_not_pruned(run, "x_int", "y_string")


# Queries through whose operators both keys pass together.
PASSES = {
    "projection": "SELECT s.i, b.id FROM (SELECT x_int AS k, y_string AS l, id + 1 AS i, payload FROM p) s "
    "JOIN b ON s.k = b.u_int AND s.l = b.v_string",
    "aggregate": "SELECT s.*, b.id FROM (SELECT x_int, y_string, max(payload) FROM p GROUP BY 2, 1) s "
    "JOIN b ON s.x_int = b.u_int AND s.y_string = b.v_string",
    "window": "SELECT s.*, b.id FROM (SELECT x_int, y_string, count(payload) OVER (PARTITION BY x_int, "
    "y_string) FROM p) s JOIN b ON s.x_int = b.u_int AND s.y_string = b.v_string",
    "computed_build": "SELECT p.id, p.payload FROM p JOIN b ON p.x_int = b.u_int + 1 - 1 "
    "AND p.y_string = concat('key ', b.v_int)",
    "distinct_build": "SELECT p.id, p.payload FROM p JOIN (SELECT DISTINCT u_int, v_string FROM b) b "
    "ON p.x_int = b.u_int AND p.y_string = b.v_string",
}

# Queries with filters of single keys, but operators in the way of tuples: words of the reason.
STOPS = {
    "key_of_the_window_only": (
        "SELECT s.*, b.id FROM (SELECT x_int, y_string, count(payload) OVER (PARTITION BY x_int) FROM p) s "
        "JOIN b ON s.x_int = b.u_int AND s.y_string = b.v_string",
        "not partitioned by the key",
    ),
    "aggregate_of_one_key": (
        "SELECT s.*, b.id FROM (SELECT x_int, max(y_string) AS y_string FROM p GROUP BY x_int) s "
        "JOIN b ON s.x_int = b.u_int AND s.y_string = b.v_string",
        "does not group by the key",
    ),
    "decimals_of_two_scales": (
        "SELECT p.id, b.id FROM p JOIN b ON p.x_int = b.u_int AND p.y_decimal = b.v_wide_decimal",
        "is computed",
    ),
    "computed_key": (
        "SELECT p.id, b.id FROM p JOIN b ON p.x_int = b.u_int AND upper(p.y_string) = upper(b.v_string)",
        "is computed",
    ),
    "two_scans": (
        "SELECT p.id, q.id, b.id FROM p JOIN q ON p.id = q.id "
        "JOIN b ON p.x_int = b.u_int AND q.n_string = b.v_string",
        "both sides of a join",
    ),
    "nothing_to_gain": (
        "SELECT p.id, p.payload FROM p JOIN every b ON p.x_int = b.u_int AND p.y_string = b.v_string",
        "leave out as much",
    ),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", PASSES)
def test_passes(compare: Comparer, shape: str, strategy: str) -> None:
    result = compare(PASSES[shape], STRATEGIES[strategy])
    assert result.off.rows
    assert_by_tuples(result.on, "x_int", "y_string")


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", STOPS)
def test_stops(spark: SparkSession, compare: Comparer, shape: str, strategy: str) -> None:
    query, words = STOPS[shape]
    with sdf.conf(spark).override(**{"selectivity.giveUp": 0.6}):
        run = compare(query, STRATEGIES[strategy]).on
    assert_no_tuples(run, words)
    joins.assert_ready(run, "x_int")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_union(compare: Comparer, strategy: str) -> None:
    query = (
        "SELECT s.id, s.payload FROM (SELECT x_int AS k, y_string AS l, id, payload FROM p "
        "UNION ALL SELECT m_int, n_string, id, payload FROM q) s JOIN b ON s.k = b.u_int AND s.l = b.v_string"
    )
    result = compare(query, STRATEGIES[strategy])
    assert len(result.off.rows) == 2 * MATCHING
    columns = ("x_int", "y_string", "m_int", "n_string")
    assert_by_tuples(result.on, *columns)
    assert {f["expression"] for f in _tuples(result.on, *columns)} == {"(x_int, y_string) IN (103 tuples)"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_through_the_equal_keys_of_a_lower_join(compare: Comparer, strategy: str) -> None:
    query = (
        "SELECT p.id, q.payload, b.id FROM p JOIN q ON p.x_int = q.m_int AND p.y_string = q.n_string "
        "AND p.id = q.id JOIN b ON p.x_int = b.u_int AND p.y_string = b.v_string"
    )
    result = compare(query, STRATEGIES[strategy])
    assert len(result.off.rows) == MATCHING
    assert any(f["generation"] for f in result.on.filters if len(f["columns"]) > 1), str(result.on)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_build_side_that_is_reused(compare: Comparer, strategy: str) -> None:
    query = (
        "SELECT p.id, p.payload, b.id AS i FROM p JOIN b ON p.x_int = b.u_int AND p.y_string = b.v_string "
        "UNION ALL "
        "SELECT q.id, q.payload, b.id FROM q JOIN b ON q.m_int = b.u_int AND q.n_string = b.v_string"
    )
    result = compare(query, STRATEGIES[strategy])
    assert len(result.off.rows) == 2 * MATCHING
    for scan in result.on.scans:
        assert scan["rows_pruned"] > tables.ROWS / 2, str(result.on)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_dataframe_again(spark: SparkSession, compare: Comparer, strategy: str) -> None:
    query = "SELECT p.id, p.payload FROM p JOIN b ON p.x_int = b.u_int AND p.y_string = b.v_string"
    with joins.settings(spark, STRATEGIES[strategy]):
        frame = spark.sql(query)
        first = sorted(frame.collect())
        assert len(first) == MATCHING
        assert sorted(frame.collect()) == first
        assert sorted(frame.where("length(payload) > 0").collect()) == first


def test_plans_show_tuples(spark: SparkSession, compare: Comparer) -> None:
    query = "SELECT p.id, p.payload FROM p JOIN b ON p.x_int = b.u_int AND p.y_string = b.v_string"
    with joins.settings(spark, joins.BROADCAST):
        plan = spark.sql("EXPLAIN " + query).collect()[0][0]
        assert "[(x_int, y_string): true]" in plan
        assert "[(u_int, v_string): true]" in plan
    run = compare(query, joins.BROADCAST).on
    tuples = len({*ELSEWHERE, *HITS})
    assert f"[(x_int, y_string): (x_int, y_string) IN ({tuples} tuples)]" in run.plan, run.plan
    (shown,) = _tuples(run, "x_int", "y_string")
    assert shown["expression"] == f"(x_int, y_string) IN ({tuples} tuples)"
    with joins.settings(spark, {"spark.dynamicFilters.report.showValues": "false"}):
        (hidden,) = _tuples(joins.run(spark, query), "x_int", "y_string")
        assert hidden["expression"] == "hidden"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_partition_column(spark: SparkSession, folder: Path, compare: Comparer, strategy: str) -> None:
    path = folder / f"parts_{strategy}"
    for part in (0, 1, None):
        below = path / f"part={'__HIVE_DEFAULT_PARTITION__' if part is None else part}"
        below.mkdir(parents=True)
        # Low and high values in row groups of their own, and the ends of both in each.
        rows = [y for block in range(10) for y in [0, 99, *(range(50) if block % 2 else range(50, 100))] * 4]
        table = pa.table({"y": pa.array(rows, pa.int32()), "payload": [f"{i:>60}" for i in range(len(rows))]})
        pq.write_table(table, below / "a.parquet", row_group_size=208, write_page_index=True)
    spark.read.parquet(str(path)).createOrReplaceTempView("parts")
    pairs: list[Pair] = [(n // 50, n) for n in range(1, 99)] + [(None, 3), (1, None)]
    _view(spark, path.with_name(f"parts_build_{strategy}"), "parts_build", pairs)
    query = "SELECT t.*, b.id FROM parts t JOIN parts_build b ON t.part {} b.u_int AND t.y = b.v_int"
    result = compare(query.format("="), STRATEGIES[strategy])
    assert result.off.rows
    ready = [f for f in _tuples(result.on, "part", "y") if f["generation"]]
    assert ready, str(result.on)
    assert any(s["row_groups_pruned"] > 0 for s in result.on.scans), str(result.on)
    assert compare(query.format("<=>"), STRATEGIES[strategy]).off.rows


def test_file_that_lacks_a_column(spark: SparkSession, folder: Path, compare: Comparer) -> None:
    path = folder / "lacking"
    path.mkdir()
    whole = pa.table(_columns(_probe()[:1000], "x", "y"))
    pq.write_table(whole.select(["x_int", "y_int", "y_string"]), path / "a.parquet", row_group_size=200)
    pq.write_table(whole.select(["x_int", "y_string"]), path / "b.parquet", row_group_size=200)
    frame = spark.read.option("mergeSchema", "true").parquet(str(path))
    frame.createOrReplaceTempView("lacking")
    for settings in STRATEGIES.values():
        for how in ("=", "<=>"):
            query = f"SELECT t.*, b.id FROM lacking t JOIN b ON t.x_int = b.u_int AND t.y_int {how} b.v_int"
            assert compare(query, settings).off.rows


def test_topk_over_tuples(compare: Comparer) -> None:
    query = (
        "SELECT p.id, p.payload FROM p JOIN b ON p.x_int = b.u_int AND p.y_string = b.v_string "
        "ORDER BY p.id DESC LIMIT 4"
    )
    for settings in STRATEGIES.values():
        assert len(compare(query, settings).off.rows) == 4
