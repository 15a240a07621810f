"""docs/troubleshooting.md lists each reason that reports may give, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "jvm/src/main/scala/org/dynamicfilters"
PAGE = ROOT / "docs/troubleshooting.md"

# Where reasons are made. In these files every sentence is a reason, unless it is said here what it is.
_PLACES = (
    "plan",
    "scan",
    "operators",
    "report",
    "tables",
    "hints/ScanHint.scala",
    "state/JoinState.scala",
    "state/KeyReports.scala",
    "state/JoinWaits.scala",
    "lifecycle/ReportReader.scala",
    "exchange/LiveFilters.scala",
    "filter/KeyCost.scala",
    "filter/KeyDomain.scala",
    "filter/KeyPartial.scala",
    "filter/FilterBuilder.scala",
)
_NO_REASONS = frozenset(
    {
        "plan/OperatorRules.scala",
        "plan/PruneCheck.scala",
        "plan/PinUserFilters.scala",
        # For the driver's log.
        "scan/StatisticsCodec.scala",
        "scan/StoredStatistics.scala",
    }
)
_CALLS = frozenset(
    {
        "logInfo",
        "logWarning",
        "logDebug",
        "logError",
        "require",
        "assert",
        "mkString",
        "startsWith",
        "guarded",
    }
    | {"IllegalStateException", "IllegalArgumentException", "UnsupportedOperationException"}
    | {"SparkException", "SnapshotUnavailable", "sum", "size", "average", "millis"}
)
_PARTS = frozenset(
    {
        # For the driver's log.
        "ended: … of … filters ready, … filtered scans, … rows pruned",
        # What is put into reasons, and text of plans and reports.
        "page index",
        "the column",
        "the sort key",
        "the join key",
        "the aggregated column",
        "left side",
        "right side",
        "the operator …",
        "… …",
        "… ……",
        ", limit=…",
        "… IN (…)",
        "bloom filter of …",
        "… OR …",
        "an existence join",
        "… … join",
        "[…, …]",
        "the condition above it",
        "the join",
        "a table of format …",
        "a table of format …, read by DataSource V2,",
        "a relation of …",
        "an Iceberg table",
        "the table … of DataSource V2",
        "cached data",
        # Of generated code.
        "(… ? ….acceptsNull(…) : ….accepts(…, …))",
        "… = ….start(partitionIndex);",
        # Of exceptions.
        "more than one constructor of …",
        "the constructor of …",
        # Below, one by one.
        "… … in the way",
    }
)

_TOKEN = re.compile(
    r'"""(?:.|\n)*?"""'
    r'|[sf]?"(?:\\.|\$\{(?:[^{}"]|"[^"]*"|\{[^{}]*\})*\}|[^"\\\n])*"'
    r"|//[^\n]*|/\*(?:.|\n)*?\*/|'(?:\\.|[^\\'])'"
)


def _normal(text: str) -> str:
    """The same for a reason of the sources, of the page, and whatever stands for their variable parts."""
    text = re.sub(r"<[^<>]*>|(?:\$\{(?:[^{}]|\{[^{}]*\})*\}|\$\w+)(?:%[.\w]+)?", "…", text)
    return re.sub(r"\s+", " ", text.replace('\\"', '"')).strip()


def _sentences(source: str) -> Iterator[tuple[int, str]]:
    """Literals with more than one word, those joined by `+` as one, with their line."""
    blank = _TOKEN.sub(lambda m: re.sub(r"[^\n]", "~", m[0]), source)
    start, whole, end = 0, "", -1
    for token in _TOKEN.finditer(source):
        if not re.match(r'[sf]?"(?!"")', token[0]):
            continue
        text = re.sub(r'^[sf]?"|"$', "", token[0])
        if end >= 0 and re.fullmatch(r"\s*\+\s*", source[end : token.start()]):
            whole += text
        else:
            if " " in whole.strip():
                yield start, whole
            start, whole = token.start(), text
            if _calls(blank, start) & _CALLS:
                whole = ""
        end = token.end()
        if whole and re.match(r"\s*\+\s*\(", source[end:]):
            whole += "…"
    if " " in whole.strip():
        yield start, whole


def _calls(blank: str, end: int) -> set[str]:
    """Names of the calls that a place is an argument of, as far as its statement goes."""
    names, depth = set(), 0
    for at in range(end - 1, max(0, end - 600), -1):
        if blank[at] in ")]}":
            depth += 1
        elif blank[at] in "([{":
            if depth:
                depth -= 1
            elif blank[at] == "(":
                name = re.search(r"(\w+)(?:\[[^\]]*\])?$", blank[max(0, at - 60) : at])
                names.add(name[1] if name else "")
            elif blank[at] == "{":
                break
    return names


def reasons() -> dict[str, str]:
    """The reasons of the sources, variable parts as `…`, with a place of each."""
    found: dict[str, str] = {}
    for place in _PLACES:
        path = SOURCES / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.scala")):
            name = file.relative_to(SOURCES).as_posix()
            if name not in _NO_REASONS:
                source = file.read_text(encoding="utf-8")
                for at, text in _sentences(source):
                    found.setdefault(_normal(text), f"{name}:{source.count(chr(10), 0, at) + 1}")
    rules = "plan/OperatorRules.scala"
    stops = re.findall(r'stop\(\s*"([^"]+)"', (SOURCES / rules).read_text("utf-8"))
    for what in ["the operator …", *stops]:
        found[f"{what} {'are' if what.endswith('metrics') else 'is'} in the way"] = rules
    return {reason: place for reason, place in found.items() if reason not in _PARTS and " " in reason}


def _listed() -> list[str]:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return [_normal(reason) for row in rows for reason in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def test_each_reason_is_listed() -> None:
    listed = set(_listed())
    lacking = {reason: place for reason, place in reasons().items() if reason not in listed}
    assert not lacking, (
        "add to docs/troubleshooting.md, with what to do (| `<reason>` | <advice> |, names in <>), or, if it "
        "is no reason that a report shows, to _PARTS or _NO_REASONS here:\n"
        + "\n".join(f"  {place}: {reason}" for reason, place in lacking.items())
    )


def test_no_other_reason_is_listed() -> None:
    listed, made = _listed(), reasons()
    assert listed
    gone = [reason for reason in listed if reason not in made]
    assert not gone, "docs/troubleshooting.md lists reasons that no source has:\n  " + "\n  ".join(gone)
    assert sorted(set(listed)) == sorted(listed), "listed twice"
