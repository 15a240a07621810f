"""Version of this package, and of the protocol it speaks with the plugin."""

from __future__ import annotations

import pkgutil
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "spark-dynamic-filters"

# Raised whenever a table function or message changes its meaning; the plugin reports its own number.
PROTOCOL = 1

# As SparkLines.scala has them.
SPARK_LINES = ("4.1", "4.2", "4.3")

# Where the repository is, if this package is used from a source checkout: its VERSION and its freshly built
# jar come before whatever an earlier installation left behind.
_CHECKOUT = Path(__file__).resolve().parents[2]


def checkout() -> Path | None:
    """The source checkout this package is used from, or None for an installed package."""
    return _CHECKOUT if (_CHECKOUT / "build.sbt").is_file() and (_CHECKOUT / "VERSION").is_file() else None


def _read_version() -> str:
    source = checkout()
    if source is not None:
        return (source / "VERSION").read_text(encoding="utf-8").strip()
    # `make wheel` puts this file in. First: a zip of the package, as for --py-files, has no metadata, and
    # what there is belongs to another version that is installed.
    try:
        own = pkgutil.get_data(__name__.rpartition(".")[0], "VERSION")
    except OSError:
        own = None
    if own is not None:
        return own.decode("utf-8").strip()
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise ImportError(
            f"{DISTRIBUTION} does not find its version: zip the package as pip has installed it from the "
            "wheel, not its bare sources"
        ) from None


__version__: str = _read_version()
