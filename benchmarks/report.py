"""Reports in Markdown and JSON, with a plot: what all benchmarks' reports share."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import runs
from results import Figure, Pairs
from runs import Skipped


class Report(ABC):
    """What one run of a benchmark has measured so far; written again and again, so that nothing is lost."""

    name: ClassVar[str]
    title: ClassVar[str]

    def __init__(self) -> None:
        """Looks at the machine, while it does nothing yet."""
        self.environment = runs.environment()
        self.problems: list[str] = []

    @abstractmethod
    def figures(self) -> list[Figure]:
        """The figures to reach and what was seen."""

    @abstractmethod
    def measured(self) -> dict[str, Any]:
        """All runs, not only the medians, for JSON."""

    @abstractmethod
    def sections(self) -> list[str]:
        """The Markdown after the figures."""

    @abstractmethod
    def draw(self, pyplot: Any) -> Any:
        """The plot, or None if there is nothing to show."""

    def problem(self, text: str) -> None:
        """Notes what went wrong, once."""
        if text not in self.problems:
            print(f"PROBLEM: {text}", file=sys.stderr, flush=True)
            self.problems.append(text)

    def markdown(self) -> str:
        """The report as people read it."""
        parts = [f"# {self.title}", ", ".join(f"{k} {v}" for k, v in self.environment.items()) + "."]
        parts.append(
            "How this is measured, and what the columns mean: see [benchmarks](../../benchmarks/README.md)."
        )
        if self.problems:
            parts.append("**Problems.**\n\n" + "\n".join(f"* {problem}" for problem in self.problems))
        if found := self.figures():
            rows = [(figure.what, figure.target, figure.seen, figure.met) for figure in found]
            parts.append("## Figures to reach\n\n" + table(("figure", "target", "seen", "met"), rows))
        return "\n\n".join([*parts, *self.sections()]) + "\n"

    def write(self, folder: Path) -> None:
        """Writes Markdown and JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.md").write_text(self.markdown())
        figures = [vars(figure) for figure in self.figures()]
        values = {"environment": self.environment, **self.measured()}
        values |= {"figures": figures, "problems": self.problems}
        (folder / f"{self.name}.json").write_text(json.dumps(values, indent=1) + "\n")

    def finish(self, folder: Path) -> None:
        """Writes everything, prints it, and ends the process with 1 if there were problems."""
        self.write(folder)
        self.plot(folder)
        print(self.markdown())
        if self.problems:
            raise SystemExit(1)

    def plot(self, folder: Path) -> None:
        """Writes the plot, where matplotlib is installed."""
        try:
            import matplotlib
        except ImportError:
            print("no plot: it needs matplotlib", file=sys.stderr)
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot

        if (figure := self.draw(pyplot)) is not None:
            figure.savefig(folder / f"{self.name}.png", dpi=130)
            pyplot.close(figure)


def line(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(map(line, [header, ["---"] * len(header), *rows]))


def skipped(what: Skipped | None) -> tuple[str, str]:
    """Row groups and rows that were pruned, for two columns."""
    if what is None:
        return "", ""
    groups = f"{what.row_groups_pruned:,} of {what.row_groups_total:,}"
    if not what.rows_total:
        return groups, "0"
    return groups, f"{what.rows_pruned:,} ({100 * what.rows_pruned / what.rows_total:.2f} %)"


def number(value: float | None, digits: int) -> str:
    """A number, or nothing where it was not measured."""
    return "" if value is None else f"{value:.{digits}f}"


def ratio(pairs: Pairs | None) -> tuple[str, str]:
    """The median ratio and its interval, for two columns."""
    if pairs is None:
        return "", ""
    low, high = pairs.interval
    return f"{pairs.ratio:.3f}", f"{low:.3f} to {high:.3f}"
