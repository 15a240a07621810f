"""python tools/test_summary.py STATUS START DIR...: adds up JUnit reports; exits with STATUS, or 1 if a test
failed or none ran. START: when the tests began, in seconds since 1970.
"""

from __future__ import annotations

import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass
class Part:
    """One part of the tests: a report, or, of the JVM's one for each suite, all of them."""

    tests: int = 0
    failures: int = 0
    errors: int = 0
    skipped: int = 0
    time: float = 0.0

    def add(self, report: Path) -> None:
        root = ET.parse(report).getroot()
        for suite in [root] if root.tag == "testsuite" else root.findall("testsuite"):
            for f in fields(self):
                value = getattr(self, f.name) + type(getattr(self, f.name))(suite.get(f.name) or 0)
                setattr(self, f.name, value)

    @property
    def failed(self) -> int:
        return self.failures + self.errors

    @property
    def passed(self) -> int:
        return self.tests - self.failed - self.skipped


def main(status: int, start: float, folders: list[Path]) -> int:
    """Prints a table of parts and the sum last; returns the exit code."""
    parts: dict[str, Part] = {}
    for report in sorted(file for folder in folders for file in folder.glob("*.xml")):
        parts.setdefault("jvm" if report.stem.startswith("TEST-") else report.stem, Part()).add(report)
    row = "{:<20} {:>8} {:>8} {:>8} {:>8}".format
    print(row("part", "passed", "failed", "skipped", "minutes"))
    for name, part in parts.items():
        print(row(name, part.passed, part.failed, part.skipped, f"{part.time / 60:.1f}"))
    passed, failed = sum(p.passed for p in parts.values()), sum(p.failed for p in parts.values())
    skipped = sum(p.skipped for p in parts.values())
    print(row("all, side by side", passed, failed, skipped, f"{(time.time() - start) / 60:.1f}"))
    if status:
        print("a part failed, see above")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return status or int(failed > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), [Path(folder) for folder in sys.argv[3:]]))
