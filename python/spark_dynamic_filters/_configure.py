"""Adds the jar and the activation to a session builder."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import re
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ._errors import (
    EXTENSIONS_CLASS,
    PLUGIN_CLASS,
    InvalidArgument,
    PluginNotLoaded,
    plugin_not_loaded,
    shown,
    unsupported_spark,
)
from ._jar import JAR_PREFIX, faults_jars, jar_path

Builder = TypeVar("Builder")


def configure(builder: Builder) -> Builder:
    """Makes sessions of `builder` use dynamic filters.

    Adds the bundled jar to `spark.jars` and the plugin to `spark.plugins`. If the builder has
    `spark.dynamicFilters.testing.faults.enabled=true` and no JVM runs yet, the jar that injects faults for
    tests is added as well.
    Whatever the builder, `spark-defaults.conf`, or `--properties-file` and `--conf` in PYSPARK_SUBMIT_ARGS
    already have in those settings stays.

    For a Spark Connect server in this process (`.remote("local[*]")`) the session extension is added
    instead, because PySpark overwrites `spark.plugins` there. For a server elsewhere
    (`.remote("sc://...")`) nothing is added: the plugin belongs to the server. Calling it twice changes
    nothing. With a Spark that the plugin does not support nothing is added, and a warning says so: the
    session is stock Spark's.

    Args:
        builder: a `SparkSession.builder` whose master or remote is already set.

    Returns:
        The same builder.

    Raises:
        InvalidArgument: `builder` is not a session builder (also a TypeError).
        ImportError: only `pyspark-client` is installed, and the session needs a Spark of its own.
        FileNotFoundError: the jar is missing, see `python -m spark_dynamic_filters jar`.
        PluginNotLoaded: a JVM that was started without the jar is already running, so it would come too late.
            The builder's `getOrCreate` raises it if `spark.jars` or `spark.plugins` was set anew after this.
        ValueError: `PYSPARK_SUBMIT_ARGS` has a `--jars` or a `--conf spark.jars` of its own, which would
            replace the jar.
    """
    # PySpark has no public way to read a builder; both of its builders keep their options here.
    options = getattr(builder, "_options", None)
    if not isinstance(options, dict) or not callable(getattr(builder, "config", None)):
        raise InvalidArgument(f"configure: expected a SparkSession.builder, got {type(builder).__name__}")
    if _is_client(builder, options):
        return builder
    from pyspark import __version__ as version

    if refusal := unsupported_spark(version):
        warnings.warn(refusal, stacklevel=2)
        return builder
    is_connect = _starts_a_server(options)
    # A builder's value would replace these settings, not add to them.
    jvm_runs = _jvm_runs()
    inherited = _running_jvm_conf() if jvm_runs else {**_properties(), **_submitted_settings()}
    if jvm_runs:
        # Too late to add a jar to this JVM's class path; the plugin can still be switched on if it has the
        # jar.
        if not _running_jvm_has_plugin():
            raise plugin_not_loaded(connect=False)
        # Executors take theirs from this setting, and the builder's replaces what the JVM was started with.
        jars = items(options.get("spark.jars"))
        if jars and not has_our_jar(jars):
            started_with = (j for j in items(inherited.get("spark.jars")) if has_our_jar([j]))
            # Where there is none to add, as in a zip, it came in another way.
            with contextlib.suppress(FileNotFoundError):
                _set(builder, "spark.jars", [*jars, next(started_with, None) or jar_path()])
    else:
        jar = jar_path()
        _refuse_replaced_jars(jar)
        jars = items(options.get("spark.jars", inherited.get("spark.jars")))
        added = [other for other in faults_jars(options) if other not in jars]
        if not has_our_jar(jars):
            added.append(jar)
        if added:
            _set(builder, "spark.jars", [*jars, *added])

    extensions = items(options.get("spark.sql.extensions", inherited.get("spark.sql.extensions")))
    if EXTENSIONS_CLASS in extensions:
        return builder
    if is_connect:
        _set(builder, "spark.sql.extensions", [*extensions, EXTENSIONS_CLASS])
        _hide_false_warnings()
    else:
        plugins = items(options.get("spark.plugins", inherited.get("spark.plugins")))
        if PLUGIN_CLASS not in plugins:
            _set(builder, "spark.plugins", [*plugins, PLUGIN_CLASS])
    _guard(builder, options)
    return builder


def _guard(builder: Any, options: dict[str, Any]) -> None:
    """Makes the builder refuse a session if a setting that `configure` has added to was replaced later. Spark
    would say `ClassNotFoundException`, or run without the plugin.
    """

    def has_ours(key: str) -> bool:
        given = items(options.get(key))
        return has_our_jar(given) or PLUGIN_CLASS in given or EXTENSIONS_CLASS in given

    added = [key for key in ("spark.jars", "spark.plugins", "spark.sql.extensions") if has_ours(key)]

    def checked(make: Callable[[Any], Any]) -> Any:
        for key in () if _jvm_runs() else added:
            if not has_ours(key):
                raise PluginNotLoaded(
                    f"{key} was set to {shown(options.get(key))} after sdf.configure, which takes the "
                    "plugin out of it: call sdf.configure last, just before getOrCreate"
                )
        return make(builder)

    for name in ("getOrCreate", "create"):
        if make := getattr(type(builder), name, None):
            setattr(builder, name, functools.partial(checked, make))


def _remote(options: dict[str, Any]) -> Any:
    return options.get("spark.remote", os.environ.get("SPARK_REMOTE"))


def _is_client(builder: Any, options: dict[str, Any]) -> bool:
    """Whether the builder's server is elsewhere: then any version of PySpark will do."""
    if type(builder).__module__.startswith("pyspark.sql.connect"):
        return True
    remote = _remote(options)
    return remote is not None and not str(remote).startswith("local")


def _starts_a_server(options: dict[str, Any]) -> bool:
    """Whether the session will be one of Connect, by the rules of `SparkSession.Builder.getOrCreate`."""
    remote = _remote(options)
    if _remote_only():
        raise ImportError(
            f"configure: only pyspark-client is installed, and {_meant(remote, options)} needs all of Spark: "
            "pip uninstall pyspark-client, then pip install 'pyspark[connect]'; "
            'or name a server, .remote("sc://host:15002")'
        )
    if remote is not None:
        return True
    mode = str(options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))).lower()
    if mode not in ("classic", "connect"):
        from pyspark.util import default_api_mode

        mode = default_api_mode()
    return mode == "connect"


def _meant(remote: Any, options: dict[str, Any]) -> str:
    if remote is not None:
        return f"a server in this process (remote {shown(remote)})"
    return f"a session with master {shown(options.get('spark.master', 'local'))}"


def _remote_only() -> bool:
    from pyspark.util import is_remote_only

    return bool(is_remote_only())


def items(value: Any) -> list[str]:
    """The parts of a list as settings have it."""
    return [item.strip() for item in str(value or "").split(",") if item.strip()]


def _set(builder: Any, key: str, values: list[str]) -> None:
    builder.config(key, ",".join(values))


def has_our_jar(jars: list[str]) -> bool:
    """Whether the plugin's jar, of any version, is among them."""
    return any(re.split(r"[/\\]", jar)[-1].startswith(JAR_PREFIX) for jar in jars)


def _refuse_replaced_jars(jar: str) -> None:
    """spark-submit prefers `--jars` to `spark.jars`, and what is in this variable to what a builder says, so
    either of them in this variable would silently drop our jar.
    """
    submitted, settings = _submitted(), _submitted_settings()
    option, given = "--jars ", submitted.jars
    if not given:
        option, given = "--conf spark.jars=", settings.get("spark.jars")
    packages = [*items(submitted.packages), *items(settings.get("spark.jars.packages"))]
    as_a_package = any(JAR_PREFIX in coordinate for coordinate in packages)
    if given and not has_our_jar(items(given)) and not as_a_package:
        raise ValueError(
            f"PYSPARK_SUBMIT_ARGS: its {option}{shown(given)} would replace the plugin's jar; add to it "
            f",{shown(jar, 120)}"
        )


def _submitted() -> argparse.Namespace:
    """The options of `PYSPARK_SUBMIT_ARGS` that matter here."""
    # An option without its value is for spark-submit to refuse.
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("--jars", "--packages", "--properties-file"):
        parser.add_argument(option, nargs="?")
    parser.add_argument("--conf", action="append", nargs="?", default=[])
    parser.add_argument("--load-spark-defaults", action="store_true")
    given = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    # Not as an option of argparse, which would find it in `-client`, too.
    return parser.parse_known_args(["--conf" if a == "-c" else a for a in given])[0]


def _submitted_settings() -> dict[str, str]:
    pairs = (given.partition("=") for given in _submitted().conf if given)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _hide_false_warnings() -> None:
    """PySpark starts a server with a builder's settings, then also sets them in the session, which Spark
    refuses for those that only a starting application takes; they are in force.
    """
    for key, value in (("spark.jars", JAR_PREFIX), ("spark.sql.extensions", EXTENSIONS_CLASS)):
        message = rf"(?s)Failed to set {re.escape(key)} to .*{re.escape(value)}"
        warnings.filterwarnings("ignore", message=message, category=UserWarning)


def _jvm_runs() -> bool:
    """Whether this Python process already has its JVM: started by spark-submit, or by an earlier session."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return True
    from pyspark.core.context import SparkContext

    return SparkContext._gateway is not None


def _running_jvm_conf() -> dict[str, str]:
    # Only reached where the JVM is there already and the session will be created in it.
    from pyspark.conf import SparkConf
    from pyspark.core.context import SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf(loadDefaults=True).getAll())


def _running_jvm_has_plugin() -> bool:
    from py4j.protocol import Py4JJavaError
    from pyspark.core.context import SparkContext

    SparkContext._ensure_initialized()
    assert SparkContext._jvm is not None
    try:
        SparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(PLUGIN_CLASS)
    except Py4JJavaError:
        return False
    return True


def _properties() -> dict[str, str]:
    """Settings of the file that spark-submit will read: `spark-defaults.conf`, or the `--properties-file` of
    `PYSPARK_SUBMIT_ARGS` in its place.
    """
    submitted = _submitted()
    if not submitted.properties_file:
        return spark_defaults()
    defaults = spark_defaults() if submitted.load_spark_defaults else {}
    return {**defaults, **_read(Path(submitted.properties_file))}


def spark_defaults() -> dict[str, str]:
    """`spark-defaults.conf`, found as spark-submit finds it; empty where there is none."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if not folder:
        from pyspark.find_spark_home import _find_spark_home

        folder = str(Path(_find_spark_home()) / "conf")
    return _read(Path(folder) / "spark-defaults.conf")


# The key and the value of a line of a Java properties file (java.util.Properties). The key ends at the first
# blank, '=' or ':' without a backslash.
_LINE = re.compile(r"((?:\\.|[^\\ \t\f=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK, _COMMENT = " \t\f", ("#", "!")


def _read(file: Path) -> dict[str, str]:
    """A Java properties file, which Spark reads as UTF-8; empty if there is none."""
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    found = {}
    lines = iter(text.split("\n"))
    for first in lines:
        line = first.lstrip(_BLANK)
        # After an odd number of backslashes a line goes on in the next one, unless it is a comment.
        while not line.startswith(_COMMENT) and (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1] + next(lines, "").lstrip(_BLANK)
        key, value = _LINE.match(line).groups()  # type: ignore[union-attr]
        if key and not line.startswith(_COMMENT):
            found[_unescaped(key)] = _unescaped(value).strip()
    return found


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        what = found[1]
        return chr(int(what[1:], 16)) if len(what) > 1 else _ESCAPED.get(what, what)

    return _ESCAPE.sub(plain, text)
