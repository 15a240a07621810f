"""The same settings in all three places: Settings.scala is the source, `_settings.py` and the docs follow."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from spark_dynamic_filters._settings import PREFIX, SETTINGS, Kind, Setting

ROOT = Path(__file__).resolve().parent.parent.parent
SCALA = ROOT / "jvm/src/main/scala/org/dynamicfilters/settings/Settings.scala"
FAULTS = (
    ROOT / "jvm/src/main/scala/org/dynamicfilters/state/TestHooks.scala",
    ROOT / "faults/src/main/scala/org/dynamicfilters/testing/FaultSettings.scala",
)
REGISTRY = ROOT / "jvm/src/main/scala/org/apache/spark/sql/execution/dynamicfilters/SettingsRegistry.scala"
DOCUMENT = ROOT / "docs/configuration.md"

#: What registers a setting in Scala, and what it is called here.
KINDS: dict[str, Kind] = {
    "boolean": "boolean",
    "int": "integer",
    "double": "fraction",
    "millis": "duration",
    "bytes": "size",
    "directory": "directory",
}
_DEFINITION = re.compile(
    r"""val\ (?P<name>\w+):\ Setting\[\w+\]\ =\s*R\.(?P<register>\w+)\(
        \s*Prefix\ \+\ "(?P<key>[^"]+)",
        \s*(?:default\ =\ )?"?(?P<default>[^",]*)"?,
        \s*"(?P<meaning>[^"]+)"
        (?:,\s*"(?P<takes>[^"]+)")?
        \s*\)(?:\(\s*(?P<valid>[^)]+?)\s*\))?""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Source:
    """A setting as Scala has it; `takes` is its words for what is valid."""

    setting: Setting
    takes: str


def from_scala() -> list[Source]:
    """The settings of `Settings.all`, in its order."""
    text = SCALA.read_text(encoding="utf-8")
    found = {definition["name"]: definition for definition in _DEFINITION.finditer(text)}
    (listed,) = re.findall(r"val all: Seq\[Setting\[_\]\] = Seq\(([^)]*)\)", text)
    return [_source(found[name.strip()]) for name in listed.split(",")]


def _source(definition: re.Match[str]) -> Source:
    register, valid = definition["register"], definition["valid"] or _valid_for_all(definition["register"])
    least = re.fullmatch(r"_ (>=?) (\d+)", valid)
    minimum = int(least[2]) + (least[1] == ">") if least else 0
    if not least:
        assert valid in ("", "v => v >= 0 && v <= 1", "v => v > 0 && v < 1"), f"what does {valid} allow?"
    default, meaning = definition["default"].strip(), definition["meaning"]
    open_ends = valid == "v => v > 0 && v < 1"
    setting = Setting(definition["key"], KINDS[register], default, meaning, minimum, open_ends)
    return Source(setting, definition["takes"] or _takes_for_all(register))


def _registered(register: str) -> str:
    """How settings are registered that Scala registers so."""
    return REGISTRY.read_text(encoding="utf-8").partition(f"def {register}(")[2].partition("\n\n")[0]


def _valid_for_all(register: str) -> str:
    """The check of all settings that are registered so."""
    check = re.search(r"\.filter\((_ [^)]+)\)", _registered(register))
    return check[1] if check else ""


def _takes_for_all(register: str) -> str:
    """The words for what all settings take that are registered so."""
    words = re.search(r'\.doc\(doc\),\s*"([^"]+)"', _registered(register))
    return words[1] if words else ""


SOURCES = from_scala()


def test_same_keys_in_the_same_order() -> None:
    expected = [source.setting.key for source in SOURCES]
    assert [setting.key for setting in SETTINGS] == expected
    assert list(documented()) == expected


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.setting.name)
def test_python_takes_what_scala_takes(source: Source) -> None:
    setting = _python(source)
    # Words have a test of their own.
    differences(source.setting, replace(setting, meaning=source.setting.meaning))
    assert source.takes == setting.expected, f"{setting.key} takes {source.takes!r} in Settings.scala"


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.setting.name)
def test_python_says_what_scala_says(source: Source) -> None:
    differences(source.setting, _python(source))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_document_says_what_python_says(setting: Setting) -> None:
    stated, expected = documented()[setting.key], [setting.default, setting.expected, setting.meaning]
    assert stated == expected, f"{setting.key}: docs/configuration.md says {stated}, expected {expected}"


def test_documents_name_existing_settings_only() -> None:
    for_tests = "".join(file.read_text(encoding="utf-8") for file in FAULTS)
    known = {setting.key for setting in SETTINGS} | set(re.findall(r'Prefix \+ "(testing[^"]+)"', for_tests))
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        named = re.findall(re.escape(PREFIX) + r"[\w.]*\w", document.read_text(encoding="utf-8"))
        unknown = {key for key in named if key not in known and key.removeprefix(PREFIX) not in known}
        assert not unknown, f"{document.relative_to(ROOT)}: {', '.join(sorted(unknown))} is no setting"


def differences(scala: Setting, python: Setting) -> None:
    """Fails with the key and each attribute that is another one."""
    found = [
        f"{scala.key}: {name} is {value!r} in Settings.scala, {getattr(python, name)!r} in _settings.py"
        for name, value in vars(scala).items()
        if getattr(python, name) != value
    ]
    assert not found, "\n".join(found)


def documented() -> dict[str, list[str]]:
    """By key, the other columns of the document's table."""
    rows = re.findall(r"^\| `([\w.]+)` \|(.*)\|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    return {PREFIX + name: [column.strip() for column in columns.split(" | ")] for name, columns in rows}


def _python(source: Source) -> Setting:
    found = [setting for setting in SETTINGS if setting.key == source.setting.key]
    assert found, f"{source.setting.key} is in Settings.scala, not in _settings.py"
    return found[0]
