"""`python -m spark_dynamic_filters jar | confs`."""

from __future__ import annotations

import argparse
import sys

from ._jar import jar_path
from ._settings import SETTINGS
from ._version import __version__


def main(argv: list[str] | None = None) -> int:
    """Runs a command; returns the process's exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m spark_dynamic_filters", description="Dynamic filters for Apache Spark."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("jar", help="print the path of the bundled jar, for --jars")
    commands.add_parser("confs", help="print the settings with their defaults and meaning")
    command = parser.parse_args(argv).command
    if command == "jar":
        try:
            print(jar_path())
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
            return 1
    else:
        print_confs()
    return 0


def print_confs() -> None:
    """Prints the table of settings."""
    keys = max(len(setting.key) for setting in SETTINGS)
    defaults = max(len(setting.default) for setting in SETTINGS)
    for setting in SETTINGS:
        print(f"{setting.key:<{keys}}  {setting.default:<{defaults}}  {setting.meaning}")
        print(f"{'':<{keys}}  {'':<{defaults}}  Takes {setting.expected}.")


if __name__ == "__main__":
    sys.exit(main())
