"""How Spark is started for tests and for the demo; no process is."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from spark_dynamic_filters import _demo
from spark_dynamic_filters._errors import PLUGIN_CLASS
from spark_dynamic_filters.testing import MODES, _connect_server, _modes, plugin

JAR = "/lib/spark-dynamic-filters_2.13-9.9.9.jar"


@pytest.mark.parametrize(
    ("module", "start"),
    [(_demo, _demo._session), (_modes, lambda: _modes.start_application("classic"))],
    ids=["demo", "classic"],
)
def test_classic_whatever_the_default_is(
    monkeypatch: pytest.MonkeyPatch, module: Any, start: Callable[[], object]
) -> None:
    monkeypatch.setenv("SPARK_API_MODE", "connect")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    configure = mock.MagicMock()
    monkeypatch.setattr(module, "configure", configure)
    start()
    (builder,) = configure.call_args.args
    assert builder._options["spark.api.mode"] == "classic"


def _options(command: list[str]) -> dict[str, str]:
    """What follows --jars, and the settings."""
    pairs = [command[i + 1].split("=", 1) for i, word in enumerate(command) if word == "--conf"]
    return {"--jars": command[command.index("--jars") + 1], **{p[0]: p[1] for p in pairs}}


def test_connect_server_keeps_what_spark_defaults_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.jars /lib/site.jar,/site/{Path(JAR).name}\nspark.plugins com.example.Site\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(_connect_server, "jar_path", lambda: JAR)
    options = _options(_connect_server._command({}, 1))
    assert options["--jars"] == f"{JAR},/lib/site.jar"
    assert options["spark.plugins"] == f"com.example.Site,{PLUGIN_CLASS}"
    given = {"spark.jars": "/lib/a.jar", "spark.plugins": "com.example.A"}
    options = _options(_connect_server._command(given, 1))
    assert options["--jars"] == f"{JAR},/lib/a.jar"
    assert options["spark.plugins"] == f"com.example.A,{PLUGIN_CLASS}"


def test_connect_server_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connect_server, "jar_path", lambda: JAR)
    monkeypatch.setattr(subprocess, "Popen", mock.MagicMock())
    monkeypatch.setattr(_connect_server.ConnectServer, "_wait_until_listening", lambda self: None)
    server = _connect_server.ConnectServer({})
    folder = server._log.parent
    server.stop()
    assert server.log() == ""
    del server
    gc.collect()
    assert not folder.exists()


def test_modes_of_the_pytest_plugin() -> None:
    parser = mock.MagicMock()
    plugin.pytest_addoption(parser)
    assert parser.getgroup().addoption.call_args.kwargs["choices"] == MODES


def test_unknown_mode() -> None:
    with pytest.raises(ValueError, match="'cluster': unknown; valid are classic, local-cluster, connect"):
        _modes.start_application("cluster")
