"""Strings as keys of a join: cut statistics, padding and collations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from support import joins
from support.joins import STRATEGIES, Comparer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def table_names(spark: SparkSession) -> Iterator[list[str]]:
    """Names of tables to drop at the end."""
    names: list[str] = []
    yield names
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_strings_with_trailing_spaces_and_beyond_ascii(
    spark: SparkSession, tmp_path: Path, compare: Comparer
) -> None:
    values = ["", " ", "a", "a ", "A", "ä", "a\u0308", "日本", "\U0001f600", "\uffff", "z" * 100, None]
    probe = pa.table({"id": pa.array(range(4_800)), "k": [values[i // 200 % 12] for i in range(4_800)]})
    joins.view(spark, tmp_path, "text_probe", probe)
    builds = (["a", "\U0001f600"], ["", "z" * 100], ["a ", None], ["ä", "nowhere"])
    for i, few in enumerate(builds):
        joins.view(spark, tmp_path, f"text_{i}", pa.table({"j": pa.array(few, pa.string())}))
        result = compare(f"SELECT p.id, b.j FROM text_probe p JOIN text_{i} b ON p.k = b.j", joins.SHUFFLED)
        assert result.off.rows
        joins.assert_row_groups_pruned(result.on, "k")


def test_long_strings(spark: SparkSession, tmp_path: Path, compare: Comparer) -> None:
    # Statistics of long strings are cut off.
    values = ["p" * 5_000 + format(i, "04d") for i in range(1_000)]
    probe = pa.table({"id": pa.array(range(1_000)), "k": values})
    joins.view(spark, tmp_path, "long_probe", probe, row_group_size=50)
    joins.view(spark, tmp_path, "long_build", pa.table({"j": values[300:303]}))
    result = compare("SELECT p.id FROM long_probe p JOIN long_build b ON p.k = b.j", joins.BROADCAST)
    assert len(result.off.rows) == 3
    joins.assert_pruned(result.on, "k")


@pytest.mark.parametrize("padding", ["true", "false"])
def test_char_is_padded(spark: SparkSession, compare: Comparer, table_names: list[str], padding: str) -> None:
    table_names += ["chars", "few_chars", "few_strings"]
    for name in table_names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql("CREATE TABLE chars (id BIGINT, k CHAR(8), w STRING, u VARCHAR(12)) USING parquet")
    spark.sql("INSERT INTO chars SELECT id, hex(id), hex(id), hex(id) FROM range(0, 4000, 1, 4)")
    spark.sql("CREATE TABLE few_chars (j CHAR(5)) USING parquet")
    spark.sql("INSERT INTO few_chars SELECT hex(id) FROM range(100, 110, 1, 1)")
    spark.sql("CREATE TABLE few_strings (j STRING) USING parquet")
    spark.sql("INSERT INTO few_strings SELECT concat(hex(id), ' ') FROM range(100, 110, 1, 1)")
    spark.sql("INSERT INTO few_strings SELECT rpad(hex(id), 8, ' ') FROM range(100, 110, 1, 1)")
    with joins.settings(spark, {"spark.sql.readSideCharPadding": padding}):
        for build in ("few_chars", "few_strings"):
            for settings in STRATEGIES.values():
                query = f"SELECT p.id FROM chars p JOIN {build} b ON p.k = b.j"
                # Without padding Spark compares strings with what is in the file, and so does a filter.
                fires = (build, padding) == ("few_strings", "false")
                run = compare(query, settings, fires=fires).on
                if not fires:
                    joins.assert_not_pruned(run, "k")
        # Only the probe's own padding is in the way.
        for column in ("w", "u"):
            compare(f"SELECT p.id FROM chars p JOIN few_chars b ON p.{column} = rtrim(b.j)")
            compare(f"SELECT p.id FROM chars p JOIN few_chars b ON p.{column} = b.j")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_collated_strings(
    spark: SparkSession, compare: Comparer, table_names: list[str], strategy: str
) -> None:
    table_names += ["collated_probe", "collated_build"]
    for name, rows in (("collated_probe", 4_000), ("collated_build", 20)):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.sql(
            f"CREATE TABLE {name} (id BIGINT, k STRING COLLATE UTF8_LCASE, payload STRING) USING parquet"
        )
        text = "lower" if rows == 20 else "upper"
        spark.sql(
            f"INSERT INTO {name} SELECT id, {text}(concat('key', hex(id + 100))), repeat(hex(id), 5) "
            f"FROM range(0, {rows}, 1, {4 if rows > 20 else 1})"
        )
    settings = STRATEGIES[strategy]
    query = "SELECT p.id, p.payload FROM collated_probe p JOIN collated_build b ON p.k = b.k"
    result = compare(query, settings, fires=False)
    assert len(result.off.rows) == 20
    assert not any(f["generation"] for f in result.on.filters), str(result.on)
