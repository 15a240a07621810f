"""Helpers for tests of queries that run with dynamic filters, for this project and for its users.

`assert_same_result` compares a query's rows with filters off and on; `faults` injects lost, late and doubled
updates, failing tasks and more into queries. As a pytest plugin (active wherever
the package is installed) this also offers the fixtures `spark` and `assert_same_result` and the option
`--spark-mode=classic|local-cluster|connect`.
"""

from __future__ import annotations

from ._differential import SameResult, assert_same_result
from ._faults import Faults, FaultsNotEnabled, faults
from ._modes import MODES, SparkApplication, start_application

__all__ = [
    "MODES",
    "Faults",
    "FaultsNotEnabled",
    "SameResult",
    "SparkApplication",
    "assert_same_result",
    "faults",
    "start_application",
]
