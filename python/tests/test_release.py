"""What a release needs: one version, licences, and the same facts in wheel, jar and site."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from spark_dynamic_filters import __version__, jar_path

ROOT = Path(__file__).parents[2]
VERSION = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUILD = (ROOT / "build.sbt").read_text(encoding="utf-8")

_spec = importlib.util.spec_from_file_location("release", ROOT / "tools/release.py")
assert _spec is not None
assert _spec.loader is not None
release = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(release)

# Not Scala, where it says since when something exists, as Spark's registries ask for it.
_SUFFIXES = {".md", ".py", ".sbt", ".toml", ".yml", ".ipynb", ".sh", ""}


def test_version_is_semantic() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


def test_package_jar_and_build_take_it_from_the_file() -> None:
    assert __version__ == VERSION
    assert Path(jar_path()).name == f"spark-dynamic-filters_2.13-{VERSION}.jar"
    assert 'version := IO.read(file("VERSION")).trim' in BUILD
    with zipfile.ZipFile(jar_path()) as jar:
        assert jar.read("org/dynamicfilters/version.txt").decode().strip() == VERSION


def test_no_other_file_names_it() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no checkout")
    named = [
        name
        for name in listed.stdout.splitlines()
        # The notebook's outputs name the version that made them.
        if name not in ("CHANGELOG.md", "VERSION", "docs/notebook.ipynb")
        and "/test" not in name
        and (ROOT / name).suffix in _SUFFIXES
        and (ROOT / name).is_file()
        and re.search(rf"(?<![\w.]){re.escape(VERSION)}(?![\w.])", (ROOT / name).read_text(encoding="utf-8"))
    ]
    assert named == []


def test_changes_begin_with_it() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.M)[0] == VERSION


def test_jar_has_licence_and_notice() -> None:
    with zipfile.ZipFile(jar_path()) as jar:
        for name in ("LICENSE", "NOTICE"):
            assert jar.read(f"META-INF/{name}") == (ROOT / name).read_bytes()


def test_jar_contains_our_packages_only() -> None:
    assert release.foreign(Path(jar_path())) == []


def test_a_release_has_checksums_a_bill_of_materials_and_a_list(tmp_path: Path) -> None:
    folder = tmp_path / "maven/org/dynamicfilters/spark-dynamic-filters_2.13/1.2.3"
    folder.mkdir(parents=True)
    start = "spark-dynamic-filters_2.13-1.2.3"
    wheel = tmp_path / "spark_dynamic_filters-1.2.3-py3-none-any.whl"
    with pytest.raises(SystemExit, match=r"not built: .*whl"):
        release.collect(wheel, tmp_path / "maven", tmp_path / "out")
    for jar, entry in (("", "org/dynamicfilters/A.class"), ("-sources", "a"), ("-javadoc", "b")):
        with zipfile.ZipFile(folder / f"{start}{jar}.jar", "w") as made:
            made.writestr(entry, "")
    spark = "<groupId>g</groupId><artifactId>spark</artifactId><version>4</version><scope>provided</scope>"
    tests = "<groupId>g</groupId><artifactId>tests</artifactId><version>1</version><scope>test</scope>"
    listed = "".join(f"<dependency>{d}</dependency>" for d in (spark, tests))
    pom = (
        f'<project xmlns="http://maven.apache.org/POM/4.0.0"><dependencies>{listed}</dependencies></project>'
    )
    (folder / f"{start}.pom").write_text(pom)
    with zipfile.ZipFile(wheel, "w") as made:
        needs = "Requires-Dist: protobuf>=4.25; extra == 'filters'\n"
        made.writestr("spark_dynamic_filters-1.2.3.dist-info/METADATA", needs)
    files = release.collect(wheel, tmp_path / "maven", tmp_path / "out")
    assert {f.name for f in files} >= {
        wheel.name,
        f"{start}.jar",
        f"{start}-sources.jar",
        f"{start}-javadoc.jar",
    }
    sums = (tmp_path / "out/SHA256SUMS").read_text().splitlines()
    assert f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel.name}" in sums
    assert len(sums) == len(files) - 1
    assert (tmp_path / f"out/{start}.contents.txt").read_text() == "org/dynamicfilters/A.class\n"
    bill = json.loads((tmp_path / f"out/{start}.cdx.json").read_text())
    assert [c["purl"] for c in bill["components"]] == [
        "pkg:pypi/spark-dynamic-filters@1.2.3",
        "pkg:maven/g/spark@4",
        "pkg:pypi/protobuf",
    ]
    with zipfile.ZipFile(folder / f"{start}.jar", "a") as made:
        made.writestr("com/google/protobuf/Message.class", "")
    with pytest.raises(SystemExit, match=r"does not allow: com/google/protobuf/Message\.class"):
        release.collect(wheel, tmp_path / "maven", tmp_path / "out")


def test_wheel_has_licence_and_notice() -> None:
    assert PROJECT["license-files"] == ["LICENSE", "NOTICE"]


def test_wheel_and_pom_have_the_licence_and_no_invented_address() -> None:
    """There is no public repository yet. docs/release.md says where its address goes."""
    assert PROJECT["license"] == "Apache-2.0"
    assert '"Apache-2.0"' in BUILD
    assert "urls" not in PROJECT
    assert "github.com" not in BUILD
