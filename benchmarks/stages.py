"""What single stages took, from Spark's REST interface, which is the same on all Spark lines."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from pyspark.sql import SparkSession

LISTENER_SECONDS = 10.0  # how long the UI may lag behind the query


@dataclass(frozen=True)
class StageTime:
    """Sums over a stage's tasks, in seconds: from start to end, and on a processor."""

    run: float
    cpu: float


def newest(spark: SparkSession) -> int:
    """The highest id of a complete stage, or -1."""
    return max((stage["stageId"] for stage in _complete(spark)), default=-1)


def shuffle_writer(spark: SparkSession, after: int, records: int) -> StageTime:
    """The stage later than ``after`` that read ``records`` rows of files and wrote a shuffle."""
    deadline = time.monotonic() + LISTENER_SECONDS
    while time.monotonic() < deadline:
        found = [
            stage
            for stage in _complete(spark)
            if stage["stageId"] > after and stage["inputRecords"] == records and stage["shuffleWriteRecords"]
        ]
        if found:
            (stage,) = found
            return StageTime(stage["executorRunTime"] / 1e3, stage["executorCpuTime"] / 1e9)
        time.sleep(0.05)
    raise LookupError(f"no stage after {after} has read {records:,} rows and written a shuffle")


def _complete(spark: SparkSession) -> list[dict[str, Any]]:
    context = spark.sparkContext
    port = urlsplit(context.uiWebUrl).port
    url = f"http://127.0.0.1:{port}/api/v1/applications/{context.applicationId}/stages?status=complete"
    with build_opener(ProxyHandler({})).open(url, timeout=LISTENER_SECONDS) as answer:
        return json.load(answer)
