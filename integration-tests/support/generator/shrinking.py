"""Makes a statement small that still shows a fault: parts are left out one after the other."""

from __future__ import annotations

import copy
import dataclasses
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from .model import AnyOf, Join, Select, SetOperation, Source, Statement, Subquery

_NODES = (AnyOf, Join, Select, SetOperation, Source, Statement, Subquery)

#: A part of a tree: from the root, names of fields and places in lists.
Path = tuple[str | int, ...]


def shrink(
    statement: Statement,
    settings: dict[str, str],
    still_fails: Callable[[Statement, dict[str, str]], bool],
    seconds: float = 120.0,
) -> tuple[Statement, dict[str, str]]:
    """The smallest statement and fewest settings found that still fail.

    Args:
        still_fails: whether a candidate shows the fault; candidates that Spark refuses do not.
        seconds: when to stop looking.
    """
    until = time.monotonic() + seconds
    found = True
    while found and time.monotonic() < until:
        found = False
        for candidate in smaller(statement):
            if time.monotonic() > until:
                break
            if len(candidate.sql()) < len(statement.sql()) and still_fails(candidate, settings):
                statement, found = candidate, True
                break
        else:
            for key in list(settings):
                fewer = {k: v for k, v in settings.items() if k != key}
                if time.monotonic() < until and still_fails(statement, fewer):
                    settings, found = fewer, True
    return statement, settings


def smaller(statement: Statement) -> Iterator[Statement]:
    """Statements with one part less, those that lose most first."""
    paths = sorted(_parts(statement, ()), key=lambda p: -_size(_at(statement, p)))
    for path in paths:
        candidate = copy.deepcopy(statement)
        _remove(candidate, path)
        yield candidate


def _parts(node: Any, path: Path) -> Iterator[Path]:
    """What can be left out: elements of lists, and what may be None, False or zero."""
    for f in dataclasses.fields(node):
        value = getattr(node, f.name)
        here = (*path, f.name)
        if isinstance(value, list):
            for i, element in enumerate(value):
                if len(value) > 1 or f.name not in ("items", "conditions", "selects"):
                    yield (*here, i)
                if isinstance(element, _NODES):
                    yield from _parts(element, (*here, i))
        elif isinstance(value, _NODES):
            yield from _parts(value, here)
        elif (isinstance(value, bool) and value) or (f.name in ("limit", "offset") and value):
            yield here


def _at(node: Any, path: Path) -> Any:
    for step in path:
        node = node[step] if isinstance(step, int) else getattr(node, step)
    return node


def _size(part: Any) -> int:
    return len(part.sql()) if hasattr(part, "sql") else len(str(part))


def _remove(root: Statement, path: Path) -> None:
    parent, last = _at(root, path[:-1]), path[-1]
    if isinstance(last, int):
        gone = parent.pop(last)
        if isinstance(gone, Join):
            _forget(_at(root, path[:-2]), gone.source.alias)
        if path[-2] == "items":
            root.order = [o for o in root.order if o.by != gone.alias]
        return
    if last == "limit":
        # A sort without a limit is nothing that results are compared by.
        parent.limit, parent.order = None, []
        if isinstance(parent, Statement):
            parent.offset = 0
        return
    setattr(parent, last, 0 if last == "offset" else False)


def _forget(select: Select, alias: str) -> None:
    """Leaves out what names a relation that is gone."""
    names = re.compile(rf"\b{alias}\b")

    def kept(parts: list[Any]) -> list[Any]:
        return [p for p in parts if not names.search(p if isinstance(p, str) else p.sql())]

    for name in ("joins", "laterals", "where", "group", "having", "hints", "order"):
        setattr(select, name, kept(getattr(select, name)))
    for join in select.joins:
        join.on = kept(join.on)
    select.items = kept(select.items) or select.items[:1]
