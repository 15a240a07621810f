"""Runs Spark's own compiled tests with the plugin.

    python tools/test_spark.py --jar JAR [--spark 4.2.0] [NAME...]

NAME is a group or a suite of tools/spark-tests/suites.toml, or `all`; without one the group `core` runs.
Tests that fail are run again without the plugin. A test that fails only with it is a fault, unless
tools/spark-tests/excluded.toml names it with a reason.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tools" / "spark-tests"
PACKAGE = "org.apache.spark.sql."
# A suite that cannot start or does not end has no test to name.
WHOLE_SUITE = "(the suite)"

OPENED = (
    "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util java.util.concurrent "
    "java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar"
)
# As in Spark's own build (project/SparkBuild.scala, TestSettings). C1 is the only compiler: generated code
# runs a few times here, and compiling it well would take longer than it spares.
JVM = [
    "-Xmx3g",
    "-Xss4m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:ReservedCodeCacheSize=512m",
    "-ea",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED.split()),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dspark.testing=1",
    "-Dspark.port.maxRetries=100",
    "-Dspark.master.rest.enabled=false",
    "-Dspark.ui.enabled=false",
    "-Dspark.ui.showConsoleProgress=false",
    "-Dspark.unsafe.exceptionOnMemoryLeak=true",
]
PLUGIN = "-Dspark.plugins=org.dynamicfilters.DynamicFiltersPlugin"
# In ScalaTest's output.
ABORTED = re.compile(r"(\S+) \*\*\* ABORTED \*\*\*")
# Written by the plugin's listener at the end of an application and of a query. log4j2.properties asks for it.
LOADED = "live executions"
ENDED = re.compile(r"(\d+) of \d+ filters ready, \d+ filtered scans, (\d+) rows pruned")


@dataclass(frozen=True, order=True)
class Test:
    """A test of a suite; the suite's name is without `org.apache.spark.sql.`."""

    suite: str
    name: str


@dataclass
class Run:
    """What one JVM has shown."""

    passed: set[Test] = field(default_factory=set)
    failed: dict[Test, str] = field(default_factory=dict)
    # Whether the plugin has written to the log.
    loaded: bool = False
    # Queries with a complete filter, and queries whose scans left out rows.
    filtered: int = 0
    pruned: int = 0

    def tests(self, suite: str) -> int:
        return sum(t.suite == suite and t.name != WHOLE_SUITE for t in [*self.passed, *self.failed])


def read(reports: Path, suites: Iterable[str], ended: str) -> Run:
    """What one JVM has left in its folder.

    Args:
        ended: how the JVM ended, for suites without a report
    """
    run = Run()
    aborted = set(ABORTED.findall((reports / "out.txt").read_text(errors="replace")))
    for suite in suites:
        report = reports / f"TEST-{PACKAGE}{suite}.xml"
        if not report.exists():
            run.failed[Test(suite, WHOLE_SUITE)] = f"no report: {ended}"
            continue
        if aborted & {suite.rpartition(".")[2], PACKAGE + suite}:
            run.failed[Test(suite, WHOLE_SUITE)] = "aborted before or after its tests"
        for case in ET.parse(report).iter("testcase"):
            test = Test(suite, case.get("name", ""))
            fault = case.find("failure") if case.find("failure") is not None else case.find("error")
            if fault is not None:
                run.failed[test] = (fault.get("message") or fault.text or "").strip()
            elif case.find("skipped") is None:
                run.passed.add(test)
    log = reports / "spark.log"
    if log.exists():
        text = log.read_text(errors="replace")
        run.loaded = LOADED in text
        ends = ENDED.findall(text)
        run.filtered = sum(int(ready) > 0 for ready, _ in ends)
        run.pruned = sum(int(rows) > 0 for _, rows in ends)
    return run


class SuiteRunner:
    """Where the tests run: class path, files of the source tree, reports."""

    def __init__(self, spark: str, jar: Path) -> None:
        self.folder = ROOT / "build" / "spark-tests"
        self.home = self.folder / f"home-{spark}"
        self.folder.mkdir(parents=True, exist_ok=True)
        jars = self._jars(spark)
        self.resources = self.home / "sql" / "core" / "src" / "test" / "resources"
        self._unpack(next(j for j in jars if j.endswith(f"spark-sql_2.13-{spark}-tests.jar")))
        # A copy: the jar may be built anew while tests run.
        ours = self.folder / "plugin.jar"
        shutil.copy(jar, ours)
        # Suites read their data as files: the unpacked files come before the jar that also has them.
        self.class_path = os.pathsep.join([str(self.resources), *jars, str(ours)])
        # For the executors of suites that run in local-cluster: there is no folder of Spark's jars.
        self.executors = {
            "SPARK_TESTING": "1",
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_DIST_CLASSPATH": self.class_path,
        }

    def _jars(self, spark: str) -> list[str]:
        """Fetches what is missing, and remembers where it is."""
        known = self.folder / f"class-path-{spark}"
        build = ROOT / "build.sbt"
        if not known.exists() or known.stat().st_mtime < build.stat().st_mtime:
            task = "export sparkTests/Runtime/externalDependencyClasspath"
            command = [ROOT / "tools" / "sbt", f"-Dspark.version={spark}", task]
            out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
            known.write_text(next(line for line in out.splitlines() if "-tests.jar" in line))
        return known.read_text().split(os.pathsep)

    def _unpack(self, tests: str) -> None:
        if self.resources.exists():
            return
        partial = self.home / "partial"
        with zipfile.ZipFile(tests) as archive:
            archive.extractall(partial, [n for n in archive.namelist() if not n.endswith(".class")])
        self.resources.parent.mkdir(parents=True, exist_ok=True)
        partial.rename(self.resources)

    def run(self, name: str, suites: dict[str, Iterable[str]], minutes: float, plugin: bool) -> Run:
        """Runs these tests in one JVM.

        Args:
            suites: the tests of each suite to run, none for all
        """
        reports = self.folder / "reports" / f"{name}-{'with' if plugin else 'without'}"
        work = self.home / "work"
        for folder in (reports, work):
            shutil.rmtree(folder, ignore_errors=True)
        reports.mkdir(parents=True)
        (work / "tmp").mkdir(parents=True)
        chosen: list[str] = []
        for suite, tests in suites.items():
            chosen += ["-s", PACKAGE + suite]
            for test in tests:
                chosen += ["-t", test]
        command = [
            *["java", *JVM, *([PLUGIN] if plugin else [])],
            f"-Djava.io.tmpdir={work / 'tmp'}",
            f"-Dspark.test.home={self.home}",
            f"-Dlog4j2.configurationFile={LISTS / 'log4j2.properties'}",
            f"-Dlog.file={reports / 'spark.log'}",
            *["-cp", self.class_path, "org.scalatest.tools.Runner", "-oDFW", "-u", str(reports), *chosen],
        ]
        with (reports / "out.txt").open("w") as out:
            process = subprocess.Popen(
                command,
                cwd=work,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | self.executors,
            )
            try:
                ended = f"its JVM ended with {process.wait(minutes * 60)}"
            except subprocess.TimeoutExpired:
                ended = f"not finished after {minutes:g} minutes"
            finally:
                process.kill()
                process.wait()
        return read(reports, suites, ended)


def grouped(names: list[str], groups: dict[str, list[str]]) -> dict[str, list[str]]:
    """The suites to run, by group.

    Raises:
        SystemExit: a name is neither a group's nor a suite's
    """
    result: dict[str, list[str]] = {group: [] for group in groups}
    for name in names or ["core"]:
        found = False
        for group, listed in groups.items():
            suites = [s for s in listed if name in ("all", group, s, s.rpartition(".")[2])]
            result[group] += [s for s in suites if s not in result[group]]
            found = found or bool(suites)
        if not found:
            sys.exit(
                f"{name}: neither a group nor a suite; groups: all, {', '.join(groups)}; suites: suites.toml"
            )
    return {group: suites for group, suites in result.items() if suites}


def excluded() -> dict[Test, str]:
    """The tests that may fail, with the reason."""
    listed = tomllib.loads((LISTS / "excluded.toml").read_text())
    return {Test(suite, test): reason for suite, tests in listed.items() for test, reason in tests.items()}


def without_plugin(runner: SuiteRunner, group: str, suspects: Iterable[Test], minutes: float) -> Run:
    """Runs these tests again, without the plugin.

    Suites without a report are not run again: remove a suite that cannot run from suites.toml.
    """
    tests: dict[str, list[str]] = {}
    for t in sorted(suspects):
        if t.name != WHOLE_SUITE:
            tests.setdefault(t.suite, []).append(t.name)
    return runner.run(group, tests, minutes, plugin=False) if tests else Run()


def main() -> int:
    """Runs the chosen suites, prints a table of their results and then the tests that are wrong.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description="Spark's own tests with the plugin")
    parser.add_argument("--jar", type=Path, required=True)
    parser.add_argument("--spark", default="4.2.0", help="a version whose test jars are published")
    parser.add_argument("names", nargs="*", help="groups, suites or 'all'")
    args = parser.parse_args()
    # Ended from outside: the JVM has to end, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    groups = tomllib.loads((LISTS / "suites.toml").read_text())
    plan = grouped(args.names, {name: group["suites"] for name, group in groups.items()})
    allowed = excluded()
    runner = SuiteRunner(args.spark, args.jar)
    passed, faults = set[Test](), dict[Test, str]()
    count = 0
    print("| suite | tests | excluded | fail without it, too | fail only with it |\n|---|---|---|---|---|")
    for group, suites in plan.items():
        started = time.monotonic()
        minutes = float(groups[group]["minutes"])
        ours = runner.run(group, {suite: [] for suite in suites}, minutes, plugin=True)
        suspects = {t: message for t, message in ours.failed.items() if t not in allowed}
        stock = without_plugin(runner, group, suspects, minutes)
        new = {t: message for t, message in suspects.items() if t not in stock.failed}
        if ours.passed and not ours.loaded:
            sys.exit(f"{group}: the plugin was not loaded, see {runner.folder / 'reports'}")
        passed |= ours.passed
        faults |= new
        for suite in suites:
            may = sum(t.suite == suite for t in allowed)
            both = sum(t.suite == suite and t not in new for t in suspects)
            only = sum(t.suite == suite for t in new)
            count += ours.tests(suite)
            print(f"| {suite} | {ours.tests(suite)} | {may} | {both} | {only} |")
        took = (time.monotonic() - started) / 60
        pruned = f"{ours.filtered} queries had a filter, {ours.pruned} read fewer rows"
        print(f"{group}: {took:.1f} minutes, {pruned}", file=sys.stderr)
        for t, message in new.items():
            what = "not run to its end" if t.name == WHOLE_SUITE else "fails only with the plugin"
            print(f"{what}: {t.suite}: {t.name}: {message[:300]}", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
    ran = {suite for suites in plan.values() for suite in suites}
    print(f"| all | {count} | {sum(t.suite in ran for t in allowed)} | | {len(faults)} |\n")
    for t in sorted(set(allowed) & passed):
        print(f"excluded, and passes now: {t.suite}: {t.name}")
    print(f"{len(passed)} passed, {len(faults)} failed")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
