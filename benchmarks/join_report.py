"""The joins' results as Markdown, JSON and a plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tables
from join_queries import CLUSTERED, PARTS, STAR, TAP, TPCH, USELESS
from join_results import Measured, figures, sums
from join_runs import BLOOM, OURS
from runs import ORACLE, STOCK

NAME = "joins"
TITLES = {STOCK: "stock", ORACLE: "oracle", BLOOM: "stock with bloom filter", OURS: "ours"}
COLOURS = {STOCK: "#7f7f7f", ORACLE: "#2ca02c", BLOOM: "#ff7f0e", OURS: "#1f77b4"}


@dataclass
class Results:
    """Everything the benchmark of joins has measured so far."""

    environment: dict[str, Any]
    measured: list[Measured] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def keep(self, folder: Path) -> None:
        """Takes over what an earlier run measured, as long as this one does not measure it again."""
        file = folder / f"{NAME}.json"
        if file.exists():
            self.add([Measured.from_dict(values) for values in json.loads(file.read_text())["measured"]])

    def add(self, measured: Sequence[Measured]) -> None:
        """Adds what was measured, in place of what is there of the same."""
        new = {(one.part, one.name, one.label) for one in measured}
        self.measured = [one for one in self.measured if (one.part, one.name, one.label) not in new]
        self.measured += measured
        self.measured.sort(key=lambda one: (PARTS.index(one.part), one.size))

    def write(self, folder: Path) -> None:
        """Writes the JSON and Markdown; called after every query, so that a long run loses nothing."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.md").write_text(self.markdown())
        (folder / f"{NAME}.json").write_text(json.dumps(self.as_dict(), indent=1) + "\n")

    def as_dict(self) -> dict[str, Any]:
        """All runs, not only the medians."""
        return {
            "environment": self.environment,
            "measured": [one.as_dict() for one in self.measured],
            "figures": [vars(figure) for figure in figures(self.measured)],
            "problems": self.problems,
        }

    def of(self, part: str) -> list[Measured]:
        """What one part measured."""
        return [one for one in self.measured if one.part == part]

    def markdown(self) -> str:
        """The report as people read it."""
        parts = ["# Join filters", tables.environment(self.environment)]
        parts.append(
            "How this is measured, and what the columns mean: see [benchmarks](../../benchmarks/README.md)."
        )
        if self.problems:
            parts.append("**Problems.**\n\n" + "\n".join(f"* {problem}" for problem in self.problems))
        if found := figures(self.measured):
            parts.append("## Figures to reach\n\n" + tables.figures(found))
        if self.of(CLUSTERED) or self.of(TPCH):
            parts.append(f"![seconds and ratios]({NAME}.png)")
        if found := self.of(CLUSTERED):
            parts.append("## A small table joined to a large one clustered on the key\n\n" + _compared(found))
        if found := self.of(STAR):
            parts.append("## A star join with three dimensions\n\n" + _compared(found))
        parts += _tpch(self.of(TPCH))
        if found := self.of(USELESS):
            parts.append("## Filters that let everything pass\n\n" + _pairs(found))
        if found := self.of(TAP):
            parts.append("## What a tap costs\n\n" + _pairs(found))
        return "\n\n".join(parts) + "\n"


def _compared(measured: Sequence[Measured]) -> str:
    header = ["join", "table", *(f"{title}, s" for title in TITLES.values()), "bloom filters"]
    header += ["stock / ours", "bloom / ours", "ours / oracle", "waited, s", "row groups pruned"]
    header += ["rows pruned", "filters"]
    rows = []
    for one in measured:
        row = [one.name, one.label, *(tables.number(one.median(variant), 3) for variant in TITLES)]
        row.append("" if one.bloom_filters is None else str(one.bloom_filters))
        row += [tables.number(one.ratio(*of), 2) for of in ((STOCK, OURS), (BLOOM, OURS), (OURS, ORACLE))]
        row += [tables.number(one.wait_seconds, 2), *tables.skipped(one.skipped), one.forms]
        rows.append(row)
    return tables.table(header, rows)


def _tpch(measured: Sequence[Measured]) -> list[str]:
    parts = []
    for scale in dict.fromkeys(one.size for one in measured):
        queries = [one for one in measured if one.size == scale]
        header = ["query", "stock, s", "stock with bloom filter, s", "ours, s", "bloom filters"]
        header += ["stock / ours", "ours / stock, by pairs", "95 % interval", "bloom / ours"]
        header += ["row groups pruned", "rows pruned"]
        rows = [_tpch_row(one) for one in queries]
        total = sums(queries)
        row = ["sum", *(tables.number(total.get(variant), 2) for variant in (STOCK, BLOOM, OURS)), ""]
        for above in (STOCK, BLOOM):
            ratio = total[above] / total[OURS] if above in total and OURS in total else None
            row += [tables.number(ratio, 2), *(["", ""] if above == STOCK else [])]
        rows.append([*row, "", ""])
        parts.append(f"## TPC-H, scale factor {scale:g}\n\n" + tables.table(header, rows))
    return parts


def _tpch_row(one: Measured) -> list[str]:
    row = [one.name, *(tables.number(one.median(variant), 3) for variant in (STOCK, BLOOM, OURS))]
    row.append("" if one.bloom_filters is None else str(one.bloom_filters))
    row.append(tables.number(one.ratio(STOCK, OURS), 2))
    row += _ratio(one)
    row.append(tables.number(one.ratio(BLOOM, OURS), 2))
    return [*row, *tables.skipped(one.skipped)]


def _pairs(measured: Sequence[Measured]) -> str:
    header = ["case", "table", "stock, s", "ours, s", "ours / stock, by pairs", "95 % interval", "waited, s"]
    header += ["row groups pruned", "rows pruned", "filters", "why"]
    rows = []
    for one in measured:
        row = [one.name, one.label, *(tables.number(one.median(variant), 3) for variant in (STOCK, OURS))]
        row += [*_ratio(one), tables.number(one.wait_seconds, 2), *tables.skipped(one.skipped)]
        rows.append([*row, one.forms, one.why])
    return tables.table(header, rows)


def _ratio(one: Measured) -> tuple[str, str]:
    pairs = one.pairs()
    if pairs is None:
        return "", ""
    low, high = pairs.interval
    return f"{pairs.ratio:.3f}", f"{low:.3f} to {high:.3f}"


def plot(results: Results, folder: Path) -> Path | None:
    """Seconds of the clustered joins, and TPC-H's ratios; None without matplotlib or anything to show."""
    try:
        import matplotlib
    except ImportError:
        return None
    scales = list(dict.fromkeys(one.size for one in results.of(TPCH)))
    joins = results.of(CLUSTERED)
    panels = bool(joins) + len(scales)
    if not panels:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(panels, figsize=(11, 3.6 * panels), squeeze=False)
    axes = [line[0] for line in grid]
    if joins:
        _bars(axes.pop(0), joins)
    for scale, one in zip(scales, axes, strict=True):
        _ratios(one, scale, [query for query in results.of(TPCH) if query.size == scale])
    figure.tight_layout()
    path = folder / f"{NAME}.png"
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path


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


def _ratios(axes: Any, scale: float, queries: Sequence[Measured]) -> None:
    for i, variant in enumerate((BLOOM, OURS)):
        ratios = [(at + 0.4 * i, one.ratio(STOCK, variant)) for at, one in enumerate(queries)]
        ratios = [(at, ratio) for at, ratio in ratios if ratio is not None]
        if ratios:
            axes.bar(*zip(*ratios, strict=True), 0.4, color=COLOURS[variant], label=TITLES[variant])
    axes.set_xticks([at + 0.2 for at in range(len(queries))], [one.name for one in queries], fontsize=8)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_ylabel("times faster than stock")
    axes.set_title(f"TPC-H, scale factor {scale:g}", fontsize=10)
    axes.legend(fontsize=8, frameon=False)
    axes.grid(True, axis="y", alpha=0.25)
