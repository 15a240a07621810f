"""Waits of queries whose subquery uses an exchange together with them: never for a tap that does not run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from support import joins
from support.joins import BROADCAST, FOREVER, Comparer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.processes, pytest.mark.timeout(170)]

# Seconds that a query over these tables takes at most, on a machine that does other work too. Who waits for
# nothing waits for twice as long.
QUICK = 30.0


def _query(spark: SparkSession, folder: Path, hint: str = "/*+ NO_DYNAMIC_FILTER(customers) */") -> str:
    """By its hint the query does not narrow the customers, so it has no tap over the addresses; the subquery
    has one, which never runs."""
    ids = pa.array(range(30_000), pa.int64())
    tables = {
        "sales": {"id": ids, "c": [i % 7_000 for i in range(30_000)]},
        "customers": {"k": ids[:9_000], "a": [i * 7 % 4_000 for i in range(9_000)]},
        "addresses": {"k": ids[100:3_000], "x": ids[:2_900]},
    }
    for name, columns in tables.items():
        joins.view(spark, folder, name, pa.table(columns))
    rows = (
        "(SELECT {} sales.id, customers.k, addresses.x FROM sales "
        "JOIN customers ON sales.c = customers.k JOIN addresses ON customers.a = addresses.k)"
    )
    return (
        f"SELECT k, sum(x) FROM {rows.format(hint)} WHERE id % 3 = 0 "
        f"GROUP BY k HAVING sum(x) > (SELECT avg(x) FROM {rows.format('')})"
    )


@pytest.mark.parametrize("reuse", ["true", "false"])
def test_exchange_of_the_query_that_a_subquery_uses_instead_of_its_own(
    spark: SparkSession, tmp_path: Path, reuse: str
) -> None:
    reused = {"spark.sql.exchange.reuse": reuse}
    # A filter that has all customers leaves nothing out, and a scan may start before the other one.
    run = Comparer(spark)(_query(spark, tmp_path), BROADCAST, FOREVER, reused, fires=None).on
    assert run.seconds < QUICK, str(run)
    reasons = [f["reason"] for f in run.filters]
    never = "the build side's exchange has run without collecting this key"
    assert (never in reasons) == (reuse == "true"), str(run)


def test_subquery_that_uses_the_exchange_of_the_query_has_its_filter(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both narrow the customers alike, so one tap over the addresses runs for two filters. The subquery's
    scan may start before or after that, and does not always wait."""
    run = Comparer(spark)(_query(spark, tmp_path, hint=""), BROADCAST, FOREVER, fires=None).on
    assert run.seconds < QUICK, str(run)
    assert len(run.filters) >= 3, str(run)
    assert {f["reason_code"] for f in run.filters} <= {None, "join.late"}, str(run)


def test_exchange_that_a_cached_subquery_uses_instead_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """A cached plan has stages of its own, which are not among those of the query that fills it."""
    query = _query(spark, tmp_path)
    with joins.settings(spark, BROADCAST, FOREVER):
        with joins.settings(spark, {"spark.dynamicFilters.enabled": "false"}):
            expected = len(spark.sql(query).collect())
        frame = spark.sql(query).cache()
        start = time.perf_counter()
        assert frame.count() == expected
        assert time.perf_counter() - start < QUICK
        frame.unpersist(blocking=True)
