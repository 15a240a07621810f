"""The settings, for the conf object and the command line.

Their table is made from Settings.scala. The plugin checks values; here they are only translated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ._errors import InvalidArgument, UnknownSetting, shown
from ._settings_table import TABLE

PREFIX = "spark.dynamicFilters."


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


SETTINGS: tuple[Setting, ...] = tuple(Setting(*row) for row in TABLE)

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
    """The setting that was probably meant by a name or key, by the rule of Settings.scala."""
    name = _LOOKS_LIKE_OURS.sub("", name)
    wanted = _letters(name)
    typos = {known: _distance(_letters(known), wanted) for known in _BY_NAME}
    nearest = min(typos, key=typos.__getitem__)
    if typos[nearest] <= min(3, len(wanted) // 3):
        return nearest
    last = _letters(name.split(".")[-1])
    for alike in (
        [known for known in _BY_NAME if wanted and _letters(known).startswith(wanted)],
        [known for known in _BY_NAME if _letters(known.split(".")[-1]) == last],
    ):
        if len(alike) == 1:
            return alike[0]
    return None


def _distance(a: str, b: str) -> int:
    """The Levenshtein distance: letters to change, add or leave out."""
    above = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j - 1] + (x != y), above[j] + 1, row[-1] + 1))
        above = row
    return above[-1]


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def below(group: str) -> list[str]:
    """The next parts of all setting names that start with `group` ("" for all): `["topk", ...]`."""
    start = group + "." if group else ""
    parts = [name.removeprefix(start).split(".")[0] for name in _BY_NAME if name.startswith(start)]
    return list(dict.fromkeys(parts))
