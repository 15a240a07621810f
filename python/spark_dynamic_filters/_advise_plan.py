"""Judges a query that ran without filters: which scans a filter would reach, and what it could spare."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ._advise_log import Execution, Node
from ._advise_text import bracketed, column_of, columns_of, has_column, join_type, plain, streamed

#: A query is expected to gain if low + WEIGHT * (high - low) is at least THRESHOLD, low and high being the
#: share of its task time that is spared at least and at most. Calibrated on TPC-DS (docs/advisor.md).
WEIGHT, THRESHOLD = 0.2, 0.25

# Operators, as patterns of their names; docs/operators.md tells which ones let filters pass.
_PASSES = "Filter|Coalesce|BatchEvalPython|ArrowEvalPython|Generate|Expand"
_JOINS = "BroadcastHashJoin|SortMergeJoin|ShuffledHashJoin"
_AGGREGATES = "(Hash|Sort|ObjectHash)Aggregate"
_EXCHANGES = "(Shuffle|Broadcast)?Exchange"
_STOPS = {
    "Sample": "a sample is in the way",
    "CollectMetrics": "observed metrics are in the way",
    "CartesianProduct": "a cartesian product is in the way",
    r"\w*Limit|TakeOrderedAndProject": "a limit is in the way",
    r"MapIn\w+|MapPartitions\w*": "a function on whole partitions (such as mapInPandas) is in the way",
    r"Flat\w*Groups\w*|MapGroups|CoGroup": "a function on whole groups (such as applyInPandas) is in the way",
}
_LATE = "an exchange is in the way: the scan below is done before the bound is known"
_OF_GROUPS = "the key is a result of an aggregate: groups have no statistics"
_OTHER_GROUPS = "an aggregate that does not group by the filter's column is in the way"
_SHARED = "an exchange that another part of the query uses too is in the way"
#: By side (left, right), the joins for which its rows without a match do not matter.
_FILTERED = (
    {"Inner", "LeftSemi", "RightOuter"},
    {"Inner", "LeftSemi", "LeftOuter", "LeftAnti", "ExistenceJoin"},
)
#: By side, the joins that let a filter from above pass into it.
_PASSED = ({"Inner", "LeftSemi", "LeftOuter", "LeftAnti", "ExistenceJoin"}, {"Inner", "RightOuter"})
#: Formats of which data is skipped, not only rows dropped.
_FULL = {"parquet", "delta", "iceberg", "cache", "orc"}
#: Rows of a build side without conditions above which it makes no filter. `topk.maxLimit` has the same value.
_MANY_ROWS = 100_000
_UNSELECTIVE = 0.9  # share of its rows above which a build side counts as without conditions
_USELESS = 0.98  # share of rows that pass above which a filter is left out here
_PAGE = 20_000  # rows of a Parquet page, as most writers cut them
_ALIAS = re.compile(r"(.*) AS ([^()]*#(\d+)L?)", re.DOTALL)
_ORDER = re.compile(r" (?:ASC|DESC)\b")


@dataclass
class Filter:
    """One filter on its way to a scan.

    Attributes:
        maker: the operator that makes it.
        kept: share of rows that pass; `dense` once it is known, which differs for a bound.
        sure: whether `kept` follows from metrics; else it is a guess.
        work: rows that came to each join or exchange on the way, in the scan's stage.
        late: whether it is a bound, which is not known before the operator has seen rows.
        above: by stage that reads an exchange on the way, the share of the stage's rows that come from there.
    """

    label: str
    maker: frozenset[int]
    kept: float
    dense: float
    sure: bool
    work: tuple[int, ...]
    late: bool = False
    above: dict[int, float] = field(default_factory=dict)


@dataclass
class Scan:
    """What filters could do for one scan."""

    table: str
    format: str
    rows: int
    task_ms: int
    filters: list[str]
    kept: float
    low_ms: float
    high_ms: float


@dataclass
class Query:
    """What filters could do for one query, and why others are not possible."""

    id: int
    description: str
    seconds: float
    task_ms: int
    low_ms: float = 0
    high_ms: float = 0
    scans: list[Scan] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def spared(self) -> tuple[float, float]:
        """Share of task time that filters spare at least (rows in random order) and at most (clustered)."""
        return self.low_ms / max(1, self.task_ms), self.high_ms / max(1, self.task_ms)

    @property
    def gains(self) -> bool:
        """Whether the query is expected to gain."""
        return (1 - WEIGHT) * self.spared[0] + WEIGHT * self.spared[1] >= THRESHOLD

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "gains": self.gains, "spared": [round(share, 4) for share in self.spared]}


def judge(execution: Execution) -> Query:
    """Finds the filters that the plugin would make, and weighs them by the metrics of the run."""
    seconds = (execution.end - execution.start) / 1000
    query = Query(execution.id, execution.description, seconds, sum(execution.stage_ms.values()))
    _Judge(execution, query).run()
    return query


class _Judge:
    def __init__(self, execution: Execution, query: Query) -> None:
        self._execution, self._query = execution, query
        self._root = execution.root()
        self._found: dict[frozenset[int], list[Filter]] = {}  # by scan
        nodes = {node.ids or frozenset({-id(node)}): node for node in self._root.walk()}
        self._nodes = list(nodes.values())  # those of a reused exchange once
        named = Counter(node.ids for node in self._root.walk())
        self._shared = {ids for ids, count in named.items() if ids and count > 1}
        self._spared: tuple[dict[int, float], ...] = ({}, {})  # by stage, at least and at most
        self._read: Counter[int] = Counter()  # by stage, the rows that it read from exchanges
        for node in self._nodes:
            for stage in node.ran.get("records read", ()):
                self._read[stage] += node.values["records read"]
        names = " ".join([execution.description, *(node.name for node in self._nodes)])
        self._merge = "MERGE, " if re.search(r"\bMERGE\b|MergeInto", names) else ""
        self._rewritten = "ReplaceData" in names

    def run(self) -> None:
        # A node stands before those below it, so filters from above a build side are known.
        for node in self._nodes:
            lists = bracketed(node.text)
            if re.fullmatch(_JOINS, node.name) and len(lists) > 1 and len(node.inputs) == 2:
                self._join(node)
            elif node.name == "BroadcastNestedLoopJoin":
                self._query.reasons.append("the join has no equal keys, and a log does not tell its ranges")
            elif re.fullmatch(r"\w+Join\w*", node.name) and not re.fullmatch(_JOINS, node.name):
                self._query.reasons.append(f"the join operator {node.name} makes no filters")
            elif node.name == "TakeOrderedAndProject" and lists and lists[0]:
                limit = re.search(r"limit=(\d+)", node.text)
                self._bounded(node, lists[0][0], int(limit[1]) if limit else 0, "TopK by")
            elif node.name == "WindowGroupLimit" and (limit := re.search(r", (\d+), Partial", node.text)):
                if len(lists) > 1:
                    self._query.reasons.append("a limit in each group needs a bound for each group")
                else:
                    self._bounded(node, lists[0][0], int(limit[1]), "rank limit by")
            elif re.fullmatch(_AGGREGATES, node.name) and "keys=[]" in node.text:
                functions = re.findall(r"partial_(\w+)\((.*?)\)(?=, partial_|\])", node.text)
                if functions and all(name in ("min", "max") for name, _ in functions):
                    self._bounded(node, functions[0][1], 1, f"{functions[0][0]} of")
        self._query.scans = [self._weigh(scan) for scan in self._nodes if scan.ids in self._found]
        times, query = self._execution.stage_ms, self._query
        query.low_ms, query.high_ms = (sum(min(ms, times[s]) for s, ms in c.items()) for c in self._spared)
        self._query.scans.sort(key=lambda scan: -scan.high_ms)
        self._query.reasons = list(dict.fromkeys(self._query.reasons))

    def _join(self, join: Node) -> None:
        kind = join_type(join)
        label = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower().removesuffix(" join") + " join"
        broadcast = join.name == "BroadcastHashJoin"
        allowed = [s for s in (0, 1) if kind in _FILTERED[s] and (not broadcast or s == streamed(join))]
        refused = ""
        if not allowed:
            needed = "both sides" if kind == "FullOuter" else f"its {('left', 'right')[streamed(join)]} side"
            refused = f"a{'n' * (label[0] in 'aeiou')} {label} needs every row of {needed}"
        for side in allowed:
            probe, build = join.inputs[side], join.inputs[1 - side]
            # Filters of joins above reach the build side too, and so narrow what it gives.
            both = {f.maker for f in self._below(probe)}
            narrowed = math.prod(f.kept for f in self._below(build) if f.maker not in both)
            built = build.rows * narrowed
            if not broadcast and built > probe.rows:
                refused = refused or "the build side is expected to have more rows than the probe side"
            elif built > max(_MANY_ROWS, _UNSELECTIVE * max((n.rows for n in build.scans()), default=0)):
                reason = f"the build side is expected to have more than {_MANY_ROWS} rows"
                refused = refused or f"{reason}, and no condition reduces them"
            else:
                sure = kind in ("Inner", "LeftSemi") or (kind, side) == ("RightOuter", 0)
                kept = (join.rows * narrowed if sure else built) / max(1, probe.rows)
                text, work = f"{self._merge}{label} by", (_probes(join, side),)
                made = Filter(text, join.ids, min(1.0, kept), min(1.0, kept), sure, work)
                if kept < _USELESS:
                    reached = [self._reach(probe, key, made) for key in bracketed(join.text)[side]]
                    # What the keys exclude together, one of them alone may let pass.
                    for scan in {s for r in reached for s in r if not all(s in other for other in reached)}:
                        self._found[scan][-1].sure = False
                return
        if refused:
            self._query.reasons.append(refused)

    def _below(self, node: Node) -> list[Filter]:
        return [f for scan in node.scans() for f in self._found.get(scan.ids, ())]

    def _bounded(self, node: Node, order: str, limit: int, label: str) -> None:
        """A bound on one column: of rows in random order some `limit * ln(rows / limit)` pass it."""
        below = node.inputs[0].inputs[0] if node.inputs[0].name == "Sort" else node.inputs[0]
        key, rows = _ORDER.split(order)[0], below.rows
        if limit > _MANY_ROWS:
            reason = f"the limit {limit} is above spark.dynamicFilters.topk.maxLimit={_MANY_ROWS}"
            self._query.reasons.append(reason)
        elif rows > limit > 0:
            kept = min(1.0, limit * (1 + math.log(rows / limit)) / rows)
            made = Filter(label, frozenset({-id(node)}), kept, limit / rows, True, (rows,), late=True)
            self._reach(below, key, made)

    def _reach(self, node: Node, key: str, made: Filter) -> set[frozenset[int]]:
        """Adds a filter to the scans that have the key; returns these."""
        column, why, reached = column_of(key), self._query.reasons, set[frozenset[int]]()
        if column is None:
            why.append(f"the {'sort' if made.late else 'join'} key is computed: {plain(key)}")
            return reached
        for scan, arrived in self._down(node, column, made):
            rows_only = f"{scan.table} can be filtered by rows only"
            found = self._found.get(scan.ids, [])
            if self._rewritten and scan.format == "iceberg":
                why.append("the command rewrites the rows that it reads from the table")
            elif made.late and (scan.format not in _FULL or scan.format == "orc"):
                why.append(f"{rows_only}, which is of no use to a TopK, min or max")
            elif scan.format not in _FULL and not arrived.above:
                why.append(f"{rows_only}, and the join in the same stage drops the same rows")
            else:
                reached.add(scan.ids)
                if all(f.maker != made.maker for f in found):
                    self._found[scan.ids] = [*found, replace(arrived, label=f"{made.label} {plain(key)}")]
        return reached

    def _down(self, node: Node, column: int, made: Filter) -> Iterator[tuple[Node, Filter]]:
        """The scans that a filter on a column reaches, by the rules of docs/operators.md."""
        name, lists, below, why = node.name, bracketed(node.text), node.inputs, self._query.reasons
        if node.is_scan:
            if not lists or has_column(lists[0], column) or "more fields" in node.text:
                yield node, made
        elif not below:
            return
        elif name == "Project":
            for alias in (_ALIAS.fullmatch(item) for item in (lists or [[]])[0]):
                if alias and int(alias[3]) == column:
                    if (renamed := column_of(alias[1])) is None:
                        why.append(f"{plain(alias[2])} is computed: {plain(alias[1])}")
                        return
                    column = renamed
                    break
            yield from self._down(below[0], column, made)
        elif re.fullmatch(_JOINS, name) and len(lists) > 1 and len(below) == 2:
            late_sides = (streamed(node),) if name == "BroadcastHashJoin" else ()
            for side in late_sides if made.late else (0, 1):
                if join_type(node) not in _PASSED[side]:
                    continue
                further = replace(made, work=(*made.work, _probes(node, side)))
                if any(re.search(rf"#{column}(?!\d)", n.text) for n in below[side].walk()):
                    yield from self._down(below[side], column, further)
                # Across, by the equal key of the other side.
                for key, other in zip(lists[side], lists[1 - side], strict=False):
                    equal = column_of(key) if column_of(other) == column and not made.late else None
                    if equal not in (None, column):
                        yield from self._down(below[side], equal, further)
        elif re.fullmatch(_AGGREGATES, name):
            # Groups sorted by their key: the bound goes below both aggregates and the exchange between.
            exchanged = re.fullmatch(_EXCHANGES, below[0].name) and below[0].ids not in self._shared
            partial = below[0].inputs[0] if exchanged else below[0]
            if not lists or not has_column(lists[0], column):
                why.append(_OF_GROUPS if made.late else _OTHER_GROUPS)
            elif not made.late:
                yield from self._down(below[0], column, made)
            elif re.fullmatch(_AGGREGATES, partial.name):
                yield from self._down(partial.inputs[0], column, made)
            else:
                why.append(_LATE)
        elif name == "Sort" or re.fullmatch(_EXCHANGES, name):
            if made.late or node.ids in self._shared:
                why.append(_LATE if made.late else _SHARED)
            else:
                rows, read = node.values.get("records read", 0), node.ran.get("records read", ())
                joined = sum(made.work[:-1])  # rows of joins between: they have a row of either side
                above = {stage: (rows + joined) / max(1, self._read[stage] + joined) for stage in read}
                work = made.work if name == "Sort" else (node.rows,)
                yield from self._down(below[0], column, replace(made, above=made.above | above, work=work))
        elif name in ("Window", "WindowGroupLimit"):
            keys = [i for items in lists[name == "Window" :] for i in items if not _ORDER.search(i)]
            if made.late:
                why.append(
                    f"the operator {name} is in the way: it reads all its input before the bound is known"
                )
            elif not has_column(keys, column):
                why.append("a window that is not partitioned by the filter's column is in the way")
            else:
                yield from self._down(below[0], column, made)
        elif name == "Union":
            position = next((i for i, c in enumerate(columns_of(below[0])) if column_of(c) == column), None)
            yield from self._down(below[0], column, made)
            for child in below[1:] if position is not None else ():
                for same in [column_of(c) for c in columns_of(child)[position:][:1]]:
                    if same is not None:
                        yield from self._down(child, same, made)
        elif name == "Filter" and made.late and re.fullmatch(_AGGREGATES, below[0].name):
            why.append(_LATE)  # HAVING may drop a group that was counted
        elif re.fullmatch(_PASSES, name):
            yield from self._down(below[0], column, made)
        else:
            reason = f"the operator {name} is in the way"
            why.append(next((r for pattern, r in _STOPS.items() if re.fullmatch(pattern, name)), reason))

    def _weigh(self, scan: Node) -> Scan:
        """What a scan could be spared at least and at most."""
        times, filters = self._execution.stage_ms, self._found[scan.ids]
        sure, full = [f for f in filters if f.sure], scan.format in _FULL
        task = sum(times[stage] for stage in scan.stages) or 1
        readers = sum(n.reader_ms for n in self._nodes if n.is_scan and n.stages & scan.stages)
        own = task * scan.reader_ms / readers if readers > scan.reader_ms else task
        reader = min(own, scan.reader_ms)
        # At most: whatever the stage does for rows that do not pass.
        high = (1 - math.prod(f.kept for f in filters)) * (own if full else own - reader)
        # At least: in random order pages are skipped only if few rows pass, and the filter's column is read
        # all the same. To test a row takes as long as the first join that drops it: later ones are spared.
        columns = max(1, len(columns_of(scan)))
        low = full * reader * math.exp(-_PAGE * math.prod(f.dense for f in sure)) * (columns - 1) / columns
        work = max((f.work for f in sure), key=sum, default=())
        left = scan.rows * (1 + len(work) * math.prod(f.kept for f in sure))
        low += (own - reader) * max(0.0, 1 - left / max(1, sum(work)))
        spared = {s: (min(low, high) * times[s] / task, high * times[s] / task) for s in scan.stages}
        for stage in {stage for f in filters for stage in f.above}:
            over = [f for f in filters if stage in f.above]
            share = max(f.above[stage] for f in over) * times[stage]
            most, least = math.prod(f.kept for f in over), math.prod(f.kept for f in over if f.sure)
            spared[stage] = (1 - least) * share, (1 - most) * share
        for stage, parts in spared.items():
            for counted, ms in zip(self._spared, parts, strict=True):
                counted[stage] = counted.get(stage, 0) + ms
        kept, names = math.prod(f.kept for f in filters), [f.label for f in filters]
        low, high = (sum(parts[i] for parts in spared.values()) for i in (0, 1))
        return Scan(scan.table, scan.format, scan.rows, task, names, kept, low, high)


def _probes(join: Node, side: int) -> int:
    """Rows of a side, twice if the other is large: to look into a large table takes as long as two tests."""
    return join.inputs[side].rows * (2 if join.inputs[1 - side].rows > _MANY_ROWS else 1)
