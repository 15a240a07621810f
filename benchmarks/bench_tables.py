"""Delta and Iceberg tables beside the same files as plain Parquet, and MERGE into Delta, by turns.

``TABLE_FORMAT=delta python benchmarks/bench_tables.py --out docs/bench/tables-delta.json``, in an
environment whose Spark the format has a package for; ``--draw FILES`` makes the plot of several such runs.

* ``stock``: filters off;
* ``first``: filters on, and what tables' logs and earlier queries told of the files is forgotten;
* ``repeated``: filters on, after the same query.

The formats' tables are made of hard links to the same Parquet files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import datafiles
import join_tables
import layouts
import queries
import runs
from join_queries import CLUSTERED_SQL, NO_BROADCAST
from join_tables import SMALL_KEPT
from progress import step
from results import rounds

sys.path.insert(0, str(Path(__file__).parents[1] / "integration-tests"))
from support import packages

TABLES = datafiles.DATA / "tables"
MERGE_FILES, MERGE_KEYS = 1_000, 1_000
MERGE = (
    "MERGE INTO {table} t USING source s ON t.id = s.k "
    "WHEN MATCHED THEN UPDATE SET v = s.nv WHEN NOT MATCHED THEN INSERT *"
)


def main() -> None:
    """Measures one format, or draws what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=int, default=8, help="millions of rows of the web log")
    parser.add_argument("--join", type=int, default=10, help="millions of rows of the join's large side")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--merge-rows", type=int, nargs="*", default=[10_000, 100_000], help="of each file")
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that do not count")
    parser.add_argument("--parts", default="log,join,merge")
    parser.add_argument("--out", type=Path, help="what is measured takes the place of the same in the report")
    parser.add_argument("--draw", nargs="*", type=Path)
    options = parser.parse_args()
    if options.draw:
        draw(options.draw)
        return
    package = packages.chosen()
    if package is None:
        raise SystemExit("set TABLE_FORMAT to one of " + ", ".join(packages.ALL))
    sources: dict[str, Path] = {}
    if "log" in options.parts:
        sources["log"] = layouts.table(layouts.DEFAULT_DATA, "int64", options.log)
    if "join" in options.parts:
        sources["big"] = join_tables.big(datafiles.DATA / "joins", options.join * 1_000_000)
        small = join_tables.small(datafiles.DATA / "joins", options.join * 1_000_000)
    shutil.rmtree(TABLES, ignore_errors=True)
    folders = {"spark.sql.warehouse.dir": str(TABLES / "warehouse")}
    settings = {**runs.LARGE, **folders, **package.config(TABLES / "warehouse")}
    spark = runs.session("benchmark of table formats", settings)
    results: dict[str, Any] = {"environment": runs.environment(), "format": package.name, "queries": []}
    try:
        if "join" in options.parts:
            runs.register(spark, "small", small)
        for name, source in sources.items():
            runs.register(spark, f"{name}_parquet", source)
            _adopt(spark, package.name, name, source)
        for case in (_log_cases() if "log" in sources else []) + (
            _join_cases(options.join) if "big" in sources else []
        ):
            results["queries"].append(_compare(spark, package.name, options, *case))
        if "merge" in options.parts and package is packages.DELTA:
            results["merge"] = [_merge(spark, options.rounds, rows) for rows in options.merge_rows]
    finally:
        spark.stop()
        shutil.rmtree(TABLES, ignore_errors=True)
    if options.out:
        options.out.write_text(
            json.dumps(_with_older(results, options.out), indent=1) + "\n", encoding="utf-8"
        )


def _with_older(results: dict[str, Any], report: Path) -> dict[str, Any]:
    """What was measured now, and what a report has beside it; each part is measured by itself."""
    if not report.exists():
        return results
    older = json.loads(report.read_text(encoding="utf-8"))
    new = {query["query"]: query for query in results["queries"]}
    kept = [new.pop(query["query"], query) for query in older["queries"]]
    return {**older, **results, "queries": [*kept, *new.values()]}


def _adopt(spark: SparkSession, format: str, name: str, source: Path) -> None:
    """A table of the format whose data files are links to those of a folder."""
    linked = TABLES / name
    linked.mkdir(parents=True)
    for file in sorted(source.glob("*.parquet")):
        os.link(file, linked / file.name)
    if format == "delta":
        spark.sql(f"CONVERT TO DELTA parquet.`{linked}`")
        spark.sql(f"CREATE OR REPLACE TEMP VIEW {name}_delta AS SELECT * FROM delta.`{linked}`")
    else:
        table = f"ice.db.{name}"
        spark.read.parquet(str(linked)).limit(0).writeTo(table).using("iceberg").create()
        spark.sql(f"CALL ice.system.add_files(table => 'db.{name}', source_table => '`parquet`.`{linked}`')")
        spark.sql(f"CREATE OR REPLACE TEMP VIEW {name}_iceberg AS SELECT * FROM {table}")


def _log_cases() -> list[tuple[str, str, dict[str, str]]]:
    """Name, text with `{t}` for a format, settings."""
    return [
        *((q.name, q.sql("log_{t}"), {}) for q in queries.SCALING),
        # What a format needs for any query: its statistics exclude every file.
        ("no rows", "SELECT count(URL) FROM log_{t} WHERE EventTime < TIMESTAMP '1990-01-01'", {}),
    ]


def _join_cases(millions: int) -> list[tuple[str, str, dict[str, str]]]:
    """Name, text with `{t}` for a format, settings."""
    text = CLUSTERED_SQL.replace("FROM big b", "FROM big_{t} b").replace("{kept}", str(SMALL_KEPT))
    text = text.replace("{bound}", "")
    size = "" if millions == 10 else f", {millions}M rows"
    return [
        (f"broadcast join{size}", text.replace("{hint}", "BROADCAST"), {}),
        (f"merge join{size}", text.replace("{hint}", "MERGE"), NO_BROADCAST),
    ]


def _forget(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    jvm.org.dynamicfilters.scan.FileStatistics.instance().clear()
    jvm.org.dynamicfilters.tables.TableStatistics.instance().clear()


def _compare(
    spark: SparkSession,
    format: str,
    options: argparse.Namespace,
    name: str,
    text: str,
    settings: dict[str, str],
) -> dict[str, Any]:
    last = options.warm_up + options.rounds - 1
    variants = [(t, how) for t in ("parquet", format) for how in (runs.STOCK, runs.FIRST)]
    seconds: dict[str, list[float]] = {}
    skipped: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    with runs.settings(spark, settings), step(name) as progress:
        for round_, order in rounds(variants, last + 1):
            for table, how in order:
                progress.note(f"round {round_}, {table}, {how}")
                query, filters = text.format(t=table), how != runs.STOCK
                _forget(spark)
                runs.collect_garbage(spark)
                measured = {how: runs.run(spark, query, filters)}
                if filters:
                    measured[runs.REPEATED] = runs.run(spark, query, filters, report=round_ == last)
                for variant, run in measured.items():
                    if round_ >= options.warm_up:
                        seconds.setdefault(f"{table} {variant}", []).append(run.seconds)
                    if run.skipped is not None:
                        skipped[table] = run.skipped.as_dict()
                    answers[f"{table} {variant}"] = [str(row) for row in run.rows]
    different = [variant for variant, rows in answers.items() if rows != next(iter(answers.values()))]
    medians = {variant: statistics.median(s) for variant, s in seconds.items()}
    print(f"{name}: " + ", ".join(f"{v} {s:.3f} s" for v, s in medians.items()), flush=True)
    if different:
        print(f"  other rows (ties?): {different}", flush=True)
    return {"query": name, "median seconds": medians, "seconds": seconds, "skipped": skipped}


def _merge(spark: SparkSession, turns: int, rows_of_file: int) -> dict[str, Any]:
    """Keys of one file into a table of many, by turns; the table is put back after each.

    ``first`` has forgotten what the log said, as an application knows it that has not used the table;
    ``repeated`` knows it of the version before.
    """
    with step(f"a table of 1,000 files with {rows_of_file:,} rows each"):
        rows = MERGE_FILES * rows_of_file
        columns = "id, id * 3 AS v, id % 1000 AS g, xxhash64(id) AS h, CONCAT('text ', id % 10000) AS s"
        spark.sql("DROP TABLE IF EXISTS merged")
        spark.sql("DROP TABLE IF EXISTS source")
        spark.sql(
            f"CREATE TABLE merged USING delta AS SELECT {columns} FROM RANGE(0, {rows}, 1, {MERGE_FILES})"
        )
        keys = f"SELECT {rows // 2} + id AS k, -id AS nv FROM RANGE({MERGE_KEYS})"
        spark.sql(f"CREATE TABLE source USING delta AS {keys}")
        text = MERGE.replace("INSERT *", "INSERT (id, v) VALUES (s.k, s.nv)").format(table="merged")
    seconds: dict[str, list[float]] = {}
    answers = set()
    with step("merge") as progress:
        for round_, order in rounds((runs.STOCK, runs.FIRST, runs.REPEATED), turns + 1):
            for variant in order:
                progress.note(f"round {round_}, {variant}")
                if variant == runs.FIRST:
                    _forget(spark)
                runs.collect_garbage(spark)
                spark.conf.set(runs.ENABLED, str(variant != runs.STOCK).lower())
                start = time.perf_counter()
                answers.add(str(spark.sql(text).collect()))
                taken = time.perf_counter() - start
                if round_ > 0:
                    seconds.setdefault(variant, []).append(taken)
                spark.conf.set(runs.ENABLED, "false")
                answers.add(str(spark.sql("SELECT sum(v), count(*) FROM merged WHERE v < 0").collect()))
                spark.sql("RESTORE TABLE merged TO VERSION AS OF 0")
    medians = {variant: statistics.median(s) for variant, s in seconds.items()}
    print("merge: " + ", ".join(f"{v} {s:.3f} s" for v, s in medians.items()), answers, flush=True)
    return {"rows of a file": rows_of_file, "median seconds": medians, "seconds": seconds}


def draw(files: list[Path]) -> None:
    """Bars of medians beside the first file, one group a query and format."""
    from matplotlib import pyplot

    measured = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    figure, axes = pyplot.subplots(1, len(measured), figsize=(6.5 * len(measured), 4), squeeze=False)
    for axis, result in zip(axes[0], measured, strict=True):
        names = [q["query"] for q in result["queries"]]
        variants = list(result["queries"][0]["median seconds"])
        for i, variant in enumerate(variants):
            values = [q["median seconds"][variant] for q in result["queries"]]
            axis.bar(
                [x + i * 0.8 / len(variants) for x in range(len(names))],
                values,
                0.75 / len(variants),
                label=variant,
            )
        axis.set_xticks([x + 0.33 for x in range(len(names))], names)
        axis.set_yscale("log")
        axis.set_ylabel("seconds, median")
        axis.set_title(f"{result['format']} beside Parquet, Spark {result['environment']['Spark']}")
        axis.legend(fontsize=7)
    figure.tight_layout()
    folder = files[0].parent
    figure.savefig(folder / "tables.png", dpi=110)
    (folder / "tables.md").write_text("\n".join(_page(measured)) + "\n", encoding="utf-8")


def _page(measured: list[dict[str, Any]]) -> list[str]:
    lines = ["# Table formats beside Parquet", "", "![medians](tables.png)", ""]
    for result in measured:
        machine = runs.environment_text(result["environment"])
        lines += [
            f"## {result['format']}",
            "",
            f"{machine}.",
            "Seconds, medians; ratios to plain Parquet.",
            "",
        ]
        lines += ["| query | files | stock | first | repeated | first / Parquet | repeated / Parquet |"]
        lines += ["|---|---|---|---|---|---|---|"]
        for query in result["queries"]:
            for table in ("parquet", result["format"]):
                plain, own = (
                    [query["median seconds"][f"{t} {v}"] for v in (runs.STOCK, runs.FIRST, runs.REPEATED)]
                    for t in ("parquet", table)
                )
                ratios = [f"{a / b:.2f}" for a, b in zip(own[1:], plain[1:], strict=True)]
                cells = [query["query"], table, *(f"{x:.3f}" for x in own)]
                lines.append(
                    "| " + " | ".join([*cells, *(ratios if table != "parquet" else ["", ""])]) + " |"
                )
        lines.append("")
        if "merge" in result:
            lines += [f"MERGE of {MERGE_KEYS:,} keys of one file into a table of {MERGE_FILES:,} files:", ""]
            lines += ["| rows of a file | stock | first | repeated | stock / first | stock / repeated |"]
            lines += ["|---|---|---|---|---|---|"]
            for merge in result["merge"]:
                all_ = [merge["median seconds"][v] for v in (runs.STOCK, runs.FIRST, runs.REPEATED)]
                ratios = " | ".join(f"{all_[0] / x:.1f}" for x in all_[1:])
                times = " | ".join(f"{x:.2f}" for x in all_)
                lines.append(f"| {merge['rows of a file']:,} | {times} | {ratios} |")
            lines.append("")
        if "note" in result:
            lines += [f"{result['note']}.", ""]
    return lines


if __name__ == "__main__":
    main()
