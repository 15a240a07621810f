"""tools/test_spark.py: which of Spark's suites run, what their reports say, and what may fail."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
SPEC = importlib.util.spec_from_file_location("test_spark_tool", TOOLS / "test_spark.py")
assert SPEC is not None
assert SPEC.loader is not None
tool = importlib.util.module_from_spec(SPEC)
# Dataclasses look for their module there.
sys.modules[SPEC.name] = tool
SPEC.loader.exec_module(tool)
GROUPS = {
    name: group["suites"]
    for name, group in tomllib.loads((TOOLS / "spark-tests" / "suites.toml").read_text()).items()
}
LISTED = [suite for suites in GROUPS.values() for suite in suites]


def test_names_are_groups_or_suites() -> None:
    assert tool.grouped([], GROUPS) == {"core": GROUPS["core"]}
    assert tool.grouped(["all"], GROUPS) == GROUPS
    assert tool.grouped(["JoinSuite", "joins"], GROUPS)["joins"] == GROUPS["joins"]
    with pytest.raises(SystemExit, match="JoinsSuite: neither a group nor a suite"):
        tool.grouped(["JoinsSuite"], GROUPS)


def test_each_suite_is_listed_once_and_each_exclusion_has_a_reason() -> None:
    assert len(LISTED) == len(set(LISTED))
    for test, reason in tool.excluded().items():
        assert test.suite in LISTED
        assert reason.endswith(".")


REPORT = """<testsuite errors="0" failures="1" tests="3"><testcase name="passes"/>
<testcase name="fails"><failure message="1 was not 2"/></testcase>
<testcase name="left out"><skipped/></testcase></testsuite>"""


def test_reports_tell_what_passed_failed_and_never_ended(tmp_path: Path) -> None:
    (tmp_path / "TEST-org.apache.spark.sql.ASuite.xml").write_text(REPORT)
    (tmp_path / "TEST-org.apache.spark.sql.execution.BSuite.xml").write_text("<testsuite/>")
    (tmp_path / "out.txt").write_text("BSuite *** ABORTED *** (1 second)\n")
    (tmp_path / "spark.log").write_text(
        "DEBUG Dynamic filters: query 1 ended: 1 of 2 filters ready, 1 filtered scans, 9 rows pruned\n"
        "DEBUG Dynamic filters: query 2 ended: 1 of 1 filters ready, 1 filtered scans, 0 rows pruned\n"
        "DEBUG Dynamic filters: local-1 ended with 0 live executions\n"
    )
    run = tool.read(tmp_path, ["ASuite", "execution.BSuite", "CSuite"], "not finished after 5 minutes")
    assert run.passed == {tool.Test("ASuite", "passes")}
    assert run.failed == {
        tool.Test("ASuite", "fails"): "1 was not 2",
        tool.Test("execution.BSuite", tool.WHOLE_SUITE): "aborted before or after its tests",
        tool.Test("CSuite", tool.WHOLE_SUITE): "no report: not finished after 5 minutes",
    }
    assert run.tests("ASuite") == 2
    assert run.loaded
    assert (run.filtered, run.pruned) == (2, 1)
