"""Settings that a statement runs under."""

from __future__ import annotations

import random

_OURS = "spark.dynamicFilters."
_SPLITS = "spark.sql.files.maxPartitionBytes"

#: Values by key, and how often one is chosen at all.
_CHOICES: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("spark.sql.autoBroadcastJoinThreshold", ("-1", "-1", "20k"), 0.6),
    ("spark.sql.adaptive.enabled", ("false",), 0.25),
    ("spark.sql.codegen.wholeStage", ("false",), 0.15),
    ("spark.sql.shuffle.partitions", ("1", "3", "4"), 0.6),
    (_SPLITS, ("100k", "300k", "10m", "64m"), 1.0),
    ("spark.sql.files.openCostInBytes", ("4k",), 1.0),
    ("spark.sql.parquet.columnarReaderBatchSize", ("1", "17", "100"), 0.15),
    ("spark.sql.parquet.enableVectorizedReader", ("false",), 0.05),
    ("spark.sql.parquet.filterPushdown", ("false",), 0.1),
    ("spark.sql.columnVector.offheap.enabled", ("true",), 0.1),
    ("spark.sql.sources.useV1SourceList", ("",), 0.05),
    ("spark.sql.ansi.enabled", ("false",), 0.15),
    ("spark.sql.session.timeZone", ("America/Los_Angeles",), 0.1),
    ("spark.sql.execution.topKSortFallbackThreshold", ("20",), 0.05),
    ("spark.sql.join.preferSortMergeJoin", ("false",), 0.1),
    ("spark.sql.optimizer.dynamicPartitionPruning.enabled", ("false",), 0.2),
    ("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly", ("false",), 0.15),
    # Spark's own filters are subqueries over the build side too; by default only of large tables.
    ("spark.sql.optimizer.runtime.bloomFilter.enabled", ("false",), 0.2),
    ("spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold", ("0",), 0.2),
    ("spark.sql.exchange.reuse", ("false",), 0.1),
    ("spark.sql.execution.reuseSubquery", ("false",), 0.1),
    ("spark.sql.adaptive.autoBroadcastJoinThreshold", ("-1", "1m"), 0.2),
    ("spark.sql.adaptive.advisoryPartitionSizeInBytes", ("1k",), 0.15),
    ("spark.sql.adaptive.coalescePartitions.enabled", ("false",), 0.2),
    ("spark.sql.adaptive.localShuffleReader.enabled", ("false",), 0.15),
    # Sums of three are in a canonical order, and not only those of thousands.
    ("spark.sql.analyzer.canonicalization.multiCommutativeOpMemoryOptThreshold", ("1000",), 0.1),
    ("spark.sql.sources.bucketing.enabled", ("false",), 0.05),
    (
        "spark.sql.optimizer.excludedRules",
        ("org.apache.spark.sql.catalyst.optimizer.InferFiltersFromConstraints",),
        0.05,
    ),
    (f"{_OURS}join.waitTimeout", ("0s", "1s", "60s"), 0.25),
    (f"{_OURS}lateMaterialization.enabled", ("false",), 0.2),
    (f"{_OURS}in.maxValues", ("0", "3"), 0.2),
    (f"{_OURS}maxFilterBytes", ("16", "200"), 0.1),
    (f"{_OURS}join.maxBuildRows", ("5", "100"), 0.05),
    (f"{_OURS}bloom.fpp", ("0.5",), 0.1),
    (f"{_OURS}selectivity.giveUp", ("1", "0.1"), 0.3),
)

# Files say much more of a table than what is left of it; thresholds are between: its join is planned anew.
_REPLANNING: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("spark.sql.autoBroadcastJoinThreshold", ("1k", "3k", "8k", "20k"), 1.0),
    ("spark.sql.sources.fileCompressionFactor", ("30.0",), 0.8),
    ("spark.sql.adaptive.autoBroadcastJoinThreshold", ("2k", "100k"), 0.2),
    ("spark.sql.shuffle.partitions", ("3", "4"), 0.5),
    ("spark.sql.adaptive.coalescePartitions.enabled", ("false",), 0.6),
    ("spark.sql.adaptive.localShuffleReader.enabled", ("false",), 0.2),
    ("spark.sql.adaptive.forceApply", ("true",), 0.3),
    ("spark.sql.exchange.reuse", ("false",), 0.2),
    ("spark.sql.execution.reuseSubquery", ("false",), 0.2),
    ("spark.sql.ansi.enabled", ("false",), 0.15),
    ("spark.sql.files.openCostInBytes", ("4k",), 1.0),
    (_SPLITS, ("100k", "10m"), 1.0),
    (f"{_OURS}in.maxValues", ("0", "3"), 0.1),
    (f"{_OURS}join.waitTimeout", ("0s", "1s"), 0.1),
)

KEYS = tuple(dict.fromkeys(key for key, _, _ in _CHOICES + _REPLANNING))


def choose(r: random.Random, text: str, replanning: bool = False) -> dict[str, str]:
    """Some settings; what is not named is as Spark and the plugin ship it.

    Args:
        text: of the statement. The product of two tables has a task for each pair of splits: few are enough.
        replanning: whether adaptive execution is to make broadcasts of shuffled joins.
    """
    choices = _REPLANNING if replanning else _CHOICES
    chosen = {key: r.choice(values) for key, values, share in choices if r.random() < share}
    return chosen | ({_SPLITS: "10m"} if "SHUFFLE_REPLICATE_NL" in text else {})
