"""What was measured of joins, the figures to reach, and both as Markdown, JSON and a plot."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import report
from join_queries import BLOOM, CLUSTERED, OURS, PARTS, STAR, TAP, USELESS, Case
from report import Report
from results import Figure, Pairs, Timed
from runs import ORACLE, STOCK, Skipped

TITLES = {STOCK: "stock", ORACLE: "oracle", BLOOM: "stock with bloom filter", OURS: "ours"}
COLOURS = {STOCK: "#7f7f7f", ORACLE: "#2ca02c", BLOOM: "#ff7f0e", OURS: "#1f77b4"}
TARGET_MILLIONS = 100  # the figures for clustered joins are meant at this size
USELESS_LIMIT = 1.03
TAP_LIMIT = 1.02
LEAST_PAIRS = 5  # with fewer, an interval says nothing


@dataclass
class Measured(Timed):
    """One query: the seconds of each variant, round by round, and what filters did in their last run."""

    part: str
    name: str
    size: float
    label: str
    sql: str
    why: str = ""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    skipped: Skipped | None = None
    filters: Sequence[Mapping[str, Any]] = ()
    bloom_filters: int | None = None

    @classmethod
    def of(cls, case: Case, name: str) -> Measured:
        """Nothing measured yet."""
        return cls(case.part, name, case.size, case.label, case.sql, case.why)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Measured:
        """The inverse of ``as_dict``."""
        fields = {name: values[name] for name in cls.__dataclass_fields__}
        fields["skipped"] = Skipped(**fields["skipped"]) if fields["skipped"] else None
        return cls(**fields)

    def as_dict(self) -> dict[str, Any]:
        """For the JSON report."""
        return {**asdict(self), "median_seconds": self.medians()}

    def pairs(self) -> Pairs | None:
        """Ours over stock, round by round; None where either was not measured."""
        base, other = self.seconds.get(STOCK), self.seconds.get(OURS)
        if not base or not other:
            return None
        return Pairs(self.name, self.why, self.label, base, other, self.skipped)

    @property
    def wait_seconds(self) -> float | None:
        """The longest time that a filter of the last run held something back."""
        waits = [row["wait_ms"] for row in self.filters if row["wait_ms"] is not None]
        return max(waits) / 1e3 if waits else None

    @property
    def forms(self) -> str:
        """The last run's filters, equal ones counted: what they became, or why not."""
        found = Counter(
            f"{row['form']}" if row["state"] == "ready" else f"{row['state']}: {row['reason'] or 'no reason'}"
            for row in self.filters
        )
        return "; ".join(f"{count} x {what}" if count > 1 else what for what, count in found.items())


class JoinReport(Report):
    """The benchmark of joins."""

    name = "joins"
    title = "Join filters"

    def __init__(self) -> None:
        """Nothing measured yet."""
        super().__init__()
        self.all: list[Measured] = []

    def keep(self, folder: Path) -> None:
        """Takes over what an earlier run measured, as long as this one does not measure it again."""
        file = folder / f"{self.name}.json"
        if file.exists():
            self.add([Measured.from_dict(values) for values in json.loads(file.read_text())["measured"]])

    def add(self, measured: Sequence[Measured]) -> None:
        """Adds what was measured, in place of what is there of the same."""
        new = {(one.part, one.name, one.label) for one in measured}
        self.all = [one for one in self.all if (one.part, one.name, one.label) not in new]
        self.all += measured
        self.all.sort(key=lambda one: (PARTS.index(one.part), one.size))

    def measured(self) -> dict[str, Any]:
        """See `Report`."""
        return {"measured": [one.as_dict() for one in self.all]}

    def of(self, part: str) -> list[Measured]:
        """What one part measured."""
        return [one for one in self.all if one.part == part]

    def figures(self) -> list[Figure]:
        """The figures to reach, as far as these measurements hold them."""
        found = []
        for one in self.of(CLUSTERED):
            found += _clustered(one)
        for one in self.of(USELESS):
            found += _at_most(one, USELESS_LIMIT, f"every row matches: {one.name}: cost relative to stock")
        for one in self.of(TAP):
            if "build stage" in one.name:
                found += _at_most(one, TAP_LIMIT, f"tap, {one.name}: relative to stock")
        return found

    def sections(self) -> list[str]:
        """See `Report`."""
        parts = []
        if found := self.of(CLUSTERED):
            parts.append(f"![seconds]({self.name}.png)")
            parts.append("## A small table joined to a large one clustered on the key\n\n" + _compared(found))
        if found := self.of(STAR):
            parts.append("## A star join with three dimensions\n\n" + _compared(found))
        if found := self.of(USELESS):
            parts.append("## Filters that let everything pass\n\n" + _pairs(found))
        if found := self.of(TAP):
            parts.append("## What a tap costs\n\n" + _pairs(found))
        return parts

    def draw(self, pyplot: Any) -> Any:
        """Seconds of the clustered joins."""
        if not (joins := self.of(CLUSTERED)):
            return None
        figure, axes = pyplot.subplots(figsize=(11, 3.6))
        _bars(axes, joins)
        figure.tight_layout()
        return figure


def _clustered(one: Measured) -> list[Figure]:
    where, size = f"{one.name}, {one.label}", (one.size, TARGET_MILLIONS)
    found = []
    if (faster := one.ratio(STOCK, OURS)) is not None:
        found.append(Figure.of_ratio(f"{where}: times faster than stock", "at least", 15, faster, *size))
    if (cost := one.ratio(OURS, ORACLE)) is not None:
        found.append(Figure.of_ratio(f"{where}: cost relative to the oracle", "at most", 1.25, cost, *size))
    return found


def _at_most(one: Measured, limit: float, what: str) -> list[Figure]:
    pairs = one.pairs()
    return [] if pairs is None else [Figure.of_pairs(what, limit, pairs, LEAST_PAIRS)]


def _compared(measured: Sequence[Measured]) -> str:
    header = ["join", "table", *(f"{title}, s" for title in TITLES.values()), "bloom filters"]
    header += ["stock / ours", "bloom / ours", "ours / oracle", "waited, s", "row groups pruned"]
    header += ["rows pruned", "filters"]
    rows = []
    for one in measured:
        row = [one.name, one.label, *(report.number(one.median(variant), 3) for variant in TITLES)]
        row.append("" if one.bloom_filters is None else str(one.bloom_filters))
        row += [report.number(one.ratio(*of), 2) for of in ((STOCK, OURS), (BLOOM, OURS), (OURS, ORACLE))]
        row += [report.number(one.wait_seconds, 2), *report.skipped(one.skipped), one.forms]
        rows.append(row)
    return report.table(header, rows)


def _pairs(measured: Sequence[Measured]) -> str:
    header = ["case", "table", "stock, s", "ours, s", "ours / stock, by pairs", "95 % interval", "waited, s"]
    header += ["row groups pruned", "rows pruned", "filters", "why"]
    rows = []
    for one in measured:
        row = [one.name, one.label, *(report.number(one.median(variant), 3) for variant in (STOCK, OURS))]
        row += [*report.ratio(one.pairs()), report.number(one.wait_seconds, 2), *report.skipped(one.skipped)]
        rows.append([*row, one.forms, one.why])
    return report.table(header, rows)


def _bars(axes: Any, measured: Sequence[Measured]) -> None:
    width = 0.8 / len(TITLES)
    for i, (variant, title) in enumerate(TITLES.items()):
        seconds = [(at + i * width, one.median(variant)) for at, one in enumerate(measured)]
        seconds = [(at, value) for at, value in seconds if value is not None]
        if seconds:
            axes.bar(*zip(*seconds, strict=True), width, color=COLOURS[variant], label=title)
    labels = [f"{one.name}\n{one.label}" for one in measured]
    axes.set_xticks([at + 1.5 * width for at in range(len(measured))], labels, fontsize=8)
    axes.set_yscale("log")
    axes.set_ylabel("seconds")
    axes.set_title("a small table joined to a large one clustered on the key", fontsize=10)
    axes.legend(fontsize=8, frameon=False, ncols=len(TITLES))
    axes.grid(True, axis="y", alpha=0.25)
