"""The settings: one table, which the conf object and the command line read.

Settings.scala is their source: tests compare this table with what a session says of its settings, and
docs/configuration.md with this table. The plugin checks values; here they are only translated.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any

from ._errors import InvalidArgument, UnknownSetting, shown

PREFIX = "spark.dynamicFilters."

_SWITCH = "true or false"
_NUMBER = "a whole number from {} to 2147483647"


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: its key without the prefix, for example `topk.maxLimit`.
        type: of its value in Python; times, sizes and directories are text.
        default: the default as SQL `SET` shows it.
        takes: what values it takes, in words.
        meaning: one sentence.
    """

    name: str
    type: type[bool] | type[int] | type[float] | type[str]
    default: str
    takes: str
    meaning: str

    @property
    def key(self) -> str:
        """The full key, as in SQL `SET`."""
        return PREFIX + self.name

    def decode(self, text: str) -> bool | int | float | str:
        """The Python value of what Spark holds."""
        return text.strip().lower() == "true" if self.type is bool else self.type(text)


def encode(value: Any) -> str:
    """The text of a value for `SET`."""
    text = str(value)
    return text.lower() if text in ("True", "False") else text


SETTINGS: tuple[Setting, ...] = (
    Setting("enabled", bool, "true", _SWITCH, "Master switch; false gives exactly Spark's own plan."),
    Setting("topk.enabled", bool, "true", _SWITCH, "Whether ORDER BY ... LIMIT filters its scans."),
    Setting("join.enabled", bool, "true", _SWITCH, "Whether joins filter the scans of their probe side."),
    Setting("aggregate.enabled", bool, "true", _SWITCH, "Whether min/max aggregates filter their scans."),
    Setting(
        "exchange.enabled",
        bool,
        "true",
        _SWITCH,
        "Whether executors share what they learn while a query runs; "
        "false: only what tasks of one process know.",
    ),
    Setting(
        "lateMaterialization.enabled",
        bool,
        "true",
        _SWITCH,
        "Read filter columns first, the other columns only for surviving rows.",
    ),
    Setting(
        "join.waitTimeout",
        str,
        "10s",
        "a time such as '10s' or '500ms'; '0s' is none",
        "Longest time a probe stage may be held back for its filter, "
        "without holding a task slot; 0s = never.",
    ),
    Setting(
        "join.maxBuildRows",
        int,
        "2000000",
        _NUMBER.format(1),
        "A build side with more distinct keys than this gives their range only.",
    ),
    Setting(
        "in.maxValues",
        int,
        "10000",
        _NUMBER.format(0),
        "Above it a value set becomes a bitmap (integers, dates) or a bloom filter.",
    ),
    Setting(
        "bloom.fpp",
        float,
        "0.01",
        "a number between 0 and 1, both exclusive",
        "False positive rate aimed at.",
    ),
    Setting(
        "maxFilterBytes",
        str,
        "8m",
        "a size such as '8m' or '512k', or a number of bytes; at least 1 byte",
        "A larger encoded filter is reduced to a smaller form, at last to its range.",
    ),
    Setting(
        "topk.maxLimit",
        int,
        "100000",
        _NUMBER.format(0),
        "Larger LIMITs (offset included) produce no filter.",
    ),
    Setting(
        "selectivity.giveUp",
        float,
        "0.6",
        "a number from 0 to 1",
        "A filter that lets more than this share of rows pass stops being evaluated by rows; 1 = never.",
    ),
    Setting("report.retainedQueries", int, "100", _NUMBER.format(1), "How many queries the report keeps."),
    Setting("report.showValues", bool, "true", _SWITCH, "false: no data values in reports, plans and logs."),
    Setting(
        "stats.path",
        str,
        "",
        "an absolute path or URI of a directory, or nothing",
        "Directory where what was learned of files is kept between applications; empty = nowhere.",
    ),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}
_LOOKS_LIKE_OURS = re.compile(r"spark\.dynamic[._-]?filters?(?:\.|$)", re.IGNORECASE)


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
    """The error for a name that is no setting; of the same form as the plugin's own."""
    full = name if _LOOKS_LIKE_OURS.match(name) else PREFIX + name
    group = _LOOKS_LIKE_OURS.sub("", full)
    if names := below(group):
        one = f"{PREFIX}{group}.{names[0]}" if group else PREFIX + names[0]
        return UnknownSetting(f"{shown(full, 100)}: no such setting but a group of them: set one, as {one}")
    meant = similar(name)
    right = f"did you mean {PREFIX}{meant}?" if meant else "SET -v lists the settings"
    return UnknownSetting(f"{shown(full, 100)}: no such setting; {right}")


def similar(name: str) -> str | None:
    """The setting that was probably meant by a name or key."""
    known = {_letters(name): name for name in _BY_NAME}
    found = difflib.get_close_matches(_letters(_LOOKS_LIKE_OURS.sub("", name)), known, n=1, cutoff=0.7)
    return known[found[0]] if found else None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def below(group: str) -> list[str]:
    """The next parts of all setting names that start with `group` ("" for all): `["topk", ...]`."""
    start = group + "." if group else ""
    parts = [name.removeprefix(start).split(".")[0] for name in _BY_NAME if name.startswith(start)]
    return list(dict.fromkeys(parts))
