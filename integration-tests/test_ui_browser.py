"""The tab Dynamic Filters as a browser draws it: `make test-browser`."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from support import ui
from support.applications import run_application, value

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_APPLICATION = (
    ui.FETCHING
    + """
import subprocess
spark = start("local[2]", settings={"spark.ui.enabled": "true", "spark.ui.port": "0"})
spark.range(0, 40000, 1, 4).selectExpr("id AS k", "id AS v").write.parquet(str(folder / "p"))
spark.read.parquet(str(folder / "p")).orderBy("k").limit(5).collect()
number = settled(spark)
port = spark.sparkContext.uiWebUrl.rsplit(":", 1)[1]
for name, path in (("list", ""), ("query", f"query/?id={number}")):
    subprocess.run([
        sys.argv[2], "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        # Else it looks for hosts elsewhere, which may be closed.
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
        f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1200",
        f"--screenshot={folder / name}.png", f"http://127.0.0.1:{port}/DynamicFilters/{path}",
    ], check=True, timeout=120)
print("done", number)
"""
)


def test_screenshots(tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser is installed: none of {', '.join(_BROWSERS)} is on the PATH")
    assert int(value(run_application(_APPLICATION, tmp_path, browser, seconds=280), "done")) >= 0
    for name in ("list", "query"):
        picture = (tmp_path / f"{name}.png").read_bytes()
        width, height = struct.unpack(">II", picture[16:24])
        assert (width, height) == (1400, 1200)
        # A blank page of this size has about 6 kB.
        assert len(picture) > 15_000, f"{name} is empty"
