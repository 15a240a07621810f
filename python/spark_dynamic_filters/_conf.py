"""A session's settings as Python attributes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from ._errors import UnknownSetting, means_plugin_missing, translated
from ._html_table import table as html_table
from ._session import not_loaded, require_session
from ._settings import SETTINGS, Setting, below, encode, find, similar, unknown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Attributes for groups whose names are keywords of Python.
_KEYWORDS = {"in_": "in"}


def conf(spark: SparkSession) -> Conf:
    """The settings of dynamic filters in this session.

    ```python
    conf = sdf.conf(spark)
    conf.enabled                        # True
    conf.join.waitTimeout = "2s"
    with conf.override(enabled=False, **{"topk.maxLimit": 5}):
        ...
    ```

    Booleans, whole numbers and fractions are Python's; times and sizes are text such as "10s" and "8m". A
    time needs its unit. `print(conf)` shows all settings.
    Changes hold for this session from the next query on.

    Args:
        spark: a classic or Spark Connect session.

    Raises:
        InvalidArgument: `spark` is no session, or a stopped one.
        PluginNotLoaded: the plugin is not active; the message says what to add.
    """
    require_session("conf", spark)
    settings = Conf(spark)
    # Seldom set by anybody: a setting that was given without the plugin must not hide that it is missing.
    settings.get("selectivity.giveUp")
    return settings


class ConfGroup:
    """Settings by attribute (`conf.topk.maxLimit`) or by name (`conf.get("topk.maxLimit")`).

    Reading, setting or deleting a name that is no setting raises `UnknownSetting` (an AttributeError and
    ValueError), setting a value of the wrong kind ValueError. `del conf.topk.maxLimit` brings the default
    back.
    """

    __slots__ = ("_group", "_spark")

    _spark: SparkSession
    _group: str

    def __init__(self, spark: SparkSession, group: str = "") -> None:
        object.__setattr__(self, "_spark", spark)
        object.__setattr__(self, "_group", group)

    def get(self, name: str) -> bool | int | float | str:
        """The value of a setting.

        Args:
            name: below this group, as `topk.maxLimit`; or the full key.

        Returns:
            A boolean, whole number or fraction as Python's; a time, size or directory as text.

        Raises:
            UnknownSetting: there is no such setting (also an AttributeError and a ValueError).
            InvalidArgument: the name is no string (also a TypeError).
            PluginNotLoaded: the plugin is not active.
        """
        setting = find(self._full(name))
        try:
            text = self._spark.conf.get(setting.key)
            # Spark has a default in its smallest unit (10000ms): show it as documented.
            if setting.type is str:
                text = self._spark.conf.get(setting.key, setting.default)
            return setting.decode(text or "")
        except Exception as error:
            if means_plugin_missing(error):
                raise not_loaded(self._spark) from error
            raise

    def set(self, name: str, value: bool | int | float | str) -> None:
        """Sets a setting, for this session and all threads that share it.

        Args:
            name: as for `get`.
            value: of the setting's kind, or the text of one as in SQL `SET`.

        Raises:
            UnknownSetting: there is no such setting (also an AttributeError and a ValueError).
            InvalidArgument: the name is no string (also a TypeError).
            ValueError: the setting does not take this value; the message says what it takes.
        """
        self._set(find(self._full(name)), value)

    def _set(self, setting: Setting, value: Any) -> None:
        try:
            self._spark.conf.set(setting.key, encode(value))
        except Exception as error:
            raise translated(error) or error from None

    def unset(self, name: str) -> None:
        """Brings a setting back to its default.

        Args:
            name: as for `get`.

        Raises:
            UnknownSetting: there is no such setting (also an AttributeError and a ValueError).
            InvalidArgument: the name is no string (also a TypeError).
        """
        self._spark.conf.unset(find(self._full(name)).key)

    @contextmanager
    def override(self, **values: bool | int | float | str) -> Iterator[Self]:
        """Sets several settings for the body of a `with` statement, all or none.

        They are the session's: threads that share it run under them too. On exit, also by an exception, each
        is as it was before, set or not.

        Args:
            **values: by name below this group; nested names as `**{"topk.maxLimit": 5}`.

        Returns:
            This group, for `as`.

        Raises:
            UnknownSetting: there is no such setting (also an AttributeError and a ValueError).
            ValueError: a setting does not take its value; the message says what it takes.
        """
        named = {self._named(name): value for name, value in values.items()}
        before = self._spark.conf.getAll
        try:
            for setting, value in named.items():
                self._set(setting, value)
            yield self
        finally:
            for setting in named:
                if setting.key in before:
                    self._spark.conf.set(setting.key, before[setting.key])
                else:
                    self._spark.conf.unset(setting.key)

    def _named(self, name: str) -> Setting:
        try:
            return find(self._full(name))
        except UnknownSetting as error:
            meant = similar(self._full(name))
            if meant is None or "." not in meant or "." in name:
                raise
            raise UnknownSetting(f'{error} Write override(**{{"{meant}": ...}})') from None

    def _full(self, name: str) -> str:
        if not self._group or not isinstance(name, str) or name.startswith("spark."):
            return name
        return f"{self._group}.{name}"

    # Hidden from type checkers, which would take any name otherwise: they know the classes below.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Only names that are no real attributes come here; protocols such as pickling ask for __names__,
            # and copying for attributes that are not set yet.
            if name.startswith("__") or name in ConfGroup.__slots__:
                raise AttributeError(name)
            name = _KEYWORDS.get(name, name)
            if name not in below(self._group):
                raise unknown(self._full(name))
            if below(self._full(name)):
                return ConfGroup(self._spark, self._full(name))
            return self.get(name)

        def __setattr__(self, name: str, value: Any) -> None:
            if name in ConfGroup.__slots__:  # a copy is made
                object.__setattr__(self, name, value)
                return
            if below(self._full(name)):
                raise unknown(self._full(name))
            self.set(name, value)

        def __delattr__(self, name: str) -> None:
            self.unset(name)

    def __dir__(self) -> list[str]:
        typed = {name: alias for alias, name in _KEYWORDS.items()}
        return [*super().__dir__(), *(typed.get(name, name) for name in below(self._group))]

    def _repr_html_(self) -> str:
        rows = [[s.key, str(self.get(s.key)), s.default, s.meaning] for s in self._settings()]
        return html_table(("setting", "value", "default", "meaning"), rows)

    def _settings(self) -> list[Setting]:
        return [s for s in SETTINGS if not self._group or s.name.startswith(f"{self._group}.")]

    def __repr__(self) -> str:
        start = f"{self._group}: " if self._group else ""
        names = {s.name.removeprefix(f"{self._group}."): s for s in self._settings()}
        return f"Conf({start}{', '.join(f'{name}={self.get(s.key)!r}' for name, s in names.items())})"


class TopKConf(ConfGroup):
    """`spark.dynamicFilters.topk.*`."""

    enabled: bool
    maxLimit: int


class JoinConf(ConfGroup):
    """`spark.dynamicFilters.join.*`."""

    enabled: bool
    waitTimeout: str
    maxBuildRows: int


class SwitchConf(ConfGroup):
    """A group that has `enabled` alone."""

    enabled: bool


class InConf(ConfGroup):
    """`spark.dynamicFilters.in.*`."""

    maxValues: int


class BloomConf(ConfGroup):
    """`spark.dynamicFilters.bloom.*`."""

    fpp: float


class SelectivityConf(ConfGroup):
    """`spark.dynamicFilters.selectivity.*`."""

    giveUp: float


class ReportConf(ConfGroup):
    """`spark.dynamicFilters.report.*`."""

    retainedQueries: int
    showValues: bool


class Conf(ConfGroup):
    """All settings; made by `conf(spark)`. `in` is a keyword of Python: `conf.in_.maxValues`."""

    enabled: bool
    topk: TopKConf
    join: JoinConf
    aggregate: SwitchConf
    subquery: SwitchConf
    exchange: SwitchConf
    lateMaterialization: SwitchConf
    in_: InConf
    bloom: BloomConf
    maxFilterBytes: str
    selectivity: SelectivityConf
    report: ReportConf
