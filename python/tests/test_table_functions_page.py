"""docs/table-functions.md lists each table function with its columns and types, in their order."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/table-functions.md"
SOURCE = ROOT / "jvm/src/main/scala/org/dynamicfilters/lifecycle/ReportFunctions.scala"

_COLUMN = re.compile(r"(\w+) ([A-Z]+(?:<[^>]*>)?)")


def _ddl(text: str) -> list[tuple[str, str]]:
    """The columns of the string literals in `text`."""
    return _COLUMN.findall("".join(re.findall(r'"([^"]*)"', text)))


def _functions() -> dict[str, list[tuple[str, str]]]:
    source = SOURCE.read_text(encoding="utf-8")
    named = {
        name: _ddl(text)
        for name, text in re.findall(
            r"val (\w+Columns) =\s*StructType\.fromDDL\((.*?)\n?\s*\)\n", source, re.S
        )
    }
    structs = [(name, "ARRAY<STRUCT>") for name in ("filters", "scans")]
    report = [*named["QueryColumns"], *structs, ("duration_ms", "BIGINT"), ("times", "ARRAY<STRUCT>")]
    report += [("part_of", "BIGINT"), ("processor_ms", "BIGINT"), ("summary", "STRING")]
    functions = {"dynamic_filter_report(tag)": report}
    for name, schema in re.findall(
        r'function\(\s*"(\w+)",\s*(\w+Columns|StructType.*?\n? *\)),', source, re.S
    ):
        functions[f"{name}()"] = named.get(schema) or _ddl(schema)
    return functions


def _documented() -> dict[str, list[tuple[str, str]]]:
    sections = re.split(r"^## `(.*)`$", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    return {
        name: re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", text, re.M)
        for name, text in zip(sections[::2], sections[1::2], strict=True)
    }


def test_page_has_every_column() -> None:
    functions = _functions()
    assert len(functions) == 10
    assert _documented() == functions
