"""Every error that a user can cause in a session, with its text: through Python, SQL, hints and settings.

A text names the thing, what is wrong with it, and what is right, in 300 characters, without Java's stack.
"""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from support.errors import CASES

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

MAX_LENGTH = 300
STATES = {
    "NOT_FOUND": "42704",
    "TYPE_MISMATCH": "42804",
    "INVALID_USE": "42601",
    "HINT_PARAMETER": "42601",
    "INVALID_SETTING": "22023",
    "UNKNOWN_SETTING": "22023",
}


@pytest.mark.core
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[:50])
def test_errors(spark: SparkSession, t: str, case: str) -> None:
    action, kind, expected = CASES[case]
    if isinstance(kind, str):
        expected = f"[DYNAMIC_FILTER_{kind}] {expected} SQLSTATE: {STATES[kind]}"
    with sdf.create_filter(spark, "wanted", "bigint") as f, pytest.raises(Exception) as caught:  # noqa: PT011
        action(spark, f, t)
    assert _text(caught.value) == expected
    if isinstance(kind, str):
        assert isinstance(caught.value, AnalysisException)
    else:
        assert type(caught.value) is kind
    assert len(expected) <= MAX_LENGTH


def _text(error: BaseException) -> str:
    """The error's text; Spark Connect adds a stack, which has to be empty."""
    text, _, stack = str(error).partition("\n\nJVM stacktrace:")
    assert "\n" not in stack.strip(), stack
    return text
