"""Random queries over random data, from fixed seeds: with filters the rows are those without."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support import tables
from support.checks import ORDERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_dynamic_filters.testing import SameResult

QUERIES = 20
_PREDICATES = (
    "c_int > 0",
    "c_string LIKE '%a%'",
    "c_boolean",
    "c_date < DATE'2000-01-01'",
    "grp IN (1, 3, 5)",
    "c_double IS NOT NULL",
    "id % 3 = 1",
    "c_tinyint IS NULL OR c_tinyint > 10",
)


@pytest.fixture(scope="module")
def random_data(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A view over files of several writers, among them one whose rows are ordered by a key."""
    folder = tmp_path_factory.mktemp("random")
    for seed, writer in enumerate(("page_index", "no_statistics", "pages_v2", "bloom_filter")):
        block = 100 if seed % 2 else None
        table = tables.all_types(rows=1_500, seed=seed, nulls=0.2 * seed, block=block)
        if seed == 0:
            table = table.sort_by("c_int")
        tables.write(table, folder / f"writer={writer}", **tables.PYARROW_WRITERS[writer])
    spark.read.parquet(str(folder)).createOrReplaceTempView("random_data")
    return "random_data"


def _query(r: random.Random, view: str) -> tuple[str, list[str]]:
    columns = ["id", "seq", "grp", "writer", *tables.TYPES]
    keys = r.sample(columns, r.choice([1, 1, 2, 3]))
    selected = list(dict.fromkeys(keys + r.sample(columns, r.randrange(1, 6))))
    where = " AND ".join(r.sample(_PREDICATES, r.choice([0, 0, 1, 2])))
    order = ", ".join(f"{key} {r.choice(ORDERS)}" for key in keys)
    limit = r.choice([1, 3, 10, 50, 400, 3_000])
    offset = f" OFFSET {r.randrange(100)}" if r.random() < 0.2 else ""
    source = view
    if r.random() < 0.3:
        source = f"(SELECT * FROM {view} WHERE grp < 5 UNION ALL SELECT * FROM {view} WHERE grp >= 5)"
    text = f"SELECT {', '.join(selected)} FROM {source}{' WHERE ' + where if where else ''}"
    return f"{text} ORDER BY {order} LIMIT {limit}{offset}", keys


@pytest.mark.parametrize("seed", range(QUERIES))
def test_random_query(random_data: str, assert_same_result: Callable[..., SameResult], seed: int) -> None:
    query, keys = _query(random.Random(seed), random_data)
    assert_same_result(query, ordered=True, keys=keys)


def test_most_random_queries_are_filtered(
    random_data: str, assert_same_result: Callable[..., SameResult]
) -> None:
    # Guards the test above against comparing Spark with itself.
    fired = 0
    for seed in range(0, QUERIES, 3):
        query, keys = _query(random.Random(seed), random_data)
        fired += assert_same_result(query, ordered=True, keys=keys).fired()
    assert fired >= 3


def test_rows_written_by_spark_itself(
    spark: SparkSession, random_data: str, tmp_path: Path, assert_same_result: Callable[..., SameResult]
) -> None:
    spark.table(random_data).write.option("parquet.block.size", 16_384).parquet(str(tmp_path / "data"))
    spark.read.parquet(str(tmp_path / "data")).createOrReplaceTempView("rewritten")
    for seed in (100, 101, 102):
        query, keys = _query(random.Random(seed), "rewritten")
        assert_same_result(query, ordered=True, keys=keys)
