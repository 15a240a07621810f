"""The chart of README: what a few queries take with and without filters, from the reports in docs/bench.

``python benchmarks/overview.py`` writes docs/bench/overview.png. It measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

from datafiles import ROOT
from processor import WALL
from report import Report
from results import OURS, REPEATED, STOCK

mpl.use("Agg")
import matplotlib.pyplot as plt

BENCH = ROOT / "docs" / "bench"
GREY, RED = "#9aa5b1", "#d9480f"


@dataclass(frozen=True)
class Bar:
    """One query: seconds in stock Spark and with filters."""

    label: str
    stock: float
    ours: float


def bars() -> list[Bar]:
    """The queries of the table in README, in its order."""
    topk, joins = (Report(BENCH / f"{name}.json").cases for name in ("topk", "joins"))

    def of_topk(query: str, label: str) -> Bar:
        (case,) = [c for c in topk if (c.name, c.table) == (query, "int64, 32M rows")]
        return Bar(label, case.median(WALL, STOCK), case.median(WALL, REPEATED))

    def of_join(part: str, name: str, rows: str, label: str) -> Bar:
        (case,) = [c for c in joins if (c.part, c.name, c.table) == (part, name, rows)]
        return Bar(label, case.median(WALL, STOCK), case.median(WALL, OURS))

    return [
        of_topk("q23", "TopK with a condition\n32M rows"),
        of_topk("latest1000", "TopK, newest 1,000\n32M rows"),
        of_join("clustered", "broadcast", "100M rows", "broadcast join\n100M rows, 950 keys"),
        of_join("clustered", "merge", "100M rows", "sort-merge join\n100M rows, 950 keys"),
        of_join("star", "merge", "10M rows", "star join, 3 dimensions\n10M rows"),
    ]


def draw(data: Sequence[Bar], file: Path) -> None:
    """Two bars a query, on a logarithmic scale, with their seconds and how many times faster."""
    figure, axes = plt.subplots(figsize=(8, 3.9), dpi=110)
    places = range(len(data))
    axes.barh([i - 0.2 for i in places], [b.stock for b in data], 0.38, color=GREY, label="stock Spark 4.3")
    axes.barh(
        [i + 0.2 for i in places],
        [b.ours for b in data],
        0.38,
        color=RED,
        label="dynamic filters, later runs",
    )
    for i, bar in enumerate(data):
        axes.text(bar.stock * 1.06, i - 0.2, f"{bar.stock:.1f} s", va="center", fontsize=8)
        times = bar.stock / bar.ours
        text = f"{bar.ours:.2f} s, {times:.{0 if times >= 10 else 1}f} times faster"
        axes.text(bar.ours * 1.06, i + 0.2, text, va="center", fontsize=8, color=RED, weight="bold")
    axes.set_xscale("log")
    axes.set_xlim(0.1, 200)
    axes.set_yticks(list(places), [b.label for b in data], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("seconds, logarithmic; medians, two cores", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(file, metadata={"Software": None})


if __name__ == "__main__":
    draw(bars(), BENCH / "overview.png")
