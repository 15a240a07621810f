"""Pages name settings that exist."""

from __future__ import annotations

import re
from pathlib import Path

from spark_dynamic_filters._settings import PREFIX, SETTINGS

ROOT = Path(__file__).resolve().parent.parent.parent
FAULTS = (
    ROOT / "jvm/src/main/scala/org/dynamicfilters/state/TestHooks.scala",
    ROOT / "faults/src/main/scala/org/dynamicfilters/testing/FaultSettings.scala",
)


def test_documents_name_existing_settings_only() -> None:
    for_tests = "".join(file.read_text(encoding="utf-8") for file in FAULTS)
    known = {setting.key for setting in SETTINGS} | set(re.findall(r'Prefix \+ "(testing[^"]+)"', for_tests))
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        named = re.findall(re.escape(PREFIX) + r"[\w.]*\w", document.read_text(encoding="utf-8"))
        unknown = {key for key in named if key not in known and key.removeprefix(PREFIX) not in known}
        assert not unknown, f"{document.relative_to(ROOT)}: {', '.join(sorted(unknown))} is no setting"
