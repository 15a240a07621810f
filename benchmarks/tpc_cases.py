"""All queries of TPC-DS and TPC-H."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import tpcds
import tpch
from case import Case, Variant, twice
from datafiles import DATA
from results import counts_differ

SUITES = {"tpcds": tpcds, "tpch": tpch}
TITLES = {"tpcds": "TPC-DS", "tpch": "TPC-H"}


def queries(suite: str, scale: float) -> Iterator[Case]:
    """Stock and ours twice a round, and stock with its own bloom filter forced on."""
    folders = SUITES[suite].tables(DATA, scale)
    views = {name: partial(Path, folder) for name, folder in folders.items()}
    for name, text in SUITES[suite].queries(scale).items():
        yield Case(TITLES[suite], name, twice(text, bloom=True), f"SF {scale:g}", views=views)


def beside_peers(case: Case) -> Case:
    """A case in Spark, stock and with filters, in DuckDB and in DataFusion."""
    text = next(iter(case.variants.values())).text
    engines: Mapping[str, Variant] = {
        "Spark": Variant(text),
        "Spark with filters": Variant(text, filters=True),
        "DuckDB": Variant(text, engine="DuckDB"),
        "DataFusion": Variant(text, engine="DataFusion"),
    }
    return replace(case, variants=engines, difference=counts_differ)
