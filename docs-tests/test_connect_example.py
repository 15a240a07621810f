"""What examples/connect/compose.yaml runs in containers works without them, with nothing but the wheel."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pages import ROOT, Block, blocks
from runner import Page

_EXAMPLE = "examples/connect"


@pytest.mark.large
@pytest.mark.timeout(600)
def test_server_and_notebook(python: Path, tmp_path: Path) -> None:
    folder = tmp_path / "connect"
    shutil.copytree(ROOT / _EXAMPLE, folder)
    compose = (folder / "compose.yaml").read_text(encoding="utf-8")
    (command,) = re.findall(r"command: (sh .*)", compose)
    page = Page(python, folder)
    try:
        command = command.replace("/home/spark/connect/", "")
        page.run(Block(f"{_EXAMPLE}/compose.yaml", 1, "sh", command, ["a server"]))
        for cell in blocks(f"{_EXAMPLE}/hello.ipynb"):
            page.run(cell)
    finally:
        page.close()


def test_images_and_files_of_the_compose_file_exist() -> None:
    """Docker is not needed to see that what the files name is there."""
    compose = (ROOT / _EXAMPLE / "compose.yaml").read_text(encoding="utf-8")
    (dockerfile,) = re.findall(r"dockerfile: (.*)", compose)
    docker = (ROOT / dockerfile).read_text(encoding="utf-8")
    (copied, target) = re.findall(r"COPY (examples\S*) (\S+)", docker)[0]
    (script,) = re.findall(rf"{target}/(\S+)", compose)
    assert (ROOT / copied / script).is_file()
