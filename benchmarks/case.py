"""What a benchmark measures: a query in several variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from results import AGAIN, BLOOM, ORACLE, OURS, OURS_AGAIN, STOCK, rows_differ

SPARK = "spark"
#: A text, or what makes one of stock's rows: an oracle knows the answer.
Text = str | Callable[[Sequence[Any]], str]

#: Spark's own runtime filter, also for small probe sides. By default Spark applies it to 10 GB and more.
BLOOM_CONFS = {
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
}


@dataclass(frozen=True)
class Variant:
    """One way to run a case's query.

    Attributes:
        filters: whether dynamic filters are on.
        forgets: whether what was learned of files is forgotten before.
        engine: the name of what runs it.
    """

    text: Text
    filters: bool = False
    confs: Mapping[str, str] = field(default_factory=dict)
    forgets: bool = False
    engine: str = SPARK


@dataclass(frozen=True)
class View:
    """Files that are a view of a query."""

    folder: Path
    format: str = "parquet"
    schema: str | None = None


@dataclass(frozen=True)
class Case:
    """One query on tables of one size.

    Attributes:
        part: the section of the report.
        variants: by name; the first is what others are compared with.
        table: what its tables are.
        why: what the case shows.
        views: by name, what makes their files if they are not there yet.
        repeats: how often a run executes the query.
        difference: whether two answers differ, and how.
        around: sets up what is there while it is measured, and returns notes for the report.
        after: a statement after each run, which is not measured.
    """

    part: str
    name: str
    variants: Mapping[str, Variant]
    table: str = ""
    why: str = ""
    views: Mapping[str, Callable[[], Path | View]] = field(default_factory=dict)
    confs: Mapping[str, str] = field(default_factory=dict)
    repeats: int = 1
    difference: Callable[[Sequence[Any], Sequence[Any]], str | None] = rows_differ
    around: Callable[[SparkSession], AbstractContextManager[Mapping[str, str]]] | None = None
    after: str | None = None

    @property
    def title(self) -> str:
        """For progress, and for choosing cases."""
        return ", ".join(filter(None, (self.part, self.name, self.table)))


def variants(text: Text, oracle: Text | None = None, bloom: bool = False) -> dict[str, Variant]:
    """Stock and ours, and what else there is of the query."""
    found = {STOCK: Variant(text)}
    if oracle is not None:
        found[ORACLE] = Variant(oracle)
    if bloom:
        found[BLOOM] = Variant(text, confs=BLOOM_CONFS)
    return {**found, OURS: Variant(text, filters=True)}


def twice(text: Text, bloom: bool = False) -> dict[str, Variant]:
    """Stock and ours twice a round: what two runs of stock differ by (A/A) is chance."""
    stock, ours = Variant(text), Variant(text, filters=True)
    found = {STOCK: stock, OURS: ours, AGAIN: stock, OURS_AGAIN: ours}
    return {**found, BLOOM: Variant(text, confs=BLOOM_CONFS)} if bloom else found
