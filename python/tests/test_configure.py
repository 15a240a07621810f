"""`configure` on builders of every kind; no JVM is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_dynamic_filters as sdf
from spark_dynamic_filters import _configure, _jar
from spark_dynamic_filters._errors import EXTENSIONS_CLASS, PLUGIN_CLASS

JAR = f"/lib/spark-dynamic-filters_2.13-{sdf.__version__}.jar"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE", "PYSPARK_SUBMIT_ARGS", "MASTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(_configure, "jar_path", lambda: JAR)
    # Whatever other tests of this process have started.
    monkeypatch.setattr(_configure, "_jvm_runs", lambda: False)
    return


def _options(builder: SparkSession.Builder) -> dict[str, str]:
    return dict(builder._options)


def test_classic() -> None:
    builder = SparkSession.builder.master("local[*]")
    assert sdf.configure(builder) is builder
    assert _options(builder) == {"spark.master": "local[*]", "spark.jars": JAR, "spark.plugins": PLUGIN_CLASS}


@pytest.mark.parametrize("version", ["3.5.9", "4.0.5", "4.4.0"])
def test_unsupported_spark_is_left_alone(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Without the mend PySpark 3.5 had an ImportError, and 4.0 a plugin that it does not fit."""
    monkeypatch.setattr("pyspark.__version__", version)
    builder = SparkSession.builder.master("local[*]")
    with pytest.warns(UserWarning, match=rf"Spark {version} is not supported, only 4\.1, 4\.2, 4\.3 are"):
        assert sdf.configure(builder) is builder
    assert _options(builder) == {"spark.master": "local[*]"}


@pytest.mark.filterwarnings("error")
def test_client_of_any_version_for_a_server_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.5.9")
    assert "spark.jars" not in _options(sdf.configure(SparkSession.builder.remote("sc://host:15002")))


def test_twice_is_once() -> None:
    once = _options(sdf.configure(SparkSession.builder))
    assert _options(sdf.configure(sdf.configure(SparkSession.builder))) == once


def test_faults_come_with_a_jar_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jar, "_path", lambda project, name: f"/lib/{project}.jar")
    builder = SparkSession.builder.config(_jar.FAULTS_ENABLED, "true")
    once = _options(sdf.configure(builder))
    assert once["spark.jars"] == f"/lib/faults.jar,{JAR}"
    assert _options(sdf.configure(builder)) == once


def test_appends_to_the_builder() -> None:
    given = {"spark.jars": "/lib/a.jar, /lib/b.jar", "spark.plugins": "com.example.Plugin"}
    options = _options(sdf.configure(SparkSession.builder.config(map=given)))
    assert options["spark.jars"] == f"/lib/a.jar,/lib/b.jar,{JAR}"
    assert options["spark.plugins"] == f"com.example.Plugin,{PLUGIN_CLASS}"


def test_appends_to_spark_defaults(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# site\n! also a comment\n\nspark.jars   /lib/site.jar\nspark.plugins=com.example.Site\n",
        encoding="utf-8",
    )
    options = _options(sdf.configure(SparkSession.builder))
    assert options["spark.jars"] == f"/lib/site.jar,{JAR}"
    assert options["spark.plugins"] == f"com.example.Site,{PLUGIN_CLASS}"


def test_spark_defaults_are_a_properties_file(tmp_path: Path) -> None:
    lines = [
        b"  # a comment that does not go on \\",
        b"spark.jars = /lib/a.jar,\\",
        b"   # no comment,\\",
        rb"   C:\\lib\\b.jar",
        rb"spark.plugins : com.example.A\u002cB",
        rb"with\ a\:blank\=:=value\\",
        rb"escapes a\tb\q",
        b"latin \xe4",
        b"twice 1",
        b"twice 2",
        b"flag",
        b"long\\",
        b"  key \\",
        b" = in parts",
        b"\\",
        b"# a comment",
        b"last x\\",
    ]
    (tmp_path / "spark-defaults.conf").write_bytes(b"\n".join(lines))
    assert _configure.spark_defaults() == {
        "spark.jars": "/lib/a.jar,# no comment,C:\\lib\\b.jar",
        "spark.plugins": "com.example.A,B",
        "with a:blank=": "=value\\",
        "escapes": "a\tbq",
        "latin": "\ufffd",
        "twice": "2",
        "flag": "",
        "longkey": "in parts",
        "last": "x",
    }


def test_empty_folder_of_settings_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.jars /lib/site.jar\n", encoding="utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", "")
    monkeypatch.setattr("pyspark.find_spark_home._find_spark_home", lambda: str(tmp_path))
    assert _configure.spark_defaults() == {"spark.jars": "/lib/site.jar"}


@pytest.mark.parametrize("given", ["--jars", "--conf", "--jars -x", "--driver-java-options -client"])
def test_options_that_spark_submit_refuses_are_left_to_it(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", given)
    assert _options(sdf.configure(SparkSession.builder)) == {"spark.jars": JAR, "spark.plugins": PLUGIN_CLASS}


def test_properties_file_in_place_of_spark_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.jars /lib/site.jar\nspark.plugins com.example.S\n")
    own = tmp_path / "own.conf"
    own.write_text("spark.plugins com.example.Own\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {own} pyspark-shell")
    options = _options(sdf.configure(SparkSession.builder))
    assert options == {"spark.jars": JAR, "spark.plugins": f"com.example.Own,{PLUGIN_CLASS}"}
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--load-spark-defaults --properties-file={own} pyspark-shell")
    options = _options(sdf.configure(SparkSession.builder))
    assert options["spark.jars"] == f"/lib/site.jar,{JAR}"
    assert options["spark.plugins"] == f"com.example.Own,{PLUGIN_CLASS}"


@pytest.mark.parametrize("folder", ["file:///opt/jars/", "C:\\jars\\"])
def test_jar_given_already(folder: str) -> None:
    given = f"{folder}spark-dynamic-filters_2.13-0.1.0.jar"
    options = _options(sdf.configure(SparkSession.builder.config("spark.jars", given)))
    assert options["spark.jars"] == given


def test_extension_given_already() -> None:
    builder = SparkSession.builder.config("spark.sql.extensions", f"com.example.Ext,{EXTENSIONS_CLASS}")
    assert "spark.plugins" not in _options(sdf.configure(builder))


def test_connect_in_this_process() -> None:
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.extensions", "com.example.Ext")
    options = _options(sdf.configure(builder))
    assert options["spark.jars"] == JAR
    assert options["spark.sql.extensions"] == f"com.example.Ext,{EXTENSIONS_CLASS}"
    assert "spark.plugins" not in options


def test_connect_by_api_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    by_option = SparkSession.builder.master("local[2]").config("spark.api.mode", "connect")
    assert _options(sdf.configure(by_option))["spark.sql.extensions"] == EXTENSIONS_CLASS
    monkeypatch.setenv("SPARK_API_MODE", "connect")
    assert _options(sdf.configure(SparkSession.builder))["spark.sql.extensions"] == EXTENSIONS_CLASS


def test_connect_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = SparkSession.builder.remote("sc://spark.example:15002")
    assert _options(sdf.configure(builder)) == {"spark.remote": "sc://spark.example:15002"}
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark.example")
    assert _options(sdf.configure(SparkSession.builder)) == {}


def test_builder_of_the_connect_client() -> None:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    builder = ConnectSession.builder.remote("sc://spark.example")
    assert _options(sdf.configure(builder)) == {"spark.remote": "sc://spark.example"}


@pytest.mark.parametrize(
    "form", ["--jars /lib/other.jar pyspark-shell", "--jars=/lib/other.jar pyspark-shell"]
)
def test_submit_arguments_that_would_drop_the_jar(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", form)
    with pytest.raises(ValueError, match=f"PYSPARK_SUBMIT_ARGS.*--jars /lib/other.jar .*add to it ,{JAR}"):
        sdf.configure(SparkSession.builder)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars /lib/other.jar,{JAR} pyspark-shell")
    sdf.configure(SparkSession.builder)


@pytest.mark.parametrize("form", ["--conf spark.jars={} x", "-c spark.jars={} x", "--conf=spark.jars={} x"])
def test_submit_settings_that_would_drop_the_jar(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", form.format("/lib/other.jar"))
    message = f"PYSPARK_SUBMIT_ARGS.*--conf spark.jars=/lib/other.jar would .*add to it ,{JAR}"
    with pytest.raises(ValueError, match=message) as caught:
        sdf.configure(SparkSession.builder)
    assert len(str(caught.value)) <= 300
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", form.format(f"/lib/other.jar,{JAR}"))
    assert _options(sdf.configure(SparkSession.builder)) == {"spark.plugins": PLUGIN_CLASS}
    # `--jars` is stronger.
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars {JAR} " + form.format("/lib/other.jar"))
    sdf.configure(SparkSession.builder)


def test_settings_of_submit_arguments_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = "--conf spark.plugins=com.example.P -c spark.sql.extensions=com.example.E pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    assert _options(sdf.configure(SparkSession.builder))["spark.plugins"] == f"com.example.P,{PLUGIN_CLASS}"
    local = _options(sdf.configure(SparkSession.builder.remote("local[2]")))
    assert local["spark.sql.extensions"] == f"com.example.E,{EXTENSIONS_CLASS}"


def test_client_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only pyspark-client is installed there is no Spark to start."""
    monkeypatch.setattr(_configure, "_remote_only", lambda: True)
    with pytest.raises(
        ImportError, match=r"a server in this process \(remote local\[2\]\) needs all of Spark"
    ):
        sdf.configure(SparkSession.builder.remote("local[2]"))
    with pytest.raises(
        ImportError, match=r"master local\[\*\] needs all of Spark.*pip install 'pyspark\[connect\]'"
    ):
        sdf.configure(SparkSession.builder.master("local[*]"))
    builder = SparkSession.builder.remote("sc://host:15002")
    assert _options(sdf.configure(builder)) == {"spark.remote": "sc://host:15002"}


def test_no_builder() -> None:
    for wrong in (SparkSession, "local[*]", None):
        with pytest.raises(TypeError, match=r"expected a SparkSession\.builder"):
            sdf.configure(wrong)


def test_running_jvm_without_the_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_configure, "_jvm_runs", lambda: True)
    monkeypatch.setattr(_configure, "_running_jvm_conf", dict)
    monkeypatch.setattr(_configure, "_running_jvm_has_plugin", lambda: False)
    with pytest.raises(sdf.PluginNotLoaded, match="a running JVM takes no further jar"):
        sdf.configure(SparkSession.builder)


def test_running_jvm_with_the_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_configure, "_jvm_runs", lambda: True)
    monkeypatch.setattr(
        _configure, "_running_jvm_conf", lambda: {"spark.jars": JAR, "spark.plugins": "com.example.P"}
    )
    monkeypatch.setattr(_configure, "_running_jvm_has_plugin", lambda: True)
    assert _options(sdf.configure(SparkSession.builder)) == {"spark.plugins": f"com.example.P,{PLUGIN_CLASS}"}


def test_running_jvm_with_the_jar_and_jars_of_the_builder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The builder's jars replace those that the JVM was started with, for executors."""
    monkeypatch.setattr(_configure, "_jvm_runs", lambda: True)
    monkeypatch.setattr(_configure, "_running_jvm_has_plugin", lambda: True)
    monkeypatch.setattr(_configure, "_running_jvm_conf", lambda: {"spark.jars": f"/lib/a.jar,hdfs:{JAR}"})
    options = _options(sdf.configure(SparkSession.builder.config("spark.jars", "/lib/own.jar")))
    assert options["spark.jars"] == f"/lib/own.jar,hdfs:{JAR}"
    # Where it came another way: as in the `jars` folder of the distribution.
    monkeypatch.setattr(_configure, "_running_jvm_conf", dict)
    options = _options(sdf.configure(SparkSession.builder.config("spark.jars", "/lib/own.jar")))
    assert options["spark.jars"] == f"/lib/own.jar,{JAR}"


def test_running_jvm_needs_no_jar_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(_configure, "_jvm_runs", lambda: True)
    monkeypatch.setattr(_configure, "_running_jvm_has_plugin", lambda: True)
    monkeypatch.setattr(_configure, "_running_jvm_conf", dict)
    monkeypatch.setattr(_configure, "jar_path", missing)
    assert _options(sdf.configure(SparkSession.builder)) == {"spark.plugins": PLUGIN_CLASS}


@pytest.mark.parametrize("key", ["spark.jars", "spark.plugins"])
@pytest.mark.parametrize("start", ["getOrCreate", "create"])
def test_settings_that_replace_the_plugin_afterwards_are_refused(
    monkeypatch: pytest.MonkeyPatch, key: str, start: str
) -> None:
    monkeypatch.setattr(SparkSession.Builder, start, lambda self: "a session")
    builder = sdf.configure(SparkSession.builder).config(key, "com.example.Other")
    with pytest.raises(
        sdf.PluginNotLoaded, match=rf"{key} was set to com\.example\.Other after sdf\.configure"
    ):
        getattr(builder, start)()
    assert getattr(sdf.configure(builder), start)() == "a session"
    # Other settings may follow.
    assert getattr(builder.config("spark.app.name", "x"), start)() == "a session"
