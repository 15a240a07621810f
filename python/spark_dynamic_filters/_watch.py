"""What filters did in all queries of a block."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from ._analysis_html import Page
from ._analyze import Analysis, tagged
from ._report import all_by_tag
from ._session import require_session
from ._status import status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NONE = "no query ran in this block"


class Watch(Page):
    """The queries of a block; made by `watch(spark)`. Prints as text, and shows in a notebook.

    Attributes:
        queries: their analyses, oldest first; empty until the block has ended. Commands and writes are among
            them, and the parts of a command that have a filtered scan, as those of a MERGE into Delta.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.queries: list[Analysis] = []
        self._spark = spark
        self._tagged = tagged(spark)
        self._tag = ""

    def __enter__(self) -> Watch:
        self._tag = self._tagged.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tagged.__exit__(kind, error, trace)
        # What went wrong in the block says more than its filters.
        if error is None:
            self.queries = [
                Analysis(report, (report.duration_ms or 0) / 1000)
                for report in all_by_tag(self._spark, self._tag)
                if report.part_of is None or report.scans
            ]

    def __str__(self) -> str:
        return "\n\n".join(f"{q.description}\n{q}" for q in self.queries) or _NONE

    def __repr__(self) -> str:
        return f"Watch({len(self.queries)} queries)"

    def _repr_html_(self) -> str:
        return "".join(q._repr_html_() for q in self.queries) or f"<p>{_NONE}</p>"

    def _title(self) -> str:
        return repr(self)


def watch(spark: SparkSession) -> Watch:
    """Collects all queries that this thread runs in a block, commands, writes and `count()` included.

    ```python
    with sdf.watch(spark) as w:
        spark.sql("INSERT INTO best SELECT * FROM hits ORDER BY EventTime LIMIT 10")
    print(w)
    ```

    Args:
        spark: a classic or Spark Connect session.

    Raises:
        InvalidArgument: `spark` is no session, or a stopped one (also a TypeError).
        PluginNotLoaded: the plugin is not active; the message says what to add.
        VersionMismatch: plugin and this package do not go together; the message says which to change.
    """
    require_session("watch", spark)
    status(spark)
    return Watch(spark)
