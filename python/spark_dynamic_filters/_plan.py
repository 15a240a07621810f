"""The text of an executed plan, taken apart: operators, and which filter goes from where to where."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PREFIX = re.compile(r"^(?:   |:  )*(?:[+:]- )?")
_STAGE = re.compile(r"^(\*\(\d+\)|\*) ?")
_FILTER = re.compile(r"DynamicFilter#(\d+)")
_FINAL, _INITIAL = "== Final Plan ==", "== Initial Plan =="
_INDENT = 3  # of each level in Spark's text


@dataclass(frozen=True)
class Operator:
    """One line of the plan.

    Attributes:
        depth: levels below the root, as Spark indents them.
        text: the operator with its arguments, without the number of its stage.
        filters: numbers of the dynamic filters that it names.
    """

    depth: int
    text: str
    filters: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its first word."""
        return self.text.split(maxsplit=1)[0] if self.text else ""

    @property
    def is_scan(self) -> bool:
        """Whether its filters act on it. Else it makes them."""
        return self.name.endswith("Scan")


@dataclass(frozen=True)
class Arrow:
    """A filter's way.

    Attributes:
        filter: its number.
        source: position of the operator that makes it.
        target: position of the scan that it acts on.
    """

    filter: str
    source: int
    target: int


def operators(plan: str) -> list[Operator]:
    """Those of the final plan, from the root on; subqueries stand where Spark shows them."""
    found = []
    for line in _final(plan):
        prefix = _PREFIX.match(line)
        assert prefix is not None  # it matches the empty text
        text = _STAGE.sub("", line[prefix.end() :]).rstrip()
        if text and not text.startswith("=="):
            depth = prefix.end() // _INDENT
            found.append(Operator(depth, text, tuple(dict.fromkeys(_FILTER.findall(text)))))
    least = min((o.depth for o in found), default=0)
    return [Operator(o.depth - least, o.text, o.filters) for o in found]


def final(plan: str) -> str:
    """The plan's text, of one that adaptive execution changed only what it became."""
    lines = _final(plan.strip())
    heads = [line for line in lines if line.startswith("==")]
    indent = min(
        (len(line) - len(line.lstrip(" ")) for line in lines if line.strip() and line not in heads), default=0
    )
    return "\n".join(line if line in heads else line[indent:] for line in lines).strip()


def _final(plan: str) -> list[str]:
    """The lines of a plan; of one that adaptive execution changed, what it became."""
    kept: list[str] = []
    skipped: int | None = None
    # Not splitlines: what that takes for the end of a line may stand within a literal.
    for line in plan.split("\n"):
        column = len(line) - len(line.lstrip(" :"))
        if _INITIAL in line:
            skipped = column
        elif skipped is None or column <= skipped:
            skipped = None
            if _FINAL not in line and not line.lstrip(" :+-").startswith("AdaptiveSparkPlan"):
                kept.append(line)
    return kept


def arrows(found: list[Operator]) -> list[Arrow]:
    """From each operator that makes a filter to each scan that it acts on."""
    makers = [(f, i) for i, o in enumerate(found) if not o.is_scan for f in o.filters]
    scans = [(f, i) for i, o in enumerate(found) if o.is_scan for f in o.filters]
    return [Arrow(f, i, j) for f, i in makers for g, j in scans if f == g]
