"""What a release needs: one version, licences, and the same facts in wheel, jar and site."""

from __future__ import annotations

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
        if name not in ("CHANGELOG.md", "VERSION")
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


def test_wheel_has_licence_and_notice() -> None:
    assert PROJECT["license-files"] == ["LICENSE", "NOTICE"]


def test_wheel_pom_and_site_name_one_repository() -> None:
    home = PROJECT["urls"]["Homepage"]
    assert f'val repository = "{home}"' in BUILD
    assert f'REPOSITORY = "{home}"' in (ROOT / "docs/conf.py").read_text(encoding="utf-8")
    assert all(url.startswith(home) for url in PROJECT["urls"].values())
    assert PROJECT["license"] == "Apache-2.0"
    assert '"Apache-2.0"' in BUILD
