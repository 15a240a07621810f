"""What was measured of TopKs, the figures to reach, and both as Markdown, JSON and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import report
from report import Report
from results import Figure, Pairs, Timed
from runs import FIRST, ORACLE, REPEATED, SECOND, STOCK, VARIANTS, Skipped

TITLES = {STOCK: "stock", ORACLE: "oracle", FIRST: "ours, first run", REPEATED: "ours, repeated"}
STYLES = {
    STOCK: ("#7f7f7f", "s"),
    ORACLE: ("#2ca02c", "v"),
    FIRST: ("#ff7f0e", "^"),
    REPEATED: ("#1f77b4", "o"),
}
TARGET_MILLIONS = 32  # the figures to reach are meant at this size
USELESS_LIMIT = 1.03


@dataclass
class Cell(Timed):
    """One query on one table."""

    query: str
    layout: str
    millions: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    skipped: dict[str, Skipped] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For the JSON report."""
        return {
            "query": self.query,
            "layout": self.layout,
            "rows": self.millions * 1_000_000,
            "seconds": self.seconds,
            "median_seconds": self.medians(),
            "stock_over_repeated": self.ratio(STOCK, REPEATED),
            "stock_over_first": self.ratio(STOCK, FIRST),
            "first_over_second": self.ratio(FIRST, SECOND),
            "repeated_over_oracle": self.ratio(REPEATED, ORACLE),
            "skipped": {variant: skipped.as_dict() for variant, skipped in self.skipped.items()},
        }


class TopKReport(Report):
    """The benchmark of TopKs."""

    name = "topk"
    title = "TopK filters on a web log"

    def __init__(self, queries: dict[str, str]) -> None:
        """``queries`` are the texts by name."""
        super().__init__()
        self.queries = queries
        self.cells: list[Cell] = []
        self.useless: list[Pairs] = []
        self.without_plugin: list[Pairs] = []

    def measured(self) -> dict[str, Any]:
        """See `Report`."""
        return {
            "queries": self.queries,
            "scaling": [cell.as_dict() for cell in self.cells],
            "useless": [pairs.as_dict() for pairs in self.useless],
            "without_plugin": [pairs.as_dict() for pairs in self.without_plugin],
        }

    def figures(self) -> list[Figure]:
        """Of q23 in steady state, and of cases where filters are of no use."""
        by_table = {(cell.layout, cell.millions): cell for cell in self.cells if cell.query == "q23"}
        sizes = sorted({size for _, size in by_table})
        found = []
        for layout in dict.fromkeys(layout for layout, _ in by_table):
            found += _of_layout(by_table, layout, sizes)
        for pairs in self.useless:
            found.append(Figure.of_pairs(f"{pairs.name}: cost relative to stock", USELESS_LIMIT, pairs))
        return found

    def sections(self) -> list[str]:
        """See `Report`."""
        parts = [f"## Cost against rows\n\n![cost against rows]({self.name}.png)"] if self.cells else []
        for name in dict.fromkeys(cell.query for cell in self.cells):
            cells = [cell for cell in self.cells if cell.query == name]
            parts.append(f"### {name}\n\n`{self.queries[name]}`\n\n{_scaling(cells)}")
        if self.useless:
            title = "## Filters that help little or not at all\n\n"
            parts.append(title + _pairs(self.useless, "with filters"))
        if self.without_plugin:
            text = "Stock is measured with the plugin loaded and `enabled=false`; here against no plugin:\n\n"
            parts.append("## Is stock stock?\n\n" + text + _pairs(self.without_plugin, "plugin off"))
        return parts

    def draw(self, pyplot: Any) -> Any:
        """Cost against rows, both logarithmic."""
        if not self.cells:
            return None
        queries = list(dict.fromkeys(cell.query for cell in self.cells))
        layouts = list(dict.fromkeys(cell.layout for cell in self.cells))
        size = (4 * len(layouts) + 1, 3.4 * len(queries) + 0.6)
        figure, grid = pyplot.subplots(
            len(queries), len(layouts), figsize=size, sharex=True, sharey="row", squeeze=False
        )
        for query, line in zip(queries, grid, strict=True):
            for layout, axes in zip(layouts, line, strict=True):
                _curves(axes, [c for c in self.cells if (c.query, c.layout) == (query, layout)])
                axes.set_title(f"{query}, {layout} files", fontsize=10)
            line[0].set_ylabel("seconds")
        for axes in grid[-1]:
            axes.set_xlabel("rows")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
        figure.tight_layout(rect=(0, 0.05, 1, 1))
        return figure


def _of_layout(by_table: dict[tuple[str, int], Cell], layout: str, sizes: Sequence[int]) -> list[Figure]:
    smallest, largest = by_table[layout, sizes[0]], by_table[layout, sizes[-1]]
    ours, small = largest.median(REPEATED), smallest.median(REPEATED)
    if ours is None:
        return []
    size = (largest.millions, TARGET_MILLIONS)
    rows = f"{layout} files, {largest.millions}M rows"
    faster = largest.ratio(STOCK, REPEATED)
    found = [Figure.of_ratio(f"q23: times faster than stock, {rows}", "at least", 15, faster, *size)]
    if smallest is not largest and small:
        what = f"q23: cost relative to {smallest.millions}M rows, {rows}"
        found.append(Figure.of_ratio(what, "at most", 2, ours / small, *size))
    if layout == "int64":
        what, against = f"q23: cost relative to the oracle, {rows}", largest.ratio(REPEATED, ORACLE)
        found.append(Figure.of_ratio(what, "at most", 1.15, against, *size))
    if (again := largest.ratio(FIRST, SECOND)) is not None:
        what = f"q23: first run relative to the second, {rows}"
        found.append(Figure.of_ratio(what, "at most", 2, again, *size))
    other = by_table.get(("int64", largest.millions)) if layout == "int96" else None
    if other and (theirs := other.median(REPEATED)):  # a report is written after each table
        what = f"q23: cost relative to int64 files, {rows}"
        found.append(Figure.of_ratio(what, "at most", 3, ours / theirs, *size))
    return found


def _scaling(cells: Sequence[Cell]) -> str:
    header = ["files", "rows", *(f"{TITLES[variant]}, s" for variant in VARIANTS)]
    ratios = [(STOCK, FIRST), (FIRST, SECOND), (STOCK, REPEATED)]
    header += [*(f"{above} / {below}" for above, below in ratios), "repeated / oracle"]
    header += ["row groups pruned", "rows pruned"]
    rows = []
    for cell in sorted(cells, key=lambda cell: (cell.layout, cell.millions)):
        row = [cell.layout, f"{cell.millions}M"]
        row += [report.number(cell.median(variant), 3) for variant in VARIANTS]
        row += [report.number(cell.ratio(*of), 1) for of in ratios]
        row += [report.number(cell.ratio(REPEATED, ORACLE), 2)]
        rows.append([*row, *report.skipped(cell.skipped.get(REPEATED))])
    return report.table(header, rows)


def _pairs(measured: Sequence[Pairs], other: str) -> str:
    header = ["case", "table", "stock, s", f"{other}, s", "ratio", "95 % interval"]
    header += ["row groups pruned", "rows pruned", "why"]
    rows = []
    for pairs in measured:
        base, mine = (sorted(values)[len(values) // 2] for values in (pairs.base, pairs.other))
        row = [pairs.name, pairs.table, f"{base:.3f}", f"{mine:.3f}", *report.ratio(pairs)]
        rows.append([*row, *report.skipped(pairs.skipped), pairs.why])
    return report.table(header, rows)


def _curves(axes: Any, cells: list[Cell]) -> None:
    cells.sort(key=lambda cell: cell.millions)
    for variant, (colour, marker) in STYLES.items():
        points = [(cell.millions, cell.median(variant)) for cell in cells if cell.seconds.get(variant)]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker=marker, label=TITLES[variant])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([cell.millions for cell in cells], [f"{cell.millions}M" for cell in cells])
    axes.grid(True, which="both", alpha=0.25)
