"""Every code block of README and docs runs as it stands, in order, with nothing but the wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import NO_CODE, ROOT, RUN, blocks, pages
from runner import Page

#: In every `make test`; the other pages run in `make test-docs-all`, a part of `make test-all`.
FIRST = frozenset({"README.md", "docs/notebook.ipynb"})
EVERY = [pytest.param(p, marks=() if p in FIRST else pytest.mark.large) for p in pages()]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", EVERY)
def test_blocks_run(page: str, python: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    runner = Page(python, folder)
    try:
        for block in blocks(page):
            if block.language in RUN and block.reason is None:
                runner.run(block)
    finally:
        runner.close()


def test_every_block_has_a_language() -> None:
    """Names in braces are directives of the site."""
    everything = [b for page in ROOT.joinpath("docs").rglob("*.md") for b in blocks(_name(page))]
    everything += blocks("README.md")
    unknown = [
        f"{b} is of language {b.language or 'none'}"
        for b in everything
        if b.language not in RUN | NO_CODE and not b.language.startswith("{") and b.reason is None
    ]
    assert not unknown, f"mark them as {sorted(RUN | NO_CODE)}, or say why they are not run: {unknown}"


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))
