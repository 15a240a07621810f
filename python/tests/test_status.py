"""`status` and its errors, against sessions that only answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeSession, SparkError

import spark_dynamic_filters as sdf
from spark_dynamic_filters._errors import means_plugin_missing
from spark_dynamic_filters._status import check_versions
from spark_dynamic_filters._version import PROTOCOL, SPARK_LINES

ROOT = Path(__file__).resolve().parents[2]

STATUS: dict[str, Any] = {
    "version": sdf.__version__,
    "protocol": PROTOCOL,
    "spark_version": "4.3.0",
    "enabled": True,
    "activation": "plugin",
}


def test_status() -> None:
    status = sdf.status(FakeSession(status=STATUS))
    assert status.version == status.client_version == sdf.__version__
    assert status.active
    assert "active (classic session, Spark 4.3.0, loaded by plugin)" in str(status)
    assert "<td>spark_version</td><td>4.3.0</td>" in status._repr_html_()
    off = sdf.status(FakeSession(status=STATUS | {"enabled": False}))
    assert not off.active
    assert "spark.dynamicFilters.enabled=false" in str(off)


def test_plugin_not_loaded() -> None:
    session = FakeSession(plugin=False)
    with pytest.raises(sdf.PluginNotLoaded) as caught:
        sdf.status(session)
    message = str(caught.value)
    assert "spark.plugins=org.dynamicfilters.DynamicFiltersPlugin" in message
    assert "--jars" in message
    assert "sdf.configure(SparkSession.builder).getOrCreate()" in message
    # A setting that somebody gave without the plugin must not hide that it is missing.
    session.conf.values["spark.dynamicFilters.enabled"] = "true"
    for call in (sdf.status, sdf.filters, sdf.scans):
        with pytest.raises(sdf.PluginNotLoaded):
            call(session)


@pytest.mark.parametrize("version", ["3.5.9", "4.0.5", "4.4.0", "5.0.0-preview1", "4"])
def test_unsupported_spark_is_named_in_one_line(version: str) -> None:
    """Without the mend the advice was to add the jar, with which Spark 4.0 ran queries without filters."""
    session = FakeSession(plugin=False)
    session.version = version
    for call in (sdf.status, sdf.filters, sdf.scans):
        with pytest.raises(sdf.UnsupportedSpark) as caught:
            call(session)
        message = str(caught.value)
        assert f"Spark {version} is not supported, only 4.1, 4.2, 4.3 are" in message
        assert "\n" not in message


@pytest.mark.parametrize("version", ["4.1.0", "4.2.0-amzn-1", "4.3.0.dev1"])
def test_distributions_of_supported_lines(version: str) -> None:
    session = FakeSession(plugin=False)
    session.version = version
    with pytest.raises(sdf.PluginNotLoaded, match=r"spark\.plugins"):
        sdf.status(session)


def test_python_and_scala_support_the_same_spark_lines() -> None:
    source = (ROOT / "jvm/src/main/scala/org/dynamicfilters/lifecycle/SparkLines.scala").read_text()
    listed = re.search(r"asList\((.*?)\)", source)
    assert listed
    assert tuple(re.findall(r'"(.*?)"', listed[1])) == SPARK_LINES


@pytest.mark.parametrize("version", ["0.0.9", "0.2.0", "1.1.0"])
def test_other_version(version: str) -> None:
    with pytest.raises(
        sdf.VersionMismatch, match=rf"version {version}.*pip install spark-dynamic-filters=={version}"
    ):
        sdf.status(FakeSession(status=STATUS | {"version": version}))


def test_other_protocol() -> None:
    with pytest.raises(sdf.VersionMismatch, match=rf"protocol {PROTOCOL + 1}"):
        check_versions(sdf.__version__, PROTOCOL + 1)
    # What is installed already is no advice.
    with pytest.raises(sdf.VersionMismatch) as caught:
        check_versions(sdf.__version__, PROTOCOL + 1)
    assert "pip install" not in str(caught.value)
    assert "start Spark with this package's jar" in str(caught.value)


def test_patch_versions_go_together() -> None:
    major_minor = ".".join(sdf.__version__.split(".")[:2])
    check_versions(f"{major_minor}.99", PROTOCOL)


def test_other_errors_are_not_mistaken_for_a_missing_plugin() -> None:
    assert means_plugin_missing(SparkError("UNRESOLVABLE_TABLE_VALUED_FUNCTION"))
    assert means_plugin_missing(SparkError("SQL_CONF_NOT_FOUND"))
    assert not means_plugin_missing(SparkError("TABLE_OR_VIEW_NOT_FOUND"))
    assert not means_plugin_missing(RuntimeError("connection lost"))
    assert means_plugin_missing(RuntimeError("[UNRESOLVABLE_TABLE_VALUED_FUNCTION] Could not resolve"))
