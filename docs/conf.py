"""How Sphinx makes the site of these pages: `make docs`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.parsers.rst import Parser as RstParser
from myst_parser.sphinx_ import Parser as MystParser

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

_OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./)+([^)#]+)(#[^)]*)?\)")
# Pages of the repository that are pages of the site too.
_INCLUDED = {
    "README.md": "/index.md",
    "CHANGELOG.md": "/changes.md",
    "benchmarks": "/bench/how.md",
    "benchmarks/README.md": "/bench/how.md",
}

project = "spark-dynamic-filters"
author = "The spark-dynamic-filters developers"
version = release = (ROOT / "VERSION").read_text(encoding="utf-8").strip()

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["bench/*.json"]
source_suffix = {".md": "markdown", ".ipynb": "notebook"}
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]
highlight_language = "text"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# The package imports them; the site is built without.
autodoc_mock_imports = ["pyspark", "google"]

html_theme = "furo"
html_title = f"spark-dynamic-filters {release}"

# Code has a button that copies it; plans and outputs (`text`) have none.
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"


class NotebookParser(RstParser):
    """A notebook as a page: its cells in order, each with its outputs."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        cells = [_cell(cell) for cell in json.loads(inputstring)["cells"]]
        MystParser().parse("\n\n".join(cells), document)


_FENCED = re.compile(r"^( *)```(\w+)\n(.*?)\n *```$", re.M | re.S)


def _cell(cell: dict[str, Any]) -> str:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return text
    return "\n\n".join([f"```python\n{text}\n```", *map(_output, cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    """HTML if the output has it, else text; longer fences than those inside."""
    data = output.get("data", {})
    if "text/html" in data:
        return f"`````{{raw}} html\n{''.join(data['text/html'])}\n`````"
    return f"`````text\n{''.join(data.get('text/plain', output.get('text', ''))).rstrip()}\n`````"


def _prepared(app: Sphinx, docname: str, source: list[str]) -> None:
    """Links to files outside the site become text. Reports of benchmarks are in no table of contents."""

    def target(found: re.Match[str]) -> str:
        text, path, anchor = found[1], found[2].rstrip("/"), found[3] or ""
        page = _INCLUDED.get(path)
        return f"[{text}]({page}{anchor})" if page else text

    source[0] = _OUTSIDE.sub(target, source[0])
    if docname.startswith("bench/") and docname != "bench/README":
        source[0] = f"---\norphan: true\n---\n{source[0]}"


def _included(app: Sphinx, relative: Path, parent: str, content: list[str]) -> None:
    """Links of files that pages include are relative to the repository."""
    content[0] = content[0].replace("](../docs/", "](/").replace("](docs/", "](/")


def _markdown(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings are Markdown as far as they use it: `code` and fenced blocks."""
    text = re.sub(r"(?<![`:])`([^`]+)`(?!`)", r"``\1``", "\n".join(lines))
    lines[:] = _FENCED.sub(_code_block, text).split("\n")


def _code_block(found: re.Match[str]) -> str:
    indent, language, code = found.groups()
    body = "\n".join(f"   {line}" if line.strip() else "" for line in code.split("\n"))
    return f"{indent}.. code-block:: {language}\n\n{body}\n"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_source_parser(NotebookParser)
    app.connect("source-read", _prepared)
    app.connect("include-read", _included)
    # Before napoleon, which understands sections.
    app.connect("autodoc-process-docstring", _markdown, priority=400)
