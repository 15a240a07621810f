"""What runs queries: Spark, Spark's planner alone, a process with another jar, DuckDB and DataFusion."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from pyspark.sql import Row, SparkSession

import runs
from case import Case, Variant, View
from processor import WALL, Threads


@dataclass(frozen=True)
class Run:
    """One measurement: the answer, seconds by unit, and what filters did if that was asked for."""

    rows: Sequence[Any]
    seconds: Mapping[str, float]
    skipped: Mapping[str, int] | None = None
    filters: str = ""


class Engine(Protocol):
    """Runs queries over views."""

    def register(self, name: str, view: View) -> None:
        """Makes files a view."""

    def run(self, case: Case, variant: Variant, text: str, report: bool) -> Run:
        """Runs a text; `report` also asks what was skipped."""


class Spark:
    """A session in local mode."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._threads = Threads(int(spark._jvm.java.lang.ProcessHandle.current().pid()))  # type: ignore[union-attr]
        self._views: dict[str, View] = {}

    def register(self, name: str, view: View) -> None:
        """Makes files a view and reads them into the page cache."""
        if self._views.get(name) == view:
            return
        runs.warm_page_cache(view.folder)
        reader = self.spark.read.format(view.format)
        reader = reader.schema(view.schema) if view.schema else reader
        reader.load(str(view.folder)).createOrReplaceTempView(name)
        self._views[name] = view

    def run(self, case: Case, variant: Variant, text: str, report: bool) -> Run:
        """Runs a text from a clean heap; what the report says is asked for off the clock."""
        confs = {**case.confs, **variant.confs, runs.ENABLED: str(variant.filters).lower()}
        with runs.settings(self.spark, confs):
            if variant.forgets:
                runs.forget(self.spark)
            report = report and variant.filters
            before = runs.newest_query(self.spark) if report else -1
            runs.collect_garbage(self.spark)
            work = self._prepared(text)
            rows, used = self._threads.measured(lambda: [work() for _ in range(case.repeats)][-1])
        skipped = runs.skipped_since(self.spark, before).as_dict() if report else None
        filters = _filters(self.spark, before) if report else ""
        if case.after:
            self.spark.sql(case.after)
        return Run(rows, {unit: seconds / case.repeats for unit, seconds in used.items()}, skipped, filters)

    def _prepared(self, text: str) -> Callable[[], Sequence[Any]]:
        return lambda: self.spark.sql(text).collect()


class Planner(Spark):
    """Plans queries and runs none."""

    def _prepared(self, text: str) -> Callable[[], Sequence[Any]]:
        frame = self.spark.sql(text)

        def plan() -> Sequence[Any]:
            frame._jdf.queryExecution().executedPlan()
            return []

        return plan


def _filters(spark: SparkSession, before: int) -> str:
    """What became of the filters of the queries after one, equal ones counted."""
    import spark_dynamic_filters as sdf

    found = Counter(
        str(row.form) if row.state == "ready" else f"{row.state}: {row.reason or 'no reason'}"
        for row in sdf.filters(spark).collect()
        if row.query_id > before
    )
    return "; ".join(f"{count} x {what}" if count > 1 else what for what, count in found.items())


class Jar:
    """A process that runs queries with one jar of the plugin."""

    def __init__(self, jar: Path) -> None:
        command = [sys.executable, __file__, str(jar.resolve())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def register(self, name: str, view: View) -> None:
        """Makes files a view."""
        self._ask({"view": name, "folder": str(view.folder)})

    def run(self, case: Case, variant: Variant, text: str, report: bool) -> Run:
        """Runs a text."""
        answer = self._ask({"text": text, "confs": {**case.confs, **variant.confs}})
        return Run([Row(*names)(*values) for names, values in answer["rows"]], answer["seconds"])

    def _ask(self, request: Mapping[str, Any]) -> Any:
        print(json.dumps(request), file=_open(self._process.stdin), flush=True)
        answer = _open(self._process.stdout).readline()
        if not answer:
            raise RuntimeError("the process with the jar has ended")
        return json.loads(answer)

    def close(self) -> None:
        """Ends the process."""
        _open(self._process.stdin).close()
        self._process.wait(60)


def _open(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def serve(jar: str) -> None:
    """Runs the queries that come on standard input with this jar."""
    import spark_dynamic_filters._configure as configure

    configure.jar_path = lambda: jar  # type: ignore[attr-defined]
    engine = Spark(runs.session("benchmark of a jar"))
    for line in sys.stdin:
        request, answer = json.loads(line), {}
        if "view" in request:
            engine.register(request["view"], View(Path(request["folder"])))
        else:
            variant = Variant(request["text"], filters=True, confs=request["confs"])
            run = engine.run(Case("", "", {}), variant, request["text"], report=False)
            rows = [(row.__fields__, [str(value) for value in row]) for row in run.rows]
            answer = {"rows": rows, "seconds": run.seconds}
        print(json.dumps(answer), flush=True)


class DuckDb:
    """DuckDB in this process."""

    def __init__(self) -> None:
        import duckdb

        self._duck = duckdb.connect(config={"threads": runs.CORES})

    def register(self, name: str, view: View) -> None:
        """Makes files a view."""
        files = f"read_parquet('{view.folder}/*.parquet')"
        self._duck.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {files}")

    def run(self, case: Case, variant: Variant, text: str, report: bool) -> Run:
        """Runs a text."""
        return _timed(lambda: self._duck.execute(_without_hints(text)).fetchall())


class DataFusion:
    """DataFusion in this process, with the settings under which it is fastest.

    It pushes filters, those of its own TopKs and joins too, into the decoding of Parquet.
    """

    def __init__(self) -> None:
        import datafusion

        settings = {
            # As Spark's session here, and not DataFusion's default: names are as they are written.
            "datafusion.sql_parser.enable_ident_normalization": "false",
            "datafusion.execution.parquet.pushdown_filters": "true",
            "datafusion.execution.parquet.reorder_filters": "true",
        }
        config = datafusion.SessionConfig(settings).with_target_partitions(runs.CORES)
        self._fusion = datafusion.SessionContext(config)

    def register(self, name: str, view: View) -> None:
        """Makes files a view."""
        self._fusion.deregister_table(name)
        self._fusion.register_parquet(name, str(view.folder))

    def run(self, case: Case, variant: Variant, text: str, report: bool) -> Run:
        """Runs a text."""

        def work() -> Sequence[Any]:
            batches = self._fusion.sql(_without_hints(text)).collect()
            return range(sum(batch.num_rows for batch in batches))

        return _timed(work)


def _timed(work: Callable[[], Sequence[Any]]) -> Run:
    start = time.perf_counter()
    rows = work()
    return Run(rows, {WALL: time.perf_counter() - start})


def _without_hints(text: str) -> str:
    return re.sub(r"/\*\+.*?\*/", "", text, flags=re.DOTALL)


if __name__ == "__main__":
    serve(sys.argv[1])
