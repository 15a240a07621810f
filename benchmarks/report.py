"""The results as Markdown, JSON and a plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tables
from results import Cell, Figure, Pairs, figures
from runs import FIRST, ORACLE, REPEATED, STOCK, VARIANTS

NAME = "topk"
TITLES = {STOCK: "stock", ORACLE: "oracle", FIRST: "ours, first run", REPEATED: "ours, repeated"}


@dataclass
class Results:
    """Everything one run of the benchmark has measured so far."""

    environment: dict[str, Any]
    queries: dict[str, str]
    cells: list[Cell] = field(default_factory=list)
    useless: list[Pairs] = field(default_factory=list)
    without_plugin: list[Pairs] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Writes the JSON and Markdown; called after every stage, so that a long run loses nothing."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.md").write_text(self.markdown())
        (folder / f"{NAME}.json").write_text(json.dumps(self.as_dict(), indent=1) + "\n")

    def as_dict(self) -> dict[str, Any]:
        """All runs, not only the medians."""
        return {
            "environment": self.environment,
            "queries": self.queries,
            "scaling": [cell.as_dict() for cell in self.cells],
            "useless": [pairs.as_dict() for pairs in self.useless],
            "without_plugin": [pairs.as_dict() for pairs in self.without_plugin],
            "figures": [vars(figure) for figure in self.figures()],
            "problems": self.problems,
        }

    def figures(self) -> list[Figure]:
        """The figures to reach and what was seen."""
        return figures(self.cells, self.useless)

    def markdown(self) -> str:
        """The report as people read it."""
        parts = ["# TopK filters on a web log", tables.environment(self.environment)]
        parts.append(
            "How this is measured, and what the columns mean: see [benchmarks](../../benchmarks/README.md)."
        )
        if self.problems:
            parts.append("**Answers differ.**\n\n" + "\n".join(f"* {problem}" for problem in self.problems))
        if found := self.figures():
            parts.append("## Figures to reach\n\n" + tables.figures(found))
        if self.cells:
            parts.append(f"## Cost against rows\n\n![cost against rows]({NAME}.png)")
        for name in dict.fromkeys(cell.query for cell in self.cells):
            cells = [cell for cell in self.cells if cell.query == name]
            parts.append(f"### {name}\n\n`{self.queries[name]}`\n\n{_scaling(cells)}")
        if self.useless:
            parts.append(
                "## Filters that help little or not at all\n\n" + _pairs(self.useless, "with filters")
            )
        if self.without_plugin:
            text = "Stock is measured with the plugin loaded and `enabled=false`; here against no plugin:\n\n"
            parts.append("## Is stock stock?\n\n" + text + _pairs(self.without_plugin, "plugin off"))
        return "\n\n".join(parts) + "\n"


def _scaling(cells: Sequence[Cell]) -> str:
    header = ["files", "rows", *(f"{TITLES[variant]}, s" for variant in VARIANTS)]
    header += ["stock / first", "stock / repeated", "repeated / oracle", "row groups pruned", "rows pruned"]
    rows = []
    for cell in sorted(cells, key=lambda cell: (cell.layout, cell.millions)):
        row = [
            cell.layout,
            f"{cell.millions}M",
            *(tables.number(cell.median(variant), 3) for variant in VARIANTS),
        ]
        row += [tables.number(cell.ratio(STOCK, FIRST), 1), tables.number(cell.ratio(STOCK, REPEATED), 1)]
        row += [tables.number(cell.ratio(REPEATED, ORACLE), 2), *tables.skipped(cell.skipped.get(REPEATED))]
        rows.append(row)
    return tables.table(header, rows)


def _pairs(measured: Sequence[Pairs], other: str) -> str:
    header = (
        "case",
        "table",
        "stock, s",
        f"{other}, s",
        "ratio",
        "95 % interval",
        "row groups pruned",
        "rows pruned",
        "why",
    )
    rows = []
    for pairs in measured:
        low, high = pairs.interval
        base, mine = (sorted(values)[len(values) // 2] for values in (pairs.base, pairs.other))
        row = [
            pairs.name,
            pairs.table,
            f"{base:.3f}",
            f"{mine:.3f}",
            f"{pairs.ratio:.3f}",
            f"{low:.3f} to {high:.3f}",
        ]
        rows.append([*row, *tables.skipped(pairs.skipped), pairs.why])
    return tables.table(header, rows)


def plot(results: Results, folder: Path) -> Path | None:
    """Cost against rows, both logarithmic; None where matplotlib is missing or there is nothing to show."""
    try:
        import matplotlib
    except ImportError:
        return None
    if not results.cells:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    queries = list(dict.fromkeys(cell.query for cell in results.cells))
    layouts = list(dict.fromkeys(cell.layout for cell in results.cells))
    size = (4 * len(layouts) + 1, 3.4 * len(queries) + 0.6)
    figure, grid = pyplot.subplots(
        len(queries), len(layouts), figsize=size, sharex=True, sharey="row", squeeze=False
    )
    styles = {
        STOCK: ("#7f7f7f", "s"),
        ORACLE: ("#2ca02c", "v"),
        FIRST: ("#ff7f0e", "^"),
        REPEATED: ("#1f77b4", "o"),
    }
    for query, line in zip(queries, grid, strict=True):
        for layout, axes in zip(layouts, line, strict=True):
            cells = [cell for cell in results.cells if (cell.query, cell.layout) == (query, layout)]
            cells.sort(key=lambda cell: cell.millions)
            for variant, (colour, marker) in styles.items():
                points = [
                    (cell.millions, cell.median(variant)) for cell in cells if cell.seconds.get(variant)
                ]
                if points:
                    axes.plot(*zip(*points, strict=True), color=colour, marker=marker, label=TITLES[variant])
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks([cell.millions for cell in cells], [f"{cell.millions}M" for cell in cells])
            axes.set_title(f"{query}, {layout} files", fontsize=10)
            axes.grid(True, which="both", alpha=0.25)
        line[0].set_ylabel("seconds")
    for axes in grid[-1]:
        axes.set_xlabel("rows")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    path = folder / f"{NAME}.png"
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path
