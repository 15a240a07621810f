"""The code blocks of Markdown pages.

A block is run unless a comment before it says why not: ``<!-- not run: it takes an hour -->``. Two more
comments change how: ``<!-- new Python -->`` starts another Python process, as a reader would who has finished
with the block before, and ``<!-- a server -->`` leaves a shell command running until the page ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Text to read: plans, drawings, output.
NO_CODE = frozenset({"text"})
RUN = frozenset({"python", "sql", "sh"})

_FENCE = re.compile(r"^( *)```([^\n`]*)$")
_NOTE = re.compile(r"^ *<!-- (not run: .+|new Python|a server) -->$")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        page: path below the repository.
        line: of its first line of code, from 1.
        language: what follows the fence.
        code: without its indentation.
        notes: the comments before it.
    """

    page: str
    line: int
    language: str
    code: str
    notes: list[str] = field(default_factory=list)

    @property
    def reason(self) -> str | None:
        """Why it is not run; None if it is."""
        return next((n.removeprefix("not run: ") for n in self.notes if n.startswith("not run: ")), None)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """README and everything below docs/ that has code, the notebooks too."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found += sorted((ROOT / "docs").rglob("*.ipynb"))
    names = [str(page.relative_to(ROOT)) for page in found]
    return [name for name in names if any(b.language in RUN for b in blocks(name))]


def blocks(page: str) -> list[Block]:
    """The blocks of a page in their order, text included."""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return [
            Block(page, number, "python", "".join(cell["source"]))
            for number, cell in enumerate(cells, start=1)
            if cell["cell_type"] == "code"
        ]
    return list(_fenced(page, text.splitlines()))


def _fenced(page: str, lines: list[str]) -> Iterator[Block]:
    notes: list[str] = []
    inside: tuple[int, int, str] | None = None
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line)
        if inside is not None:
            first, indent, language = inside
            if fence and not fence[2]:
                code = "\n".join(text[indent:] for text in lines[first - 1 : number - 1])
                yield Block(page, first, language, code, notes)
                notes, inside = [], None
        elif fence:
            inside = (number + 1, len(fence[1]), fence[2].strip())
        elif note := _NOTE.match(line):
            notes = [*notes, note[1]]
        elif line.strip():
            notes = []
