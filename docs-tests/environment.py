"""An environment as `pip install` of the wheel makes it, offline and in seconds.

It has the wheel, and links to those distributions of the development environment that the wheel's extras and
their requirements name. What a page needs beside these is missing here as it is for a reader.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

# The project's own package comes from the wheel.
_OWN = "spark-dynamic-filters"


def make(folder: Path, wheel: Path, extras: str) -> Path:
    """Makes the environment.

    Args:
        folder: of the environment; must not exist.
        wheel: the project's wheel.
        extras: of the wheel, separated by commas, such as "spark,filters".

    Returns:
        Its Python.
    """
    venv.create(folder, symlinks=True)
    bin_folder = folder / "bin"
    (packages,) = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--target", str(packages), str(wheel)], check=True)
    for name in _needed(packages, extras):
        _link(metadata.distribution(name), packages, bin_folder)
    return bin_folder / "python"


def variables(python: Path) -> dict[str, str]:
    """What a process in the environment gets: nothing of the one that runs the tests but Java."""
    inherited = {k: os.environ[k] for k in ("HOME", "JAVA_HOME", "LANG", "TMPDIR") if k in os.environ}
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    # Tests share their machine: a small heap and loopback addresses only.
    return {**inherited, "PATH": path, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}


def _needed(packages: Path, extras: str) -> set[str]:
    (own,) = metadata.distributions(name=_OWN, path=[str(packages)])
    found: set[str] = set()
    waiting = [(requirement, extras.split(",")) for requirement in own.requires or []]
    while waiting:
        text, wanted = waiting.pop()
        requirement = Requirement(text)
        name = requirement.name.lower().replace("_", "-")
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in ["", *wanted]):
            continue
        inner = [(text, list(requirement.extras)) for text in metadata.distribution(name).requires or []]
        waiting += inner if name not in found or requirement.extras else []
        found.add(name)
    return found - {_OWN}


def _link(distribution: metadata.Distribution, packages: Path, bin_folder: Path) -> None:
    for file in distribution.files or []:
        source = Path(str(distribution.locate_file(file.parts[0])))
        if file.parts[0] != "..":
            target = packages / file.parts[0]
        elif "bin" in file.parts and file.name != "activate":
            source, target = Path(str(distribution.locate_file(file))).resolve(), bin_folder / file.name
        else:
            continue
        if source.is_dir() and target.is_dir() and not target.is_symlink():
            _link_members(source, target)  # a namespace such as google/, which several distributions share
        elif source.exists() and not target.exists() and file.parts[0] != "__pycache__":
            target.symlink_to(source)


def _link_members(source: Path, target: Path) -> None:
    for member in source.iterdir():
        if not (target / member.name).exists():
            (target / member.name).symlink_to(member)
