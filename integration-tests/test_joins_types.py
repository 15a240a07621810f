"""Every type as the key of a join, and strings with their padding and collations: the rows are Spark's own,
and rows are skipped where the keys can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support import joins, tables
from support.joins import STRATEGIES, Comparer

# Spark normalizes keys of these types before it compares them.
FLOATS = ("c_float", "c_double")

NAN = float("nan")


def _some_keys(column: pa.ChunkedArray) -> list[Any]:
    """Up to 30 neighbouring values that `t` has, and a null."""
    values = sorted({v for v in column.to_pylist() if v is not None and v == v})
    start = len(values) // 3
    keys = values[start : start + 30] if len(values) > 2 else values[:1]
    return [*keys, None]


@pytest.fixture(scope="module")
def compare(spark: SparkSession, t: str, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    """Builds b_<column> with some keys of each column of `t`."""
    folder, table = tmp_path_factory.mktemp("types"), tables.all_types()
    for name, (kind, _) in tables.TYPES.items():
        _view(spark, folder, f"b_{name}", kind, _some_keys(table[name]))
    return Comparer(spark)


def _view(spark: SparkSession, folder: Path, name: str, kind: pa.DataType, values: list[Any]) -> None:
    joins.view(spark, folder, name, pa.table({"j": pa.array(values, kind)}))


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("column", [c for c in tables.TYPES if c not in FLOATS])
def test_each_type(compare: Comparer, column: str, strategy: str) -> None:
    # `JoinKeysSuite` has the keys of <=> for every type.
    how = ("=", "<=>")[list(tables.TYPES).index(column) % 2]
    query = f"SELECT t.id, b.j FROM t JOIN b_{column} b ON t.{column} {how} b.j"
    result = compare(query, STRATEGIES[strategy])
    assert result.off.rows, "the test's own data has no match"
    joins.assert_pruned(result.on, column)
    if how == "=":
        joins.assert_row_groups_pruned(result.on, column)


@pytest.mark.core
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("column", FLOATS)
def test_nan_and_signed_zeros(
    spark: SparkSession, tmp_path: Path, compare: Comparer, column: str, strategy: str
) -> None:
    # NaN equals NaN in a join but is left out of statistics; -0.0 equals 0.0 but has other bytes.
    kind, _ = tables.TYPES[column]
    blocks = [[NAN] * 200, [-0.0] * 200, [1.0, NAN] * 100, [-1.0, None] * 100, [0.0] * 200, [7.5] * 200]
    values = [v for block in blocks for v in block] * 4
    probe = pa.table({"id": pa.array(range(len(values))), "k": pa.array(values, kind)})
    joins.view(spark, tmp_path, "float_probe", probe)
    for name, few, how in (
        ("nan", [NAN], "="),
        ("minus_zero", [-0.0], "<=>"),
        ("one", [1.0], "="),
        ("all_or_null", [NAN, -0.0, 0.0, 7.5, None, math.inf, -math.inf], "<=>"),
    ):
        _view(spark, tmp_path, f"float_{name}", kind, few)
        query = f"SELECT p.id, b.j FROM float_probe p JOIN float_{name} b ON p.k {how} b.j"
        # No statistics say where NaN is: whether rows are skipped depends on what was measured.
        result = compare(query, STRATEGIES[strategy], fires=None if name == "nan" else True)
        assert result.off.rows
        if name == "one":
            joins.assert_pruned(result.on, "k")


# Joins of two types: the probe's column, the build key's type, and whether there is a filter. There is one if
# Spark casts the key of the build side, or that of the probe side by a cast that keeps the order.
OTHER_TYPES = {
    "date_and_timestamp_ntz": ("c_date", "TIMESTAMP_NTZ", True),
    "timestamp_ntz_and_timestamp": ("c_timestamp_ntz", "TIMESTAMP", False),
    "int_and_string": ("c_int", "STRING", True),
    "boolean_and_string": ("c_boolean", "STRING", True),
    "float_and_double": ("c_float", "DOUBLE", False),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case", OTHER_TYPES)
def test_casts_that_are_no_widening(compare: Comparer, case: str, strategy: str) -> None:
    column, other, fires = OTHER_TYPES[case]
    query = (
        f"SELECT t.id, b.j FROM t JOIN (SELECT CAST(j AS {other}) AS j FROM b_{column}) b ON t.{column} = b.j"
    )
    settings = STRATEGIES[strategy]
    result = compare(query, settings, expected=case, fires=fires)
    assert result.off.rows
    if not fires:
        joins.assert_reason(result.on, "is computed")


@pytest.mark.parametrize(("kind", "adaptive"), [(pa.int8(), "on"), (pa.int32(), "off")])
def test_key_that_is_widened_between_its_exchange_and_the_join(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType, adaptive: str
) -> None:
    """Spark exchanges the rows for the inner join and not again for the outer one, above whose cast they are
    collected: as the narrower type."""
    rows = range(tables.ROWS)
    joins.view(spark, tmp_path, "wide", pa.table({"k": [i // 10 - 200 for i in rows], "v": list(rows)}))
    joins.view(spark, tmp_path, "other", pa.table({"k": range(-100, 100), "w": range(200)}))
    narrow = pa.array([i % 40 - 20 for i in range(400)], kind)
    joins.view(spark, tmp_path, "narrow", pa.table({"x": narrow}))
    compare = Comparer(spark)
    settings = (joins.SHUFFLED, joins.FOREVER, joins.ADAPTIVE[adaptive])
    keys = "SELECT CAST(n.x AS BIGINT) AS k FROM narrow n JOIN other o ON n.x = o.k WHERE o.w < 150"
    for of in ("DISTINCT k", "k"):
        build = f"(SELECT {of} FROM ({keys}))"
        query = f"SELECT /*+ DYNAMIC_FILTER(f) */ f.k, f.v FROM wide f JOIN {build} q ON f.k = q.k"
        run = compare(query, *settings, fires=joins.in_time("shuffled", adaptive)).on
        assert min(row.k for row in run.rows) == -20
        if adaptive == "on":
            joins.assert_pruned(run, "k")


@pytest.mark.core
@pytest.mark.processes
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_filter_of_columns_of_two_types(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    """What one process has decoded for a column of INT is not used for one of BIGINT, which has more keys."""
    rows, large = range(20_000), 1 << 40
    of_int = pa.table({"a": pa.array(rows, pa.int32()), "v": list(rows)})
    of_bigint = pa.table({"b": [i if i % 2 else large + i for i in rows], "v": list(rows)})
    joins.view(spark, tmp_path, "of_int", of_int)
    joins.view(spark, tmp_path, "of_bigint", of_bigint)
    joins.view(spark, tmp_path, "of_both", of_bigint.append_column("a", of_int["a"]))
    keys = [*range(5_000, 5_100), *range(large + 5_000, large + 5_100)]
    joins.view(spark, tmp_path, "keys", pa.table({"k": keys, "n": [k % 10 for k in keys]}))
    build = "(SELECT k FROM keys WHERE n < 3) d"
    compare = Comparer(spark)
    for query in (
        f"SELECT 'int', v FROM of_int JOIN {build} ON a = d.k "
        f"UNION ALL SELECT 'bigint', v FROM of_bigint JOIN {build} ON b = d.k",
        f"SELECT v FROM of_both JOIN {build} ON a = d.k WHERE b IN (SELECT k FROM {build})",
    ):
        run = compare(query, STRATEGIES[strategy], joins.FOREVER).on
        joins.assert_row_groups_pruned(run, "b")


def test_strings_with_trailing_spaces_and_beyond_ascii(
    spark: SparkSession, tmp_path: Path, compare: Comparer
) -> None:
    values = ["", " ", "a", "a ", "A", "ä", "a\u0308", "日本", "\U0001f600", "\uffff", "z" * 5_000, None]
    probe = pa.table({"id": pa.array(range(4_800)), "k": [values[i // 200 % 12] for i in range(4_800)]})
    joins.view(spark, tmp_path, "text_probe", probe)
    for i, few in enumerate((["a", "\U0001f600"], ["", "z" * 5_000], ["a ", None, "ä", "nowhere"])):
        _view(spark, tmp_path, f"text_{i}", pa.string(), few)
        result = compare(f"SELECT p.id, b.j FROM text_probe p JOIN text_{i} b ON p.k = b.j", joins.SHUFFLED)
        assert result.off.rows
        joins.assert_row_groups_pruned(result.on, "k")


@pytest.fixture
def table_names(spark: SparkSession) -> Iterator[list[str]]:
    """Names of tables to drop at the end."""
    names: list[str] = []
    yield names
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.mark.parametrize("padding", ["true", "false"])
def test_char_is_padded(spark: SparkSession, compare: Comparer, table_names: list[str], padding: str) -> None:
    table_names += ["chars", "few_chars", "few_strings"]
    spark.sql("CREATE TABLE chars (id BIGINT, k CHAR(8), w STRING, u VARCHAR(12)) USING parquet")
    spark.sql("INSERT INTO chars SELECT id, hex(id), hex(id), hex(id) FROM range(0, 4000, 1, 4)")
    spark.sql("CREATE TABLE few_chars (j CHAR(5)) USING parquet")
    spark.sql("INSERT INTO few_chars SELECT hex(id) FROM range(100, 110, 1, 1)")
    spark.sql("CREATE TABLE few_strings (j STRING) USING parquet")
    spark.sql(
        "INSERT INTO few_strings SELECT explode(array(concat(hex(id), ' '), rpad(hex(id), 8, ' '))) "
        "FROM range(100, 110, 1, 1)"
    )
    with joins.settings(spark, {"spark.sql.readSideCharPadding": padding}):
        for build, settings in zip(("few_chars", "few_strings"), STRATEGIES.values(), strict=True):
            # Without padding Spark compares strings with what is in the file, and so does a filter.
            fires = (build, padding) == ("few_strings", "false")
            run = compare(f"SELECT p.id FROM chars p JOIN {build} b ON p.k = b.j", settings, fires=fires).on
            if not fires:
                joins.assert_not_pruned(run, "k")
        # Only the probe's own padding is in the way.
        compare("SELECT p.id FROM chars p JOIN few_chars b ON p.w = rtrim(b.j)")
        compare("SELECT p.id FROM chars p JOIN few_chars b ON p.u = b.j")


def test_collated_strings(spark: SparkSession, compare: Comparer, table_names: list[str]) -> None:
    table_names += ["collated_probe", "collated_build"]
    for name, rows, text in (("collated_probe", 4_000, "upper"), ("collated_build", 20, "lower")):
        spark.sql(f"CREATE TABLE {name} (id BIGINT, k STRING COLLATE UTF8_LCASE) USING parquet")
        spark.sql(
            f"INSERT INTO {name} SELECT id, {text}(concat('key', hex(id + 100))) FROM range(0, {rows}, 1, 2)"
        )
    query = "SELECT p.id FROM collated_probe p JOIN collated_build b ON p.k = b.k"
    result = compare(query, joins.SHUFFLED, fires=False)
    assert len(result.off.rows) == 20
    assert not any(f["generation"] for f in result.on.filters), str(result.on)
