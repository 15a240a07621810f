"""Whether the plugin is active, and which version."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING

from ._conf import conf
from ._errors import VersionMismatch, shown
from ._html_table import table as html_table
from ._session import is_connect, require_session, sql
from ._version import PROTOCOL, __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Status:
    """What `status(spark)` found.

    Attributes:
        version: version of the plugin in the Spark application.
        protocol: number of the protocol between plugin and this package.
        spark_version: version of Spark there.
        enabled: the session's `spark.dynamicFilters.enabled`.
        activation: the entry that loaded it, "plugin" or "extensions".
        client_version: version of this package.
        connect: whether this is a Spark Connect session.
    """

    version: str
    protocol: int
    spark_version: str
    enabled: bool
    activation: str
    client_version: str
    connect: bool

    @property
    def active(self) -> bool:
        """Whether queries of this session get dynamic filters: loaded and enabled."""
        return self.enabled

    def __str__(self) -> str:
        state = "active" if self.active else "loaded, switched off by spark.dynamicFilters.enabled=false"
        kind = "Spark Connect" if self.connect else "classic"
        return (
            f"spark-dynamic-filters {self.version}: {state} ({kind} session, Spark {self.spark_version}, "
            f"loaded by {self.activation})"
        )

    def _repr_html_(self) -> str:
        rows = [[field.name, str(getattr(self, field.name))] for field in fields(self)]
        return f"<p>{escape(str(self))}</p>" + html_table(("", "value"), rows)


def status(spark: SparkSession) -> Status:
    """The plugin's version and whether it is active in this session.

    Args:
        spark: a classic or Spark Connect session.

    Raises:
        InvalidArgument: `spark` is no session, or a stopped one.
        PluginNotLoaded: the plugin is not there; the message says what to add.
        UnsupportedSpark: the plugin stays off with this line of Spark (also a PluginNotLoaded).
        VersionMismatch: plugin and this package do not go together; the message says which to change.
    """
    require_session("status", spark)
    # The setting first: where the plugin is missing this is the quieter way to learn it (no error in
    # Spark's log).
    conf(spark)
    row = sql(
        spark, "SELECT version, protocol, spark_version, enabled, activation FROM dynamic_filters_status()"
    ).first()
    assert row is not None
    found = Status(
        version=row["version"],
        protocol=row["protocol"],
        spark_version=row["spark_version"],
        enabled=row["enabled"],
        activation=row["activation"],
        client_version=__version__,
        connect=is_connect(spark),
    )
    check_versions(found.version, found.protocol)
    return found


def check_versions(version: str, protocol: int) -> None:
    """Refuses a plugin that this package may misunderstand.

    Args:
        version: the plugin's version, such as "1.2.0".
        protocol: the plugin's protocol number.

    Raises:
        VersionMismatch: another protocol, or another major or minor version.
    """
    if protocol == PROTOCOL and _line(version) == _line(__version__):
        return
    jar = "start Spark with this package's jar (`python -m spark_dynamic_filters jar` prints its path)"
    if version == __version__:
        raise VersionMismatch(
            f"the plugin in the Spark application and the Python package are different builds of version "
            f"{version} (protocol {protocol} and {PROTOCOL}): {jar}"
        )
    raise VersionMismatch(
        f"the plugin in the Spark application is version {shown(version, 30)} (protocol {protocol}), the "
        f"Python package {__version__} (protocol {PROTOCOL}): "
        f"`pip install spark-dynamic-filters=={shown(version, 30)}` here, or {jar}"
    )


def _line(version: str) -> list[str]:
    return version.split(".")[:2]
