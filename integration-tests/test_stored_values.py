"""Parquet bloom filters hold hashes of stored values: they decide only where those are the values that are
read.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from support import joins

_DATES = [[dt.date(2020, 1, d), dt.date(2021, 1, d)] for d in (1, 2, 3)]
_DECIMALS = [[Decimal(f"{n}.10"), Decimal(f"{n}.20")] for n in (1, -3, 5)]
# Type in the file, type it is read as, keys of three row groups, key to look for, whether the bloom filter
# may leave out row groups. An int that is read as a narrower one wraps around.
CASES: dict[str, tuple[pa.DataType, str, list[list[Any]], Any, bool]] = {
    "int8": (pa.int8(), "TINYINT", [[1, 2], [-3, 4], [5, 6]], -3, True),
    "int16": (pa.int16(), "SMALLINT", [[1, 2], [-300, 4], [5, 6]], -300, True),
    "int32": (pa.int32(), "INT", [[1, 2], [-70_000, 4], [5, 6]], -70_000, True),
    "int64": (pa.int64(), "BIGINT", [[1, 2], [-(1 << 40), 4], [5, 6]], -(1 << 40), True),
    "date": (pa.date32(), "DATE", _DATES, dt.date(2020, 1, 2), True),
    "string": (pa.string(), "STRING", [["a", "b"], ["c", "d"], ["e", "f"]], "c", True),
    "int32_as_byte": (pa.int32(), "TINYINT", [[1, 2], [300, 4], [44, 6]], 44, False),
    "int32_as_short": (pa.int32(), "SMALLINT", [[1, 2], [65_544, 4], [8, 6]], 8, False),
    "uint8": (pa.uint8(), "SMALLINT", [[1, 2], [200, 4], [5, 6]], 200, False),
    "uint16": (pa.uint16(), "INT", [[1, 2], [60_000, 4], [5, 6]], 60_000, False),
    "uint32": (pa.uint32(), "BIGINT", [[1, 2], [4_000_000_000, 4], [5, 6]], 4_000_000_000, False),
    "uint64": (pa.uint64(), "DECIMAL(20,0)", [[1, 2], [1 << 63, 4], [5, 6]], Decimal(1 << 63), False),
    "int32_as_bigint": (pa.int32(), "BIGINT", [[1, 2], [-3, 4], [5, 6]], -3, False),
    "decimal": (pa.decimal128(5, 2), "DECIMAL(5,2)", _DECIMALS, Decimal("-3.10"), False),
}


@pytest.mark.parametrize("case", CASES)
def test_bloom_filters(spark: SparkSession, tmp_path: Path, case: str) -> None:
    kind, read_as, groups, key, decides = CASES[case]
    keys = [k for group in groups for k in group * 50]
    table = pa.table({"k": pa.array(keys, kind), "payload": ["x" * 200] * len(keys)})
    # Without statistics and dictionaries, so that nothing else decides.
    pq.write_table(
        table,
        tmp_path / "stored.parquet",
        row_group_size=100,
        use_dictionary=False,
        write_statistics=False,
        store_decimal_as_integer=True,
        bloom_filter_options={"k": True},
    )
    stored = spark.read.schema(f"k {read_as}, payload STRING").parquet(str(tmp_path / "stored.parquet"))
    stored.createOrReplaceTempView("stored")
    spark.createDataFrame([(key,)], f"j {read_as}").createOrReplaceTempView("wanted")
    query = "SELECT /*+ BROADCAST(w), DYNAMIC_FILTER(stored) */ k FROM stored JOIN wanted w ON k = j"
    found = joins.Comparer(spark)(query, joins.FOREVER, joins.FEW_TASKS).on
    assert len(found.rows) >= 50
    joins.assert_ready(found, "k")
    # None where the row groups were decided by rows.
    by_bloom = sum((s["pruned_by"] or {}).get("bloom", 0) for s in found.scans_with("k"))
    assert by_bloom == (2 if decides else 0), str(found)
