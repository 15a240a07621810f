"""The settings: one table that the conf object and the command line both read.

Settings.scala is their source: a test compares both, and docs/configuration.md with this table.
"""

from __future__ import annotations

import numbers
import os
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from ._errors import InvalidArgument, UnknownSetting, shown

PREFIX = "spark.dynamicFilters."

Kind = Literal["boolean", "integer", "fraction", "duration", "size", "directory"]

# What a value of each kind looks like, for error messages and for the `confs` command.
EXPECTED: dict[Kind, str] = {
    "boolean": "true or false",
    "integer": "a whole number",
    "fraction": "a number from 0 to 1",
    "duration": "a time such as '10s' or '500ms'; '0s' is none",
    "size": "a size such as '8m' or '512k', or a number of bytes; at least 1 byte",
    "directory": "an absolute path or URI of a directory, or nothing",
}

# As Spark reads them: without a blank between number and unit.
_DURATION = re.compile(r"(\d+)(us|ms|s|m|min|h|d)?", re.IGNORECASE | re.ASCII)
_SIZE = re.compile(r"(\d+)(b|k|kb|m|mb|g|gb|t|tb|p|pb)?", re.IGNORECASE | re.ASCII)
_DIRECTORY = re.compile(r"([a-z][a-z0-9+.-]*:(//[^/]*)?)?/.*", re.IGNORECASE)
_MICROSECONDS = {
    "us": 1,
    "ms": 10**3,
    "s": 10**6,
    "m": 6 * 10**7,
    "min": 6 * 10**7,
    "h": 36 * 10**8,
    "d": 864 * 10**8,
}
# Whole numbers are a JVM's Int on the other side.
_MAX_INTEGER = 2**31 - 1


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: its key without the prefix, for example `topk.maxLimit`.
        kind: what values it takes, see `EXPECTED`.
        default: the default as SQL `SET` shows it.
        meaning: one sentence.
        minimum: smallest whole number (kind `integer`) or number of bytes (`size`) allowed.
        open_ends: whether 0 and 1 themselves are refused (kind `fraction` only).
    """

    name: str
    kind: Kind
    default: str
    meaning: str
    minimum: int = 0
    open_ends: bool = False

    @property
    def key(self) -> str:
        """The full key, as in SQL `SET`."""
        return PREFIX + self.name

    @property
    def expected(self) -> str:
        """What the setting takes, in words."""
        if self.kind == "integer":
            return f"a whole number from {self.minimum} to {_MAX_INTEGER}"
        if self.open_ends:
            return "a number between 0 and 1, both exclusive"
        return EXPECTED[self.kind]

    def encode(self, value: Any) -> str:
        """The text of `value` for `SET`.

        Raises:
            ValueError: `value` is not of this setting's kind; the message names the key and what it takes.
        """
        text = _text(value)
        if text is None or self._parse(text) is None:
            # As the plugin says it of SQL's SET.
            given = f"'{shown(value)}'" if isinstance(value, str) else shown(value)
            raise ValueError(f"{self.key}: cannot be {given}; it takes {self.expected}")
        return text

    def decode(self, text: str) -> bool | int | float | str:
        """The Python value of what Spark holds: bool, int or float; times, sizes and directories stay text
        such as '10s'.
        """
        value = self._parse(text)
        if value is None or self.kind in ("duration", "size", "directory"):
            # Spark renders an untouched default in its smallest unit (10000ms); show it as documented.
            return self.default if value is not None and value == self._parse(self.default) else text
        return value

    def _parse(self, text: str) -> bool | int | float | str | None:
        """The value that `text` stands for (microseconds, bytes), or None if it is not of this kind."""
        text = text.strip()
        match self.kind:
            case "boolean":
                return {"true": True, "false": False}.get(text.lower())
            case "integer":
                return (
                    int(text)
                    if re.fullmatch(r"\d+", text) and self.minimum <= int(text) <= _MAX_INTEGER
                    else None
                )
            case "fraction":
                try:
                    number = float(text)
                except ValueError:
                    return None
                inside = 0.0 < number < 1.0 if self.open_ends else 0.0 <= number <= 1.0
                return number if inside else None
            case "duration":
                found = _DURATION.fullmatch(text)
                return found and int(found[1]) * _MICROSECONDS[(found[2] or "ms").lower()]
            case "size":
                found = _SIZE.fullmatch(text)
                size = found and int(found[1]) << 10 * "bkmgtp".index((found[2] or "b")[0].lower())
                return size if size is not None and size >= self.minimum else None
            case "directory":
                return text if not text or _DIRECTORY.fullmatch(text) else None


def _text(value: Any) -> str | None:
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()  # Python's own
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, (float, Decimal, str, os.PathLike)):
        return str(value)
    return None


SETTINGS: tuple[Setting, ...] = (
    Setting("enabled", "boolean", "true", "Master switch; false gives exactly Spark's own plan."),
    Setting("topk.enabled", "boolean", "true", "Whether ORDER BY ... LIMIT filters its scans."),
    Setting("join.enabled", "boolean", "true", "Whether joins filter the scans of their probe side."),
    Setting("aggregate.enabled", "boolean", "true", "Whether min/max aggregates filter their scans."),
    Setting(
        "exchange.enabled",
        "boolean",
        "true",
        "Whether executors share what they learn while a query runs; "
        "false: only what tasks of one process know.",
    ),
    Setting(
        "lateMaterialization.enabled",
        "boolean",
        "true",
        "Read filter columns first, the other columns only for surviving rows.",
    ),
    Setting(
        "join.waitTimeout",
        "duration",
        "10s",
        "Longest time a probe stage may be held back for its filter, "
        "without holding a task slot; 0s = never.",
    ),
    Setting(
        "join.maxBuildRows",
        "integer",
        "2000000",
        "A build side with more distinct keys than this gives their range only.",
        minimum=1,
    ),
    Setting(
        "in.maxValues",
        "integer",
        "10000",
        "Above it a value set becomes a bitmap (integers, dates) or a bloom filter.",
    ),
    Setting("bloom.fpp", "fraction", "0.01", "False positive rate aimed at.", open_ends=True),
    Setting(
        "maxFilterBytes",
        "size",
        "8m",
        "A larger encoded filter is reduced to a smaller form, at last to its range.",
        minimum=1,
    ),
    Setting("topk.maxLimit", "integer", "100000", "Larger LIMITs (offset included) produce no filter."),
    Setting(
        "selectivity.giveUp",
        "fraction",
        "0.6",
        "A filter that lets more than this share of rows pass stops being evaluated by rows; 1 = never.",
    ),
    Setting("report.retainedQueries", "integer", "100", "How many queries the report keeps.", minimum=1),
    Setting("report.showValues", "boolean", "true", "false: no data values in reports, plans and logs."),
    Setting(
        "stats.path",
        "directory",
        "",
        "Directory where what was learned of files is kept between applications; empty = nowhere.",
    ),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}


def find(name: str) -> Setting:
    """The setting of this name (`topk.maxLimit`) or full key (`spark.dynamicFilters.topk.maxLimit`).

    Raises:
        UnknownSetting: there is none; the message has the name most like it.
        InvalidArgument: the name is no string.
    """
    if not isinstance(name, str):
        raise InvalidArgument(f"conf: the name of a setting is a string, got {type(name).__name__}")
    setting = _BY_NAME.get(name.removeprefix(PREFIX))
    if setting is None:
        raise unknown(name)
    return setting


def unknown(name: str) -> UnknownSetting:
    """The error for a name that is no setting; of the same text as the plugin's own."""
    full = name if _LOOKS_LIKE_OURS.match(name) else PREFIX + name
    group = _LOOKS_LIKE_OURS.sub("", full)
    if names := below(group):
        one = f"{PREFIX}{group}.{names[0]}" if group else PREFIX + names[0]
        return UnknownSetting(f"{shown(full, 100)}: no such setting but a group of them: set one, as {one}")
    meant = similar(name)
    right = f"did you mean {PREFIX}{meant}?" if meant else "SET -v lists the settings"
    return UnknownSetting(f"{shown(full, 100)}: no such setting; {right}")


def similar(name: str) -> str | None:
    """The setting that was probably meant by a name or key. Settings.scala finds the same."""
    given = _LOOKS_LIKE_OURS.sub("", name)
    wanted = _plain(given)
    nearest = min(_BY_NAME, key=lambda n: _distance(_plain(n), wanted))
    if _distance(_plain(nearest), wanted) <= min(_MOST_TYPOS, len(wanted) // 3):
        return nearest
    starting = [n for n in _BY_NAME if wanted and _plain(n).startswith(wanted)]
    if len(starting) == 1:
        return starting[0]
    last = _plain(given.rsplit(".", 1)[-1])
    ending = [n for n in _BY_NAME if _plain(n.rsplit(".", 1)[-1]) == last]
    return ending[0] if len(ending) == 1 else None


# Letters that may be wrong in a name that is still recognized.
_MOST_TYPOS = 3
_LOOKS_LIKE_OURS = re.compile(r"spark\.dynamic[._-]?filters?(?:\.|$)", re.IGNORECASE)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _distance(a: str, b: str) -> int:
    """How many letters have to be changed, added or left out to make `b` of `a`."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def below(group: str) -> list[str]:
    """The next parts of all setting names that start with `group` ("" for all): `["topk", ...]`."""
    start = group + "." if group else ""
    parts = [name.removeprefix(start).split(".")[0] for name in _BY_NAME if name.startswith(start)]
    return list(dict.fromkeys(parts))
