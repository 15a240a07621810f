"""`python -m spark_dynamic_filters jar | confs | demo | advise`."""

from __future__ import annotations

import argparse
import sys

from . import _advise_report, _demo
from ._errors import shown
from ._jar import faults_jar_path, jar_path
from ._settings import SETTINGS
from ._version import __version__


def main(argv: list[str] | None = None) -> int:
    """Runs a command; returns the process's exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m spark_dynamic_filters", description="Dynamic filters for Apache Spark."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    jar = commands.add_parser("jar", help="print the path of the bundled jar, for --jars")
    jar.add_argument(
        "--faults", action="store_true", help="print the path of the jar that injects faults, for tests"
    )
    commands.add_parser("confs", help="print the settings with their defaults and meaning")
    demo = commands.add_parser("demo", help="run a TopK and a join with and without filters")
    demo.add_argument("--rows", type=_rows, default=_demo.ROWS, help="rows of its table (%(default)s)")
    demo.add_argument("--data", help="folder in which its data is kept (default: a temporary one)")
    advise = commands.add_parser("advise", help="say which queries of Spark event logs would gain")
    advise.add_argument("paths", nargs="+", metavar="PATH", help="an event log, or a folder of them")
    advise.add_argument("--json", metavar="F", help="write everything that was found to a JSON file")
    advise.add_argument("--html", metavar="F", help="write the report to an HTML file")
    options = parser.parse_args(argv)
    if options.command == "advise":
        return _advise_report.main(options.paths, options.json, options.html)
    if options.command == "demo":
        return _demo.main(options.rows, options.data)
    if options.command == "jar":
        try:
            print(faults_jar_path() if options.faults else jar_path())
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
            return 1
    else:
        keys = max(len(setting.key) for setting in SETTINGS)
        defaults = max(len(setting.default) for setting in SETTINGS)
        for setting in SETTINGS:
            print(f"{setting.key:<{keys}}  {setting.default:<{defaults}}  {setting.meaning}")
            print(f"{'':<{keys}}  {'':<{defaults}}  Takes {setting.takes}.")
    return 0


def _rows(text: str) -> int:
    try:
        rows = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shown(text)} is no whole number") from None
    if rows < _demo.ROWS_OF_A_DEVICE:
        raise argparse.ArgumentTypeError(f"at least {_demo.ROWS_OF_A_DEVICE} rows are needed, {rows} given")
    return rows


if __name__ == "__main__":
    sys.exit(main())
