"""Reports in JSON, as a page and as a chart.

``python benchmarks/report.py docs/bench/*.json`` writes pages and charts from the reports, without measuring.
"""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from case import Case
from processor import UNITS, WALL
from results import AGAIN, OURS, STOCK, Measured

#: Of stock's speed: a query below it in both units, by more than A/A shows, counts as slower.
LEAST = 0.97
SUMMED = 15  # cases of a section that has sums
LINK = "[How this is measured](../../benchmarks/README.md)."
HOW_TO_READ = (
    "Seconds are medians by wall time. A ratio is the median of the ratios round by round, with the interval "
    "that holds the true median with 95 % confidence; below 1 is faster. A/A is a second run of stock over "
    "the first: what lies within it is chance."
)
COLORS = ("#9aa5b1", "#2ca02c", "#f2c94c", "#2f80ed", "#d9480f", "#7e22ce")


class Report:
    """What has been measured so far, in this run and in those before that wrote the same file.

    Args:
        environment: of this run; None to read a report only.
        keep: whether to go on with a report of another commit. Otherwise the report starts empty.
    """

    def __init__(
        self, path: Path, title: str = "", environment: Mapping[str, Any] | None = None, keep: bool = True
    ) -> None:
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        commits, now = known.get("environment", {}).get("commit", ""), (environment or {}).get("commit", "")
        if now not in commits:
            known = known if keep and commits else {}
        self.path = path
        self.title = known.get("title", title)
        self.environment = {**(environment or {}), **known.get("environment", {})}
        self.cases = [Measured(**case) for case in known.get("cases", [])]
        if now not in self.environment.get("commit", ""):
            self.environment["commit"] += f", {now}"

    def of(self, case: Case) -> Measured:
        """What was measured of a case."""
        for measured in self.cases:
            if (measured.part, measured.name, measured.table) == (case.part, case.name, case.table):
                return measured
        self.cases.append(Measured(case.part, case.name, case.table, case.why))
        return self.cases[-1]

    def write(self) -> None:
        """Writes JSON and page."""
        cases = [asdict(case) for case in self.cases if case.rounds or case.problems]
        report = {"title": self.title, "environment": self.environment, "cases": cases}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        self.path.with_suffix(".md").write_text(self.page(), encoding="utf-8")

    def page(self) -> str:
        """The report as Markdown."""
        parts = [f"# {self.title}"]
        if self.path.with_suffix(".png").exists():
            parts.append(f"![Seconds of each case]({self.path.stem}.png)")
        found = self.environment
        rounds = sorted({len(values) for case in self.cases for values in case.seconds[WALL].values()})
        machine = ", ".join(f"{k} {v}" for k, v in found.items() if k not in ("commit", "date"))
        counted = " to ".join(map(str, dict.fromkeys((rounds[0], rounds[-1])))) if rounds else "none"
        about = f"Commit {found.get('commit')}, {found.get('date')}; {machine}; rounds: {counted}."
        parts += [_wrapped(about), _wrapped(f"{HOW_TO_READ} {LINK}")]
        for part in dict.fromkeys(case.part for case in self.cases):
            cases = [case for case in self.cases if case.part == part and case.rounds]
            tables = {case.table for case in cases}
            parts.append(
                ", ".join(filter(None, (f"## {part}", *tables)) if len(tables) == 1 else [f"## {part}"])
            )
            parts += [_listed(lines)] if (lines := summary(cases)) else []
            parts += [_table(cases)] if cases else []
            parts += [_listed(notes)] if (notes := _notes(part, self.cases)) else []
        return "\n\n".join(parts) + "\n"

    @staticmethod
    def line(measured: Measured) -> str:
        """What a case took, on one line."""
        units = ", ".join(
            f"{unit} " + ", ".join(f"{v} {_seconds(measured.median(unit, v))} s" for v in of)
            for unit in measured.units
            if (of := [v for v in measured.variants if v in measured.seconds[unit]])
        )
        skipped = f"; {' and '.join(_skipped(measured))} skipped" if measured.skipped else ""
        return f"{measured.part}, {measured.name}, {measured.table}: {units}{skipped}"

    def draw(self) -> None:
        """Bars of medians, logarithmic."""
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot

        cases = [case for case in self.cases if case.rounds]
        names = list(dict.fromkeys(variant for case in cases for variant in case.variants))
        figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.11 * len(cases) * (len(names) + 1)), dpi=110)
        for i, name in enumerate(names):
            measured = [(at, case) for at, case in enumerate(cases) if name in case.variants]
            places = [at + (i - (len(names) - 1) / 2) * 0.8 / len(names) for at, _ in measured]
            seconds = [case.median(WALL, name) for _, case in measured]
            axes.barh(places, seconds, 0.8 / len(names), label=name, color=COLORS[i % len(COLORS)])
        labels = [", ".join(filter(None, (case.name, case.table))) for case in cases]
        axes.set_yticks(range(len(cases)), labels, fontsize=8)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlabel("seconds, median")
        axes.legend(fontsize=8)
        figure.tight_layout()
        figure.savefig(self.path.with_suffix(".png"), metadata={"Software": None})
        pyplot.close(figure)


def is_slower(case: Measured) -> bool:
    """Whether ours is slower than stock in both units, by more than A/A shows where it was measured."""

    def least(unit: str) -> float:
        known = AGAIN in case.seconds[unit]
        return max(1 / LEAST, case.pairs(unit, AGAIN, STOCK).interval[1]) if known else 1 / LEAST

    return all(case.pairs(unit, OURS, STOCK).ratio > least(unit) for unit in UNITS)


def summary(cases: Sequence[Measured]) -> list[str]:
    """Sums, means and what is slower; nothing unless stock and ours were measured of all."""
    cases = [case for case in cases if set(case.units) == set(UNITS) and {STOCK, OURS} <= set(case.variants)]
    if len(cases) < SUMMED:
        return []
    lines = []
    for unit in UNITS:
        names = [v for v in cases[0].variants if all(v in case.variants for case in cases)]
        sums = {name: sum(case.median(unit, name) for case in cases) for name in names}
        speeds = [1 / case.pairs(unit, OURS, STOCK).ratio for case in cases]
        mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
        lines.append(
            f"{unit}: sum of {len(cases)} queries {', '.join(f'{n} {s:.1f} s' for n, s in sums.items())}; "
            f"stock / ours {sums[STOCK] / sums[OURS]:.2f}, geometric mean {mean:.2f}, "
            f"{sum(s >= 1.5 for s in speeds)} at least 1.5 times faster, "
            f"{sum(s < LEAST for s in speeds)} below {LEAST}"
        )
    slower = [case.name for case in cases if is_slower(case)]
    by_chance = ", beyond A/A" if all(AGAIN in case.seconds[WALL] for case in cases) else ""
    return [*lines, f"slower in both units{by_chance}: {', '.join(slower) or 'none'}"]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, without columns that are empty."""
    rows = list(rows)
    kept = [i for i in range(len(header)) if any(row[i] for row in rows)]
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line[i] for i in kept)} |" for line in lines)


def _table(cases: Sequence[Measured]) -> str:
    variants = list(dict.fromkeys(variant for case in cases for variant in case.variants))
    base, compared = variants[0], [*variants[1:], AGAIN]
    header = ["case", "table", *(f"{variant}, s" for variant in variants)]
    for unit in UNITS:
        titles = ["A/A" if variant == AGAIN else f"{variant} / {base}" for variant in compared]
        header += titles if unit == WALL else [f"{unit}: {title}" for title in titles]
    header += ["row groups skipped", "rows skipped", "filters", "why"]
    tables = {case.table for case in cases}
    rows = []
    for case in sorted(cases, key=lambda case: case.name) if len(cases) >= SUMMED else cases:
        row = [case.name, case.table if len(tables) > 1 else ""]
        row += [_seconds(case.median(WALL, v)) if v in case.variants else "" for v in variants]
        row += [
            str(case.pairs(unit, variant, base)) if {variant, base} <= set(case.seconds.get(unit, ())) else ""
            for unit in UNITS
            for variant in compared
        ]
        rows.append([*row, *_skipped(case), case.filters, case.why])
    return table(header, rows)


def _skipped(case: Measured) -> tuple[str, str]:
    """Row groups and rows that a variant left out; of several, the one that left out most."""
    if not case.skipped:
        return "", ""
    found = max(case.skipped.values(), key=lambda skipped: skipped["rows_pruned"])
    groups, rows = found["row_groups_total"], found["rows_total"]
    share = f" ({100 * found['rows_pruned'] / rows:.2f} %)" if rows else ""
    return f"{found['row_groups_pruned']:,} of {groups:,}", f"{found['rows_pruned']:,}{share}"


def _notes(part: str, cases: Sequence[Measured]) -> list[str]:
    return [
        f"{', '.join(filter(None, (case.name, case.table)))}: {what}: {text}"
        for case in cases
        if case.part == part
        for what, text in [*case.notes.items(), *case.problems.items()]
    ]


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value >= 0.01 else f"{value:.4f}"


def _listed(items: Sequence[str]) -> str:
    return "\n".join(_wrapped(f"* {item}", "  ") for item in items)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def main() -> None:
    """Writes the page of each report, and its chart if the page has one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", type=Path, nargs="+")
    for path in parser.parse_args().reports:
        report = Report(path)
        if report.cases:
            if path.with_suffix(".png").exists():
                report.draw()
            path.with_suffix(".md").write_text(report.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
