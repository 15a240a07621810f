"""`python -m spark_dynamic_filters`."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_dynamic_filters import __main__ as command
from spark_dynamic_filters import __version__, _jar, jar_path
from spark_dynamic_filters._settings import SETTINGS


def test_jar_prints_a_path_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["jar"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [jar_path()]
    assert Path(lines[0]).is_file()
    assert lines[0].endswith(f"spark-dynamic-filters_2.13-{__version__}.jar")


def test_missing_jar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_jar, "JAR_NAME", "spark-dynamic-filters_2.13-none.jar")
    assert command.main(["jar"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "spark-dynamic-filters_2.13-none.jar is not at" in captured.err


def test_confs_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["confs"]) == 0
    out = capsys.readouterr().out
    for setting in SETTINGS:
        assert setting.key in out
        assert setting.meaning in out
        assert setting.takes in out


def test_bad_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["jars"])
    assert caught.value.code == 2
    assert "jar" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main([])


def test_demo_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    assert command.main(["demo"]) == 1
    assert "Java 17" in capsys.readouterr().err


def test_demo_needs_some_rows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["demo", "--rows", "10"])
    assert "at least 400 rows" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["demo", "--rows", "abc"])
    assert "argument --rows: abc is no whole number" in capsys.readouterr().err
