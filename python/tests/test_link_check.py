"""tools/LinkCheck.java: finds what a jar refers to and another version of its library does not have."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "LinkCheck.java"
LIBRARY = "package lib; public class Lib { public static int f = 1; public int used(String s) { return 1; } }"
TRAIT = "package lib; public interface Trait { String name(); default int size() { return 1; } }"
PLUGIN = """
package plugin;
public class Plugin extends lib.Lib implements lib.Trait {
  public String name() { return "p" + used("x") + lib.Lib.f + size() + new lib.Lib[0].length; }
}
"""

pytestmark = pytest.mark.skipif(
    not TOOL.is_file() or shutil.which("javac") is None, reason="needs a source checkout and a JDK"
)


def _jar(folder: Path, name: str, sources: dict[str, str], class_path: Path | None = None) -> Path:
    build = folder / f"{name}-build"
    files = []
    for path, text in sources.items():
        file = build / "src" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        files.append(str(file))
    command = [
        "javac",
        "-d",
        str(build / "classes"),
        *(["-cp", str(class_path)] if class_path else []),
        *files,
    ]
    subprocess.run(command, check=True, timeout=60)
    jar = folder / name / f"{name}.jar"
    jar.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(jar, "w") as archive:
        for file in (build / "classes").rglob("*.class"):
            archive.write(file, file.relative_to(build / "classes").as_posix())
    return jar


def _check(jar: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = ["java", str(TOOL), str(jar), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    library = _jar(folder, "compiled-against", {"lib/Lib.java": LIBRARY, "lib/Trait.java": TRAIT})
    return _jar(folder, "plugin", {"plugin/Plugin.java": PLUGIN}, library)


def _library(folder: Path, library: str, trait: str | None) -> Path:
    sources = {"lib/Lib.java": library} | ({"lib/Trait.java": trait} if trait else {})
    return _jar(folder, "other", sources).parent


def test_same_library(plugin: Path, tmp_path: Path) -> None:
    done = _check(plugin, _library(tmp_path, LIBRARY, TRAIT))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 problems" in done.stdout


@pytest.mark.parametrize(
    ("library", "trait", "problem"),
    [
        (LIBRARY.replace("String s", "Object s"), TRAIT, "plugin/Plugin.used(Ljava/lang/String;)I"),
        (LIBRARY.replace("int f = 1", "long f = 1"), TRAIT, "lib/Lib.f: I"),
        (LIBRARY, None, "class lib/Trait"),
        (
            LIBRARY,
            TRAIT.replace("String name();", "String name(); void more();"),
            "does not implement more()V",
        ),
    ],
)
def test_other_library(plugin: Path, tmp_path: Path, library: str, trait: str | None, problem: str) -> None:
    done = _check(plugin, _library(tmp_path, library, trait))
    assert done.returncode == 1, done.stdout + done.stderr
    assert problem in done.stdout


def test_bad_arguments(plugin: Path, tmp_path: Path) -> None:
    assert _check(plugin, tmp_path / "nowhere").returncode == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    done = _check(plugin, empty)
    assert done.returncode == 2
    assert "has no jar" in done.stderr
