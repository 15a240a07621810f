"""`python -m spark_dynamic_filters advise`, on logs made by hand and on one that Spark wrote."""

from __future__ import annotations

import gzip
import itertools
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from spark_dynamic_filters import __main__ as command
from spark_dynamic_filters import _advise_plan

_numbers = itertools.count(1)


def node(name: str, text: str = "", *below: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    """An operator as Spark logs it. A metric is its value and its stage."""
    known = {key.replace("_", " "): (next(_numbers), value) for key, value in metrics.items()}
    listed = [{"name": k, "accumulatorId": n, "metricType": "sum"} for k, (n, _) in known.items()]
    plan = {"nodeName": name, "simpleString": f"{name} {text}", "children": list(below), "metrics": listed}
    return {**plan, "metadata": {}, "known": list(known.values())}


def scan(
    table: str, columns: str, rows: int, stage: int, ms: int = 900, form: str = "Parquet"
) -> dict[str, Any]:
    made = node(
        "Scan " + form.lower(), f"[{columns}]", number_of_output_rows=(rows, stage), scan_time=(ms, stage)
    )
    made["metadata"] = {"Format": form, "Location": f"InMemoryFileIndex(1 paths)[file:/data/{table}]"}
    return made


def topk(form: str = "Parquet", limit: int = 10) -> dict[str, Any]:
    below = scan("hits", "k#1L, url#2, text#3", 10_000_000, 0, form=form)
    filtered = node("Filter", "isnotnull(k#1L)", below, number_of_output_rows=(10_000_000, 0))
    order = "[k#1L DESC NULLS LAST]"
    return node("TakeOrderedAndProject", f"(limit={limit}, orderBy={order}, output=[k#1L,url#2])", filtered)


def join(kind: str = "Inner", rows: int = 1000, built: int = 10, form: str = "Parquet") -> dict[str, Any]:
    """A sort-merge join, whose exchange is read in stage 2."""

    def side(made: dict[str, Any], key: str, count: int, stage: int) -> dict[str, Any]:
        exchanged = {"shuffle_records_written": (count, stage), "records_read": (count, 2)}
        return node("Sort", f"[{key} ASC NULLS FIRST]", node("Exchange", f"hash({key})", made, **exchanged))

    facts = side(scan("facts", "f#1, x#2", 1_000_000, 0, form=form), "f#1", 1_000_000, 0)
    keys = node("Filter", "d", scan("keys", "d#3, n#4", 500, 1), number_of_output_rows=(built, 1))
    text = f"[f#1], [d#3], {kind}"
    return node("SortMergeJoin", text, facts, side(keys, "d#3", built, 1), number_of_output_rows=(rows, 2))


def events(
    *plans: dict[str, Any], spark: str = "4.3.0", ended: bool = True, **properties: str
) -> list[dict[str, Any]]:
    """A log of one execution for each plan, a second of task time in each stage of each."""
    sql = "org.apache.spark.sql.execution.ui.SparkListener"
    found: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": spark},
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": properties},
        {"Event": "SparkListenerApplicationStart", "App Name": "etl", "App ID": "app-1"},
    ]
    for number, plan in enumerate(plans):
        metrics = list(_metrics(plan))
        stages = sorted({value[1] for _, value in metrics})
        start = {"executionId": number, "description": f"query {number}", "time": 1000, "sparkPlanInfo": plan}
        found.append({"Event": f"{sql}SQLExecutionStart", **start})
        job = {"spark.sql.execution.id": str(number)}
        ids = [100 * number + stage for stage in stages]
        found.append({"Event": "SparkListenerJobStart", "Stage IDs": ids, "Properties": job})
        for stage, id in zip(stages, ids, strict=True):
            task = {"Executor Deserialize Time": 3, "Executor Run Time": 1000}
            found.append({"Event": "SparkListenerTaskEnd", "Stage ID": id, "Task Metrics": task})
            values = [{"ID": n, "Name": "m", "Value": str(v[0])} for n, v in metrics if v[1] == stage]
            found.append(
                {
                    "Event": "SparkListenerStageCompleted",
                    "Stage Info": {"Stage ID": id, "Accumulables": values},
                }
            )
        found.append({"Event": f"{sql}SQLExecutionEnd", "executionId": number, "time": 3000})
    return found + [{"Event": "SparkListenerApplicationEnd", "Timestamp": 1}] * ended


def _metrics(plan: dict[str, Any]) -> Any:
    yield from plan["known"]
    for child in plan["children"]:
        yield from _metrics(child)


def plain(log: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in log).encode()


def zstd(data: bytes) -> bytes:
    stream = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(stream, "zstd") as packed:
        packed.write(data)
    return stream.getvalue().to_pybytes()


def lz4(data: bytes) -> bytes:
    """As lz4-java writes it: one block packed, one as it is, the end of the stream."""
    half = len(data) // 2
    packed = pyarrow.Codec("lz4_raw").compress(data[:half], asbytes=True)
    head = b"LZ4Block"
    first = head + struct.pack("<BIII", 0x26, len(packed), half, 0) + packed
    rest = data[half:]
    second = head + struct.pack("<BIII", 0x16, len(rest), len(rest), 0) + rest
    return first + second + head + struct.pack("<BIII", 0x16, 0, 0, 0)


def snappy(data: bytes) -> bytes:
    """As snappy-java writes it: a header, then blocks of at most 32 KiB."""
    parts = [data[i : i + 32768] for i in range(0, len(data), 32768)]
    packed = [pyarrow.Codec("snappy").compress(part, asbytes=True) for part in parts]
    head = b"\x82SNAPPY\x00" + struct.pack(">II", 1, 1)
    return head + b"".join(struct.pack(">I", len(part)) + part for part in packed)


class Told:
    """What one run of the command printed and wrote."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], *paths: Path) -> None:
        written, page = folder / "found.json", folder / "found.html"
        arguments = ["advise", *map(str, paths), "--json", str(written), "--html", str(page)]
        self.status = command.main(arguments)
        self.text, self.errors = capsys.readouterr()
        self.json, self.html = json.loads(written.read_text()), page.read_text()

    @property
    def queries(self) -> list[dict[str, Any]]:
        return [query for app in self.json["applications"] for query in app["queries"]]


@pytest.fixture
def advise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """Writes a log of plans and runs the command on it."""

    def run(*plans: dict[str, Any], **options: Any) -> Told:
        log = tmp_path / "logs" / "app-1"
        log.parent.mkdir(exist_ok=True)
        log.write_bytes(plain(events(*plans, **options)))
        return Told(tmp_path, capsys, log)

    return run


def test_topk_over_a_scan(advise: Callable[..., Told]) -> None:
    told = advise(topk())
    [query] = told.queries
    [found] = query["scans"]
    assert query["gains"]
    assert found["filters"] == ["TopK by k"]
    assert found["table"] == "hits"
    assert found["kept"] < 1e-4
    # Of 900 ms in the reader the filter's own column, one of three, is read all the same.
    assert 0.5 < query["spared"][0] < 0.6
    assert query["spared"][1] > 0.99
    assert "1 of 1 query would gain" in told.text
    assert "hits (parquet)" in told.text
    assert told.status == 0


def test_selective_join_below_an_exchange(advise: Callable[..., Told]) -> None:
    [query] = advise(join()).queries
    [found] = query["scans"]
    assert query["gains"]
    assert found["filters"] == ["inner join by f"]
    assert found["kept"] == pytest.approx(0.001)
    # Three stages of a second each: the scan's and the one above are spared, the build side's is not.
    assert 0.3 < query["spared"][0] < query["spared"][1] < 0.67


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (join("FullOuter"), "a full outer join needs every row of both sides"),
        (join(built=2_000_000), "the build side is expected to have more rows than the probe side"),
        (topk("CSV"), "hits can be filtered by rows only, which is of no use to a TopK, min or max"),
        (topk(limit=200_000), "the limit 200000 is above spark.dynamicFilters.topk.maxLimit=100000"),
    ],
)
def test_what_stands_in_the_way(plan: dict[str, Any], reason: str, advise: Callable[..., Told]) -> None:
    told = advise(plan)
    [query] = told.queries
    assert not query["gains"]
    assert query["reasons"] == [reason]
    assert reason in told.text
    assert reason in told.html


def test_operators_between(advise: Callable[..., Told]) -> None:
    table = scan("t", "a#1, b#2", 1_000_000, 0)
    renamed = node("Project", "[a#1 AS c#7, abs(b#2) AS d#8, date_trunc(DAY, b#2, Some(UTC)) AS e#9]", table)

    def limited(key: str, below: dict[str, Any]) -> dict[str, Any]:
        return node("TakeOrderedAndProject", f"(limit=5, orderBy=[{key} ASC NULLS FIRST], output=[])", below)

    plans = [
        limited("c#7", renamed),
        limited("d#8", renamed),
        limited("c#7", node("Sample", "0.0, 0.1", renamed)),
        limited("year(cast(e#9 as date))", renamed),
    ]
    told = advise(*plans)
    by_id = {query["id"]: query for query in told.queries}
    assert by_id[0]["scans"][0]["filters"] == ["TopK by c"]
    assert by_id[1]["reasons"] == ["d is computed: abs(b)"]
    assert by_id[2]["reasons"] == ["a sample is in the way"]
    assert by_id[3]["scans"][0]["filters"] == ["TopK by year(cast(e as date))"]


def test_minimum_and_merge(advise: Callable[..., Told]) -> None:
    table = scan("t", "a#1, b#2", 1_000_000, 0)
    smallest = node("HashAggregate", "(keys=[], functions=[partial_min(a#1)])", table)
    merge = node("Execute MergeIntoCommand", "", join("LeftSemi"))
    told = advise(smallest, merge)
    filters = {query["id"]: query["scans"][0]["filters"] for query in told.queries}
    assert filters == {0: ["min of a"], 1: ["MERGE, left semi join by f"]}


def test_rank_limit_and_cached_data(advise: Callable[..., Told]) -> None:
    cached = node(
        "Scan In-memory table c", "[a#1]", scan("t", "a#1", 9, 7), number_of_output_rows=(1_000_000, 0)
    )
    cached["simpleString"] = "InMemoryTableScan [a#1]"
    sort = node("Sort", "[a#1 ASC NULLS FIRST], false, 0", cached)
    one = node("WindowGroupLimit", "[a#1 ASC NULLS FIRST], rank(a#1), 5, Partial", sort)
    each = node("WindowGroupLimit", "[b#2], [a#1 ASC NULLS FIRST], rank(a#1), 5, Partial", sort)
    first, second = sorted(advise(one, each).queries, key=lambda query: query["id"])
    assert [(found["format"], found["filters"]) for found in first["scans"]] == [
        ("cache", ["rank limit by a"])
    ]
    assert second["reasons"] == ["a limit in each group needs a bound for each group"]


def test_reused_exchange(advise: Callable[..., Told]) -> None:
    """Spark before 4.0 logs it without what is below."""
    metrics = {"shuffle_records_written": (1_000_000, 0), "records_read": (1_000_000, 2)}
    ran = node("Exchange", "hash(f#1), [plan_id=9]", scan("facts", "f#1, x#2", 1_000_000, 0), **metrics)
    again = node("ReusedExchange", "[f#5], Exchange hash(f#1), [plan_id=9]")
    both = node("Union", "", ran, again)
    build = node("BroadcastExchange", "", scan("keys", "d#3", 10, 1))
    plan = node(
        "BroadcastHashJoin", "[f#1], [d#3], Inner, BuildRight", both, build, number_of_output_rows=(10, 2)
    )
    [query] = advise(plan).queries
    assert query["reasons"] == ["an exchange that another part of the query uses too is in the way"]


def test_keys_of_two_tables_are_no_sure_filter(advise: Callable[..., Told]) -> None:
    """All rows may pass each key alone, although few pass both."""
    left, right = scan("l", "a#1, k#9", 1_000_000, 0), scan("r", "b#2, k#8", 1_000_000, 0)
    streamed = node("Project", "", node("BroadcastHashJoin", "[k#9], [k#8], Inner, BuildRight", left, right))
    streamed["children"][0]["metrics"] = [{"name": "number of output rows", "accumulatorId": 999_999}]
    streamed["children"][0]["known"] = [(999_999, (1_000_000, 0))]
    build = node("BroadcastExchange", "", scan("keys", "c#3, d#4", 10, 1))
    text = "[a#1, b#2], [c#3, d#4], Inner, BuildRight"
    [query] = advise(node("BroadcastHashJoin", text, streamed, build, number_of_output_rows=(10, 0))).queries
    assert {found["table"] for found in query["scans"]} == {"l", "r"}
    assert query["spared"][0] == 0
    assert query["spared"][1] > 0.4


def test_application(advise: Callable[..., Told]) -> None:
    told = advise(topk(), spark="3.5.3", **{"spark.sql.files.ignoreCorruptFiles": "true"})
    assert "in the way: dynamic filters stay off: Spark 3.5.3 is not supported" in told.text
    assert "in the way: corrupt files are ignored" in told.text
    assert "etl (app-1), Spark 3.5.3: 1.0 s of task time" in told.text


@pytest.mark.parametrize("pack", [plain, zstd, lz4, snappy, gzip.compress])
def test_codecs(pack: Callable[[Any], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = events(topk(), join())
    (tmp_path / "log").write_bytes(pack(data) if pack is plain else pack(plain(data)))
    told = Told(tmp_path, capsys, tmp_path / "log")
    assert [query["gains"] for query in told.queries] == [True, True]
    assert told.json["applications"][0]["problems"] == []


def test_rolling_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = events(topk(), join())
    folder = tmp_path / "logs" / "eventlog_v2_app-1"
    folder.mkdir(parents=True)
    (folder / "appstatus_app-1").touch()
    (folder / "events_1_app-1.zstd").write_bytes(b"replaced by the compact file")
    (folder / "events_2_app-1.zstd.compact").write_bytes(zstd(plain(data[:5])))
    (folder / "events_10_app-1.zstd").write_bytes(zstd(plain(data[8:])))
    (folder / "events_9_app-1.zstd").write_bytes(zstd(plain(data[5:8])))
    for path in (folder, folder.parent):
        told = Told(tmp_path, capsys, path)
        assert [query["gains"] for query in told.queries] == [True, True]


def test_bad_logs_are_named_and_the_rest_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    data = plain(events(topk(), join()))
    (logs / "empty").touch()
    (logs / "foreign").write_bytes(b"\x00\xff" * 1000)
    (logs / "lzf").write_bytes(b"ZV\x01...")
    (logs / "torn.lz4").write_bytes(lz4(data)[:-200])
    (logs / "running.inprogress").write_bytes(plain(events(topk(), join(), ended=False))[:-90])
    (logs / "whole").write_bytes(data)
    told = Told(tmp_path, capsys, logs, tmp_path / "missing")
    assert told.status == 0
    reasons = {Path(entry["path"]).name: entry["reason"] for entry in told.json["skipped"]}
    assert reasons == {
        "empty": "the log is empty",
        "foreign": "it is no Spark event log",
        "lzf": "compressed by lzf, which is not read: only zstd, lz4, snappy and gzip are",
        "missing": "there is no such file or folder",
    }
    assert f"skipped {logs / 'empty'}: the log is empty" in told.errors
    assert "note: torn.lz4 is torn: it ends within a block; what comes before that is told" in told.text
    assert "note: the log has no end: the application is still running, or was killed" in told.text
    assert "note: queries that had not ended, which are left out: 1" in told.text
    assert "note: lines that are no whole event: 1" in told.text
    assert sum(query["gains"] for query in told.queries) >= 3


def test_nothing_readable_and_wrong_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["advise", str(tmp_path)]) == 1
    assert f"skipped {tmp_path}: the folder has no event logs" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        command.main(["advise"])
    assert caught.value.code == 2
    (tmp_path / "log").write_bytes(plain(events(topk())))
    assert command.main(["advise", str(tmp_path / "log"), "--html", str(tmp_path / "no" / "page")]) == 1
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "reason",
    [*_advise_plan._STOPS.values(), _advise_plan._LATE, _advise_plan._OF_GROUPS, _advise_plan._SHARED],
)
def test_reasons_are_those_of_the_plugin(reason: str) -> None:
    """The page is made from the plugin's own reasons, and says what to do."""
    page = Path(__file__).parents[2] / "docs/troubleshooting.md"
    assert f"| `{reason}` |" in page.read_text(encoding="utf-8")
