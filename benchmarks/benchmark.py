"""A benchmark's session, views and command line: what bench.py and bench_joins.py share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

import datafiles
import runs
from progress import Step
from report import Report


class Benchmark:
    """What is measured for a report, in one session at a time."""

    spark: SparkSession

    def __init__(self, options: argparse.Namespace, report: Report) -> None:
        """Takes the parsed command line."""
        self.options = options
        self.report = report
        self._views: dict[str, Path] = {}

    def register(self, name: str, folder: Path, progress: Step) -> str:
        """Makes a folder a view, with its files in the page cache; what is one already stays as it is."""
        if self._views.get(name) != folder:
            progress.note(f"reading {name} into the page cache")
            runs.warm_page_cache(folder)
            runs.register(self.spark, name, folder)
            self._views[name] = folder
        return name


class Options(argparse.ArgumentParser):
    """A command line with lists of names and numbers."""

    def __init__(self, description: str | None, data: str) -> None:
        """``data`` is the folder below .data where the tables are."""
        super().__init__(description=description)
        self._known: dict[str, Sequence[str]] = {}
        self.add_argument(
            "--data",
            type=lambda text: Path(text).resolve(),
            default=datafiles.DATA / data,
            help=f"where the tables are or will be (default: .data/{data})",
        )
        self.add_argument(
            "--out",
            type=Path,
            default=datafiles.ROOT / "docs" / "bench",
            help="folder of the report (default: docs/bench)",
        )

    def names(self, name: str, known: Sequence[str]) -> None:
        """A list of some of ``known``, by default all."""
        self._known[name] = known
        text = f"any of {','.join(known)} (default: all)"
        self.add_argument(f"--{name}", type=lambda given: given.split(","), default=list(known), help=text)

    def numbers(self, name: str, kind: type, default: Sequence[float], text: str) -> None:
        """A list of numbers, ascending."""
        self.add_argument(
            f"--{name}",
            type=lambda given: sorted({kind(part) for part in given.split(",")}),
            default=list(default),
            help=f"{text} (default: {','.join(f'{value:g}' for value in default)})",
        )

    def number(self, name: str, default: float, text: str) -> None:
        """One number, of the default's type."""
        self.add_argument(
            f"--{name}", type=type(default), default=default, help=f"{text} (default: %(default)s)"
        )

    def parsed(self) -> argparse.Namespace:
        """The checked command line of this process."""
        options = self.parse_args()
        for name, known in self._known.items():
            if unknown := [value for value in getattr(options, name) if value not in known]:
                self.error(f"--{name}: unknown {', '.join(unknown)}; choose from {', '.join(known)}")
        return options
