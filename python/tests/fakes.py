"""Stand-ins for sessions and reports, so that unit tests need no JVM."""

from __future__ import annotations

from typing import Any

from spark_dynamic_filters._settings import SETTINGS

# Rows of `dynamic_filters()` and `dynamic_filter_scans()`: a filter that skipped rows.
FILTER: dict[str, Any] = {
    "filter_id": "3",
    "producer": "topk",
    "columns": ["k", "n"],
    "state": "ready",
    "generation": 2,
    "expression": "k <= 5",
    "reason": None,
    "advice": None,
    "wait_ms": 0,
    "ready_ms": None,
}
SCAN: dict[str, Any] = {
    "scan_id": 7,
    "table_name": "hits",
    "filter_ids": ["3"],
    "files_total": 4,
    "files_pruned": 3,
    "files_unopened": 1,
    "row_groups_total": 0,
    "row_groups_pruned": 0,
    "rows_total": 2_000,
    "rows_pruned": 500,
    "rows_output": 1_500,
    "bytes_total": None,
    "bytes_read": None,
    "pruned_by": {"statistics": 3, "bloom": 0, "page index": 1_000},
}


class SparkError(Exception):
    """Carries an error condition like PySpark's exceptions, classic and Connect."""

    def __init__(self, condition: str) -> None:
        super().__init__(f"[{condition}] something is not there")
        self._condition = condition

    def getCondition(self) -> str:
        return self._condition


class FakeConf:
    """A session's settings, with our defaults if the plugin is there."""

    def __init__(self, plugin: bool) -> None:
        self.values: dict[str, str] = {}
        self.refuses: str | None = None
        self._defaults = {s.key: s.default for s in SETTINGS} if plugin else {}

    def get(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, self._defaults.get(key) if default is None else default)
        if value is None:
            raise SparkError("SQL_CONF_NOT_FOUND")
        return value

    def set(self, key: str, value: str) -> None:
        if key == self.refuses:
            raise RuntimeError("refused")
        self.values[key] = value

    def unset(self, key: str) -> None:
        self.values.pop(key, None)

    @property
    def getAll(self) -> dict[str, str]:
        return dict(self.values)


class FakeFrame:
    """The result of a statement."""

    schema = None

    def __init__(self, row: dict[str, Any]) -> None:
        self._row = row

    def first(self) -> dict[str, Any]:
        return self._row


class FakeSession:
    """A session whose plugin is there (or not) and answers `dynamic_filters_status()` with `status`."""

    version = "4.3.0"

    def __init__(self, plugin: bool = True, status: dict[str, Any] | None = None) -> None:
        self.conf = FakeConf(plugin)
        self._plugin = plugin
        self._status = status or {}

    def sql(self, text: str) -> FakeFrame:
        if not self._plugin:
            raise SparkError("UNRESOLVABLE_TABLE_VALUED_FUNCTION")
        return FakeFrame(self._status)
