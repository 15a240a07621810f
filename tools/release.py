"""Puts all that is published into one folder, with checksums, a bill of materials and the jar's entries.

`make release` calls it. The layout of `maven/` is that of a Maven repository, as Maven Central takes it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import sys
import uuid
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

GROUP, ARTIFACT = "org.dynamicfilters", "spark-dynamic-filters_2.13"
POM = "{http://maven.apache.org/POM/4.0.0}"
CONTENTS = Path(__file__).with_name("jar-contents.txt")
LICENCE = [{"license": {"id": "Apache-2.0"}}]


def foreign(jar: Path) -> list[str]:
    """Entries of the jar that the checked-in list does not allow."""
    allowed = tuple(CONTENTS.read_text(encoding="utf-8").split())
    return [entry for entry in entries(jar) if not entry.startswith(allowed)]


def entries(jar: Path) -> list[str]:
    """The files in the jar, sorted."""
    with zipfile.ZipFile(jar) as opened:
        return sorted(name for name in opened.namelist() if not name.endswith("/"))


def bill(version: str, jar: Path, pom: Path, wheel: Path) -> dict[str, Any]:
    """The CycloneDX bill of materials: the jar, the wheel, and what they need but do not contain."""
    main = f"pkg:maven/{GROUP}/{ARTIFACT}@{version}"
    pypi = f"pkg:pypi/spark-dynamic-filters@{version}"
    package = _component("spark-dynamic-filters", version, pypi, "required")
    needed = [*_of_pom(pom), *_of_wheel(wheel)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, main + digest(jar) + digest(wheel))}",
        "version": 1,
        "metadata": {
            "component": {
                **_component(ARTIFACT, version, main, "required", jar),
                "group": GROUP,
                "licenses": LICENCE,
            }
        },
        "components": [package | {"hashes": _hashes(wheel), "licenses": LICENCE}, *needed],
        "dependencies": [
            {"ref": main, "dependsOn": [c["bom-ref"] for c in needed if c["purl"].startswith("pkg:maven")]},
            {
                "ref": package["bom-ref"],
                "dependsOn": [main, *(c["bom-ref"] for c in needed if c["purl"].startswith("pkg:pypi"))],
            },
        ],
    }


def _component(name: str, version: str, purl: str, scope: str, file: Path | None = None) -> dict[str, Any]:
    found = {"type": "library", "bom-ref": purl, "name": name, "purl": purl, "scope": scope}
    if version:
        found["version"] = version
    return found | ({"hashes": _hashes(file)} if file else {})


def _hashes(file: Path) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest(file)}]


def _of_pom(pom: Path) -> list[dict[str, Any]]:
    """What the application brings: Scala, Spark. Tests need the rest."""
    found = []
    for d in ElementTree.parse(pom).getroot().iter(f"{POM}dependency"):
        parts = ("groupId", "artifactId", "version", "scope")
        group, name, version, scope = (d.findtext(POM + part, "") for part in parts)
        if scope != "test":
            made = _component(name, version, f"pkg:maven/{group}/{name}@{version}", "required")
            found.append(made | {"group": group, "properties": [{"name": "bundled", "value": "false"}]})
    return found


def _of_wheel(wheel: Path) -> list[dict[str, Any]]:
    """The packages of the wheel's extras."""
    with zipfile.ZipFile(wheel) as opened:
        metadata = next(name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        needs = Parser().parsestr(opened.read(metadata).decode()).get_all("Requires-Dist", [])
    found = []
    for need in needs:
        requirement = need.split(";")[0].strip()
        name = re.split(r"[^\w.-]", requirement)[0]
        made = _component(name, "", f"pkg:pypi/{name}", "optional")
        found.append(made | {"properties": [{"name": "requirement", "value": requirement}]})
    return found


def digest(file: Path) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def collect(wheel: Path, maven: Path, out: Path) -> list[Path]:
    """Copies the artifacts to `out` and writes what goes with them.

    Raises:
        SystemExit: an artifact is missing, or the jar has entries that are not ours.
    """
    versions = maven / GROUP.replace(".", "/") / ARTIFACT
    version = wheel.name.split("-")[1]
    start = f"{ARTIFACT}-{version}"
    files = [versions / version / (start + end) for end in (".jar", "-sources.jar", "-javadoc.jar", ".pom")]
    if missing := [file.name for file in [*files, wheel] if not file.is_file()]:
        sys.exit(f"release: not built: {', '.join(missing)}")
    if other := foreign(files[0]):
        sys.exit(f"release: {files[0].name} has what {CONTENTS.name} does not allow: {', '.join(other[:5])}")
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(versions / version, out / "maven" / (versions / version).relative_to(maven))
    made = [Path(shutil.copy(file, out)) for file in [wheel, *files]]
    contents = out / f"{start}.contents.txt"
    contents.write_text("\n".join(entries(files[0])) + "\n", encoding="utf-8")
    sbom = out / f"{start}.cdx.json"
    sbom.write_text(json.dumps(bill(version, files[0], files[3], wheel), indent=2) + "\n", encoding="utf-8")
    made += [contents, sbom]
    sums = out / "SHA256SUMS"
    sums.write_text("".join(f"{digest(file)}  {file.name}\n" for file in made), encoding="utf-8")
    return [*made, sums]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--wheel", "--maven", "--out"):
        parser.add_argument(option, type=Path, required=True)
    given = parser.parse_args()
    for file in collect(given.wheel, given.maven, given.out):
        print(f"{file.stat().st_size:12,}  {file}")
