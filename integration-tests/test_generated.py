"""Generated queries from fixed seeds: the rows with filters are those without, also where tasks and shuffle
files are lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import spark_dynamic_filters as sdf
from spark_dynamic_filters._settings import find
from spark_dynamic_filters.testing import SparkApplication, faults
from support.generator.campaign import Campaign

pytestmark = [pytest.mark.processes, pytest.mark.client, pytest.mark.timeout(300)]

# By kind, numbers of statements by seed.
_STATEMENTS = {
    "joins": {seed: range(2) for seed in range(2, 12 if os.environ.get("EVERY_CASE") else 8)},
    "subqueries": {2: range(3), 3: range(3)},
    "replanned": {400: range(3), 401: range(3)},
    "computed": {1: range(6), 2: range(6)},
    "shared": {5200: range(8)},
    "failing": {6: range(8), 9: range(8)},
}


@pytest.fixture(scope="module")
def campaign(
    spark_application: SparkApplication, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Campaign]:
    """In a session whose settings are those that Spark and the plugin are shipped with."""
    session = spark_application.new_session()
    # Spark's own: in many splits a product of three small tables has thousands of tasks.
    session.conf.set("spark.sql.files.maxPartitionBytes", "128m")
    session.conf.set("spark.sql.files.openCostInBytes", "4m")
    yield Campaign(session, tmp_path_factory.mktemp("generated"), shrinking=60.0)
    spark_application.close_session(session)


@pytest.mark.core
@pytest.mark.parametrize("seed", range(2))
def test_generated_statements(campaign: Campaign, seed: int) -> None:
    # Some of the statements set it; the others run under the default.
    shipped = find("selectivity.giveUp").default
    assert str(sdf.conf(campaign.runner.spark).selectivity.giveUp) == shipped
    _run(campaign, "joins", {seed: range(2)})


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", _STATEMENTS)
def test_generated_statements_of_a_kind(campaign: Campaign, kind: str) -> None:
    answered, fired = _run(campaign, kind, _STATEMENTS[kind])
    assert answered >= 0.8 * sum(map(len, _STATEMENTS[kind].values()))
    # Guards against comparing Spark with itself. Of many statements it is half to three of four.
    assert fired >= 0.3 * answered, (fired, answered)


def _run(campaign: Campaign, kind: str, numbers: dict[int, range]) -> tuple[int, int]:
    """Runs statements by seed; how many had an answer, and in how many a filter skipped rows."""
    tally = campaign.tally
    faults, answered, fired = len(tally.faults), tally.answered, tally.fired
    campaign.kind = kind
    for seed, of_seed in numbers.items():
        campaign.run(seed, of_seed)
    found = tally.faults[faults:]
    assert not found, "\n\n".join(map(str, found))
    return tally.answered - answered, tally.fired - fired


@pytest.mark.core
@pytest.mark.parametrize("fault_seed", range(2))
def test_generated_statements_with_faults(campaign: Campaign, spark_mode: str, fault_seed: int) -> None:
    losses = 0.2 if spark_mode == "local-cluster" else None
    with faults(
        campaign.runner.spark,
        seed=fault_seed,
        lost=0.15,
        late=0.15,
        duplicated=0.15,
        reordered=0.15,
        undecodable=0.1,
        failing_tasks=0.3,
        fetch_failures=losses,
    ) as happened:
        campaign.expects_failures = True
        try:
            _run(campaign, "joins", {1_000 + fault_seed: range(2)})
        finally:
            campaign.expects_failures = False
    assert happened.total > 0, happened
