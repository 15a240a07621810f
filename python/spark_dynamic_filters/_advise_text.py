"""Reads the texts of operators in plans of event logs: columns, lists in square brackets, kinds of joins."""

from __future__ import annotations

import re
from functools import lru_cache

from ._advise_log import Node
from ._errors import shown

_COLUMN = re.compile(r"(?!-)[^()\[\]]*#(\d+)L?")
# Monotone expressions, see docs/how-it-works.md, "Computed keys".
_RISING = re.compile(
    r"""cast\((.*)\ as\ (?:smallint|int|bigint|float|double|decimal\(\d+,\d+\)|date|timestamp(?:_ntz)?)\)
    |year\((.*)\)|trunc\((.*),\ \w+\)|date_trunc\(\w+,\ ([^,]*(?:\([^()]*\))?)(?:,\ .*)?\)
    |\((.*)\ (?:[+-]\ \d+|\*\ -?\d+|div\ \d+)\)|\(-?\d+\ [+*-]\ (.*)\)|-(.*)""",
    re.VERBOSE | re.IGNORECASE,
)


def plain(expression: str) -> str:
    """Without the numbers of attributes, on one line, cut if it is long."""
    return shown(re.sub(r"#\d+L?", "", expression))


def column_of(expression: str) -> int | None:
    """The number of a plain column, or of the column of a monotone expression: `cast(ts#7 as date)`."""
    text = expression.strip()
    while rising := _RISING.fullmatch(text):
        text = next(argument for argument in rising.groups() if argument is not None)
    found = _COLUMN.fullmatch(text)
    return int(found[1]) if found else None


def has_column(items: list[str], column: int) -> bool:
    return any(column_of(item.rsplit(" AS ", 1)[-1]) == column for item in items)


@lru_cache(maxsize=4096)
def bracketed(text: str) -> list[list[str]]:
    """What stands in square brackets in an operator's text, taken apart at the commas."""
    found: list[list[str]] = []
    depth, start = 0, 0
    for at in re.finditer(r"[\[\](),]", text):
        sign, i = at[0], at.start()
        if depth == 0:
            if sign == "[":
                depth, start = 1, i + 1
                found.append([])
        elif sign in "[(":
            depth += 1
        elif sign != "," or depth == 1:
            depth -= sign != ","
            if depth == 0 or sign == ",":
                found[-1] += [item] if (item := text[start:i].strip()) else []
                start = i + 1
    return found


def columns_of(node: Node) -> list[str]:
    """The columns that come out of a scan or a projection."""
    if node.name == "Project" or node.is_scan:
        return [item.rsplit(" AS ", 1)[-1] for item in (bracketed(node.text) or [[]])[0]]
    return columns_of(node.inputs[0]) if node.name == "Filter" else []


def join_type(join: Node) -> str:
    found = re.search(r"\], (\w+(?:Outer|Semi|Anti)|Inner|ExistenceJoin)", join.text)
    return found[1] if found else "?"


def streamed(join: Node) -> int:
    return 0 if "BuildRight" in join.text else 1
