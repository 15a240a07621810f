"""python tools/test_summary.py STATUS DIR...: adds up JUnit reports; exits with STATUS, or 1 if a test
failed or none ran.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def main(status: int, folders: list[Path]) -> int:
    """Prints a line for each report and the sum last; returns the exit code."""
    total = failed = skipped = 0
    for report in sorted(file for folder in folders for file in folder.glob("*.xml")):
        root = ET.parse(report).getroot()
        suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
        count = {
            key: sum(int(s.get(key) or 0) for s in suites)
            for key in ("tests", "failures", "errors", "skipped")
        }
        bad = count["failures"] + count["errors"]
        total, failed, skipped = total + count["tests"], failed + bad, skipped + count["skipped"]
        print(f"{report.stem}: {count['tests']} tests, {bad} failed, {count['skipped']} skipped")
    if status:
        print("a part of make test failed, see above")
    print(f"{total - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return status or int(failed > 0 or total == failed + skipped)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]]))
