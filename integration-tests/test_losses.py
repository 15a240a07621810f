"""Generated statements while shuffle files are lost, executors end and slow tasks are copied, at random
moments: the rows are those without filters, and no query is aborted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

# Applications of their own: the mode of the suite makes no difference.
pytestmark = [pytest.mark.processes, pytest.mark.client, pytest.mark.large, pytest.mark.timeout(400)]

_SECONDS = 60


@pytest.mark.parametrize("mode", ["classic", "local-cluster"])
def test_losses_at_random_moments(tmp_path: Path, mode: str) -> None:
    tests = Path(__file__).parent
    path = os.pathsep.join([str(tests), *sys.path])
    command = [sys.executable, str(tests / "fuzz.py"), "--losses", "--mode", mode, "--seed", "7"]
    with (tmp_path / "application.log").open("wb") as log:
        done = subprocess.run(
            [*command, "--seconds", str(_SECONDS)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path},
            timeout=350,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-8_000:]
    lost = re.search(r"lost: files of (\d+) map tasks, (\d+) executors", done.stdout)
    assert lost, done.stdout
    assert int(lost[1]) > 0, done.stdout
    assert re.search(r"[1-9]\d* same", done.stdout), done.stdout
