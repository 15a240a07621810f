"""The chart of README: what queries take with and without filters, from the reports in docs/bench.

``python benchmarks/overview.py`` writes docs/bench/overview.png. It measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes

from datafiles import ROOT
from processor import WALL
from report import Report
from results import FIRST, OURS, REPEATED, STOCK, Measured

mpl.use("Agg")
import matplotlib.pyplot as plt

BENCH = ROOT / "docs" / "bench"
GREY, ORANGE, RED = "#9aa5b1", "#f59f00", "#d9480f"


@dataclass(frozen=True)
class Bars:
    """One query, or all queries of a benchmark: seconds in stock Spark and with filters.

    Attributes:
        first: the first run over a table, None if no report measures it.
    """

    label: str
    stock: float
    ours: float
    first: float | None = None


def queries() -> list[Bars]:
    """The single queries of the table in README, in its order."""
    topk, joins = _cases("topk-80m"), _cases("joins")

    def of_topk(query: str, label: str) -> Bars:
        (case,) = [c for c in topk if c.name == query]
        return Bars(label, *(case.median(WALL, variant) for variant in (STOCK, REPEATED, FIRST)))

    def of_join(part: str, name: str, rows: str, label: str) -> Bars:
        (case,) = [c for c in joins if (c.part, c.name, c.table) == (part, name, rows)]
        return Bars(label, case.median(WALL, STOCK), case.median(WALL, OURS))

    return [
        of_topk("q23", "TopK with a condition\n80M rows"),
        of_topk("latest1000", "TopK, newest 1,000\n80M rows"),
        of_join("clustered", "broadcast", "100M rows", "broadcast join\n100M rows, 950 keys"),
        of_join("clustered", "merge", "100M rows", "sort-merge join\n100M rows, 950 keys"),
        of_join("star", "merge", "10M rows", "star join, 3 dimensions\n10M rows"),
    ]


def benchmarks() -> list[Bars]:
    """Sums of all queries of TPC-H and TPC-DS."""
    names = {
        "tpch-10": "TPC-H, 22 queries\nscale factor 10",
        "tpcds-10-aa": "TPC-DS, 99 queries\nscale factor 10",
    }
    return [
        Bars(label, *(sum(c.median(WALL, variant) for c in _cases(name)) for variant in (STOCK, OURS)))
        for name, label in names.items()
    ]


def _cases(report: str) -> Sequence[Measured]:
    return Report(BENCH / f"{report}.json").cases


def draw(file: Path) -> None:
    """Two charts with linear axes: single queries, and whole benchmarks."""
    figure, (above, below) = plt.subplots(2, figsize=(8, 5.6), dpi=110, height_ratios=(5, 2))
    _draw(above, queries())
    _draw(below, benchmarks())
    above.legend(frameon=False, fontsize=8, loc="lower right")
    below.set_xlabel("seconds, shorter is better; medians, two cores, Spark 4.3", fontsize=8)
    figure.tight_layout()
    figure.savefig(file, metadata={"Software": None})


def _draw(axes: Axes, data: Sequence[Bars]) -> None:
    for i, bars in enumerate(data):
        apart = 0.14 if bars.first is None else 0.27
        _bar(axes, i - apart, bars.stock, GREY, "stock Spark")
        if bars.first is not None:
            _bar(axes, i, bars.first, ORANGE, "dynamic filters, first run over a table")
        _bar(axes, i + apart, bars.ours, RED, "dynamic filters, later runs", bars.stock / bars.ours)
    axes.set_xlim(0, 1.18 * max(b.stock for b in data))
    axes.set_yticks(range(len(data)), [b.label for b in data], fontsize=8)
    axes.invert_yaxis()
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _bar(
    axes: Axes, place: float, seconds: float, color: str, label: str, times: float | None = None
) -> None:
    known = axes.get_legend_handles_labels()[1]
    axes.barh(place, seconds, 0.25, color=color, label=None if label in known else label)
    text = f" {seconds:.{0 if seconds >= 100 else 1 if seconds >= 1 else 2}f} s"
    if times is not None:
        text += f", {times:.{0 if times >= 10 else 1}f} times faster"
    axes.text(seconds, place, text, va="center", fontsize=8, weight="bold" if times else "normal")


if __name__ == "__main__":
    draw(BENCH / "overview.png")
