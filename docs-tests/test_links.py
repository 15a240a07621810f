"""Links between the repository's pages lead somewhere; Sphinx checks those inside docs/ once more."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from pages import ROOT

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def _tracked() -> list[str]:
    found = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.splitlines()


def _text(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("name", _tracked())
def test_links(name: str) -> None:
    page = ROOT / name
    broken = []
    for link in _LINK.findall(_text(page)):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target)):
            broken.append(link)
    assert not broken


# Reports are written by the benchmarks.
WRITTEN = [n for n in _tracked() if not n.startswith("docs/bench/") or n.endswith("README.md")]


@pytest.mark.parametrize("name", WRITTEN)
def test_lines_are_short(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    long = [i for i, line in enumerate(lines, start=1) if len(line) > 100 and not re.search(r"^\||://", line)]
    assert not long
