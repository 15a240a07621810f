"""The environment of the docs' code blocks: the wheel, with all its extras."""

from __future__ import annotations

from pathlib import Path

import environment
import pytest
from pages import ROOT


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    wheel = ROOT / "dist" / f"spark_dynamic_filters-{version}-py3-none-any.whl"
    assert wheel.is_file(), f"{wheel.name} is not in dist; build it with `make wheel`"
    return environment.make(tmp_path_factory.mktemp("env") / "venv", wheel, "spark,filters")
