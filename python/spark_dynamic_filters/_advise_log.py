"""Reads Spark event logs, line by line: plain, compressed, rolling, finished or not."""

from __future__ import annotations

import gzip
import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

_EVENT = re.compile(rb'\{"Event":"(?:[\w.$]+\.)?(?:SparkListener)?(\w+)"')
_USED = re.compile(
    "(LogStart|EnvironmentUpdate|Application(Start|End)|JobStart|StageCompleted|SQLExecution(Start|End)"
    "|DriverAccumUpdates)"
)
_WRAPPERS = (
    r"AdaptiveSparkPlan|(AQE|Custom)Shuffle(Read|Reader)|\w*QueryStage|ColumnarToRow|InputAdapter"
    r"|Reused(Exchange|Subquery)|WholeStageCodegen"
)
_CACHE = "InMemoryTableScan|Scan In-memory table"
_ROLLED = re.compile(r"events_(\d+)_")
_STAGE_ID, _EXECUTION_ID = re.compile(rb'"Stage ID":(\d+)'), re.compile(rb'"executionId":(\d+)')
_RUN_TIME = re.compile(rb'"Executor Run Time":(\d+)')
_CHUNK, _LARGEST_BLOCK = 1 << 20, 1 << 28  # bytes
_REPORTED_EVERY = 20_000  # events
_LZ4, _SNAPPY, _ZSTD, _GZIP = b"LZ4Block", b"\x82SNAPPY\x00", b"\x28\xb5\x2f\xfd", b"\x1f\x8b"


class Unreadable(Exception):
    """A path that is no event log, or cannot be read; the message says why."""


@dataclass
class Node:
    """An operator of the plan, without the wrappers around it.

    Attributes:
        inputs: its children without subqueries.
        ran: by metric, the stages that updated it.
        ids: the numbers of its metrics: what a reused exchange shows once more has the same.
    """

    name: str
    text: str
    inputs: list[Node]
    subqueries: list[Node]
    metadata: dict[str, str]
    values: dict[str, int]
    ran: dict[str, set[int]]
    ids: frozenset[int]

    def walk(self) -> Iterator[Node]:
        """Itself and all below."""
        yield self
        for child in self.inputs + self.subqueries:
            yield from child.walk()

    def scans(self) -> Iterator[Node]:
        """The scans below."""
        return (node for node in self.walk() if node.is_scan)

    @property
    def rows(self) -> int:
        """Rows that come out, as far as metrics say."""
        for key in ("number of output rows", "shuffle records written"):
            if key in self.values:
                return self.values[key]
        below = self.inputs if self.name == "Union" else self.inputs[:1]
        return sum(child.rows for child in below)

    @property
    def is_scan(self) -> bool:
        """Whether it reads a table that could be filtered."""
        other = re.match("LocalTable|MicroBatch|Scan (ExistingRDD|OneRow)", self.name)
        return "Scan" in self.name and not self.inputs and not other

    @property
    def format(self) -> str:
        """What it reads, as reports name it."""
        if re.match(_CACHE, self.name):
            return "cache"
        if "IcebergScan" in self.text or "[branch:" in self.text or "iceberg" in self.name.lower():
            return "iceberg"
        if re.search("Tahoe|Delta", self.metadata.get("Location", "")):
            return "delta"
        name = self.name.removeprefix("Batch").removeprefix("Scan ").split(" ")[0]
        kind = (self.metadata.get("Format") or name).lower()
        return f"{kind} by DataSource V2" if self.name.startswith("BatchScan") else kind

    @property
    def table(self) -> str:
        """Name of the table, or of its folder."""
        folder = re.search(r"\[([^,\]]+)", self.metadata.get("Location", ""))
        name = self.name.split(" ")[-1] if " " in self.name else ""
        return name if "." in name or not folder else folder[1].rstrip("/").rsplit("/", 1)[-1]

    @property
    def reader_ms(self) -> int:
        """Milliseconds in the scan's own reader, if it measures them."""
        return self.values.get("scan time", 0)

    @property
    def stages(self) -> set[int]:
        """The stages in which it made rows."""
        return self.ran.get("number of output rows", set())


@dataclass
class Execution:
    """A SQL execution that has ended.

    Attributes:
        start: in milliseconds, as is `end`.
        plan: `sparkPlanInfo` of the newest plan, as Spark writes it.
        values: by accumulator, the value of a metric.
        ran_in: by accumulator, the stages whose tasks updated it.
        stage_ms: by stage, the run time of its tasks in milliseconds.
    """

    id: int
    description: str
    start: int
    plan: dict[str, Any]
    end: int = 0
    values: dict[int, int] = field(default_factory=dict)
    ran_in: dict[int, set[int]] = field(default_factory=dict)
    stage_ms: Counter[int] = field(default_factory=Counter)

    def root(self) -> Node:
        """The plan, with the values of its metrics. A reused exchange stands for the one that ran."""
        root = self._node(self.plan)
        nodes = [(node, re.search(r"\[plan_id=\d+\]", node.text)) for node in root.walk()]
        ran = {found[0]: node for node, found in nodes if found and node.name != "ReusedExchange"}
        reused = {
            id(node): ran.get(found[0]) for node, found in nodes if found and node.name == "ReusedExchange"
        }
        for node, _ in nodes:
            node.inputs = [reused.get(id(child)) or child for child in node.inputs]
        return root

    def _node(self, info: dict[str, Any]) -> Node:
        name, children = re.sub(r" \(\d+\)$", "", info["nodeName"].strip()), info["children"]
        if len(children) == 1 and re.fullmatch(_WRAPPERS, name):
            return self._node(children[0])
        ids = {metric["name"]: metric["accumulatorId"] for metric in info["metrics"]}
        values = {key: self.values[i] for key, i in ids.items() if i in self.values}
        ran = {key: self.ran_in.get(ids[key], set()) for key in values}
        # The plan of cached data has run before.
        below = [] if re.match(_CACHE, name) else [self._node(child) for child in children]
        inputs = [child for child in below if not child.name.startswith("Subquery")]
        rest = [child for child in below if child.name.startswith("Subquery")]
        metadata, numbers = info.get("metadata") or {}, frozenset(ids.values())
        return Node(name, info["simpleString"], inputs, rest, metadata, values, ran, numbers)


@dataclass
class Application:
    """What a log says, without its executions.

    Attributes:
        task_ms: run time of all tasks, those outside of SQL executions included.
        problems: what was wrong with the log, in sentences.
    """

    path: Path
    id: str = ""
    name: str = ""
    spark: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    events: int = 0
    task_ms: int = 0
    problems: list[str] = field(default_factory=list)


def find(path: Path) -> list[Path]:
    """The logs at a path: a file, a folder of rolled files, or what a folder of logs has in it."""
    if not path.exists():
        raise Unreadable("there is no such file or folder")
    if path.is_file() or _rolled(path):
        return [path]
    found = [p for p in sorted(path.iterdir()) if not p.name.startswith((".", "_"))]
    logs = [p for p in found if p.is_file() or p.name.startswith("eventlog_v2_") or _rolled(p)]
    if not logs:
        raise Unreadable("the folder has no event logs")
    return logs


def _rolled(folder: Path) -> list[Path]:
    """The files of a rolling log in their order. A compact file takes the place of all up to its number."""
    files = [(int(m[1]), p) for p in folder.glob("events_*") if (m := _ROLLED.match(p.name))]
    compact = max((n for n, p in files if p.suffix == ".compact"), default=-1)
    return [p for n, p in sorted(files) if n > compact or (n == compact and p.suffix == ".compact")]


def read(path: Path, ended: Callable[[Execution], None], progress: Callable[[int], None]) -> Application:
    """Reads one log; `ended` gets each execution that has ended, `progress` the number of events so far.

    Raises:
        Unreadable: nothing could be read.
    """
    files = [path] if path.is_file() else _rolled(path)
    if not any(file.stat().st_size for file in files):
        raise Unreadable("the log is empty")
    reader = _Reader(Application(path))
    app = reader.app
    for file in files:
        try:
            for line in _lines(file):
                if (execution := reader.take(line)) is not None:
                    ended(execution)
                if app.events % _REPORTED_EVERY == 0:
                    progress(app.events)
        except (OSError, EOFError, ValueError, struct.error) as error:
            if not app.events:
                raise Unreadable(str(error)) from error
            app.problems.append(f"{file.name} is torn: {error}; what comes before that is told")
    reader.close()
    return app


class _Reader:
    def __init__(self, app: Application) -> None:
        self.app = app
        self._running: dict[int, Execution] = {}
        self._newest: dict[int, bytes] = {}  # by execution, the event with its newest plan
        self._owner: dict[int, int] = {}  # by stage, its execution
        self._finished, self._bad = False, 0

    def take(self, line: bytes) -> Execution | None:
        """Uses one line of the log; returns the execution that ended with it."""
        found = _EVENT.match(line)
        if found is None:
            self._bad += bool(line.strip())
            return None
        self.app.events += 1
        name = found[1].decode()
        try:
            if name == "TaskEnd":
                self._task(line)
            elif name == "SQLAdaptiveExecutionUpdate":
                # Only the newest plan is parsed, when the execution ends.
                if number := _EXECUTION_ID.search(line):
                    self._newest[int(number[1])] = line
            elif _USED.fullmatch(name):
                return self._use(name, json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._bad += 1
        return None

    def close(self) -> None:
        """Notes what the log lacks."""
        problems = self.app.problems
        if self._bad:
            problems.append(f"lines that are no whole event: {self._bad:,}")
        if not self._finished:
            problems.append("the log has no end: the application is still running, or was killed")
        if self._running:
            problems.append(f"queries that had not ended, which are left out: {len(self._running):,}")

    def _task(self, line: bytes) -> None:
        """Adds a task's run time, without parsing the line: there are many, and they are long."""
        stage, ms = _STAGE_ID.search(line), _RUN_TIME.search(line, max(0, line.rfind(b'"Executor Run')))
        if stage is None or ms is None:
            return
        self.app.task_ms += int(ms[1])
        if (execution := self._running.get(self._owner.get(int(stage[1]), -1))) is not None:
            execution.stage_ms[int(stage[1])] += int(ms[1])

    def _use(self, name: str, event: dict[str, Any]) -> Execution | None:
        app = self.app
        if name == "LogStart":
            app.spark = str(event["Spark Version"])
        elif name == "EnvironmentUpdate":
            app.properties = dict(event["Spark Properties"])
        elif name == "ApplicationStart":
            app.name, app.id = str(event["App Name"]), str(event.get("App ID") or "")
        elif name == "ApplicationEnd":
            self._finished = True
        elif name == "JobStart":
            number = int((event.get("Properties") or {}).get("spark.sql.execution.id", -1))
            for stage in event["Stage IDs"] if number >= 0 else ():
                # A stage that a later job names too has run, and is skipped there.
                self._owner.setdefault(stage, number)
        elif name == "StageCompleted":
            self._stage(event["Stage Info"])
        elif name == "SQLExecutionStart":
            number, description = int(event["executionId"]), str(event.get("description") or "")
            self._running[number] = Execution(number, description, int(event["time"]), event["sparkPlanInfo"])
        elif name == "DriverAccumUpdates":
            if (running := self._running.get(int(event["executionId"]))) is not None:
                for metric, value in event["accumUpdates"]:
                    running.values[metric] = running.values.get(metric, 0) + int(value)
        else:
            return self._end(event)
        return None

    def _stage(self, info: dict[str, Any]) -> None:
        """Takes over the metrics of a stage. A value is that of all stages so far that share the metric."""
        stage = int(info["Stage ID"])
        if (execution := self._running.get(self._owner.get(stage, -1))) is None:
            return
        for metric in info["Accumulables"]:
            number, value = int(metric["ID"]), str(metric.get("Value"))
            if value.isdigit() and not str(metric.get("Name")).startswith("internal."):
                execution.values[number] = max(execution.values.get(number, 0), int(value))
                execution.ran_in.setdefault(number, set()).add(stage)

    def _end(self, event: dict[str, Any]) -> Execution | None:
        number = int(event["executionId"])
        newest, execution = self._newest.pop(number, None), self._running.pop(number, None)
        if execution is not None:
            execution.end = int(event["time"])
            for stage in execution.stage_ms:
                self._owner.pop(stage, None)
            if newest is not None:
                execution.plan = json.loads(newest)["sparkPlanInfo"]
        return execution


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as raw:
        rest = b""
        for i, chunk in enumerate(_chunks(raw)):
            if i == 0 and not _EVENT.match(chunk):
                raise ValueError("it is no Spark event log")
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
        yield rest


def _chunks(raw: IO[bytes]) -> Iterator[bytes]:
    """The file's bytes, decompressed. The codec is told by the first bytes, not by the name."""
    magic = raw.read(8)
    raw.seek(0)
    if magic == _LZ4:
        yield from _lz4_blocks(raw)
    elif magic == _SNAPPY:
        yield from _snappy_blocks(raw)
    elif magic.startswith(b"ZV"):
        raise ValueError("compressed by lzf, which is not read: only zstd, lz4, snappy and gzip are")
    else:
        stream: Any = gzip.GzipFile(fileobj=raw) if magic.startswith(_GZIP) else raw
        if magic.startswith(_ZSTD):
            stream = _arrow().CompressedInputStream(raw, "zstd")
        while piece := stream.read(_CHUNK):
            yield piece


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ValueError("compressed logs need pyarrow: pip install pyarrow") from None
    return pyarrow


def _lz4_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    """The blocks of lz4-java's LZ4BlockOutputStream; one of size 0 ends a stream, another may follow."""
    codec = _arrow().Codec("lz4_raw")
    while head := raw.read(21):
        if head[:8] != _LZ4:
            raise ValueError("an LZ4 block has no header")
        token, packed, size = struct.unpack_from("<BII", head, 8)
        data = _exactly(raw, packed)
        if size:
            yield data if token & 0xF0 == 0x10 else _unpacked(codec, data, size)


def _snappy_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    """The blocks of snappy-java's SnappyOutputStream: a header of 16 bytes, then blocks with their length."""
    codec = _arrow().Codec("snappy")
    while head := raw.read(4):
        if head == _SNAPPY[:4]:
            _exactly(raw, 12)
            continue
        data = _exactly(raw, int.from_bytes(head, "big"))
        size = 0
        for i, byte in enumerate(data[:5]):  # a number of 7 bits a byte, the lowest ones first
            size |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                break
        yield _unpacked(codec, data, size)


def _unpacked(codec: Any, data: bytes, size: int) -> bytes:
    if size > _LARGEST_BLOCK:
        raise ValueError("a block has an impossible size")
    return bytes(codec.decompress(data, size, asbytes=True))


def _exactly(raw: IO[bytes], size: int) -> bytes:
    data = raw.read(size) if size <= _LARGEST_BLOCK else b""
    if len(data) < size:
        raise EOFError("it ends within a block")
    return data
