"""Tables of TPC-H and TPC-DS by tpcgen-cli."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from datafiles import MARKER
from progress import step

#: Files of a table at most; only the large ones have several. Without parts a table is no folder.
PARTS = 8


def generated(folder: Path, suite: str, scale: float, options: Sequence[str] = ()) -> Path:
    """``folder`` with one folder of Parquet files a table, made if nothing has been made there yet.

    Args:
        suite: ``tpch`` or ``tpcds``.
        options: more of the generator's.
    """
    if not (folder / MARKER).exists():
        shutil.rmtree(folder, ignore_errors=True)
        command = [_program(), suite, "parquet", f"--scale-factor={scale:g}", f"--parts={PARTS}", *options]
        command += [f"--output-dir={folder}", "--quiet"]
        with step(f"{suite} tables, scale factor {scale:g}"):
            subprocess.run(command, check=True)
        (folder / MARKER).touch()
    return folder


def _program() -> str:
    # The interpreter's own, though not on the PATH.
    beside = Path(sysconfig.get_path("scripts")) / "tpcgen-cli"
    found = str(beside) if beside.exists() else shutil.which("tpcgen-cli")
    if found is None:
        sys.exit("tpcgen-cli is missing: pip install tpcgen-cli")
    return found
