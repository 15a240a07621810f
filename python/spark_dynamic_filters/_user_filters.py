"""User filters: made here, updated while queries run, used in them by `matches` and `prunes`."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import uuid
from dataclasses import dataclass, fields
from html import escape
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _commands
from ._conf import conf
from ._errors import DynamicFiltersError, FilterClosed, FilterNotFound, InvalidArgument, shown
from ._forms import Form
from ._html_table import table as html_table
from ._session import is_connect, is_stopped, require_session, sql
from ._values import is_text

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


@dataclass(frozen=True)
class FilterSnapshot:
    """A filter as it was at one moment.

    Attributes:
        name: of the filter.
        type: its type as in SQL.
        generation: 0 when made, one more with each update.
        form: all | nothing | range | in | bitmap | bloom, joined by "+".
        expression: the condition as in a SQL text, on a column of the filter's name; "hidden" under
            `spark.dynamicFilters.report.showValues=false`.
        values: how many values were put in; None for a form that does not list them. Values without a
            gap are a range.
        size_bytes: of the encoded filter.
    """

    name: str
    type: str
    generation: int
    form: str
    expression: str
    values: int | None
    size_bytes: int


class UserFilter:
    """A named filter of one session; made by `create_filter`.

    Queries use it by `matches` and `prunes`, or in SQL as `dynamic_filter('name', column)` and
    `dynamic_filter_prune('name', column)`. As a context manager it closes itself.

    Attributes:
        name: as given.
        type: as given.
    """

    def __init__(self, spark: SparkSession, name: str, data_type: str, token: str) -> None:
        self.name = name
        self.type = data_type
        self._spark = spark
        self._token = token
        self._closed = False

    def update(self, form: Form) -> None:
        """Replaces what passes; the filter's next generation.

        Queries that start later use it. Running ones keep what they have, but for `prunes`, which follows an
        update whose values are provably among those that passed before.

        Args:
            form: made by `between`, `isin`, `bitmap`, `bloom`, `everything`, `nothing`, or `&` of these.

        Raises:
            FilterClosed: it was closed.
            FilterTypeMismatch: a value or form does not fit the filter's type.
            InvalidFilterForm: the form itself is wrong, as bytes that are no bitmap.
            InvalidArgument: no form, a value of a type that no filter has, or the session was stopped (also a
                TypeError).
            DynamicFiltersError: the encoded update has more than 100 MiB.
        """
        if not isinstance(form, Form) or type(form) is Form:
            raise InvalidArgument(
                "update: expected what between, isin, bitmap, bloom, everything or nothing return, "
                f"got {type(form).__name__}"
            )
        self._check_open()
        try:
            _commands.update(self._spark, self.name, self._token, form)
        except DynamicFiltersError as error:
            # Errors that are not about the filter itself do not know it.
            if str(error).startswith("filter '"):
                raise
            raise type(error)(f"{self._shown}: {error}") from None

    def matches(self, column: Column | str) -> Column:
        """A condition: true for rows whose value passes, false for all others, never NULL.

        Exact. A query uses the generation in force when it starts, for all its tasks, retries included.

        Args:
            column: a column or its name; of the filter's type, or any integer type if the filter has one.

        Returns:
            A condition for `where`, `filter`, joins and any other expression. A query that has it after the
            filter was closed fails.

        Raises:
            FilterClosed: it was closed.
            InvalidArgument: no column, or the session was stopped (also a TypeError).
        """
        return self._call("dynamic_filter", column)

    def prunes(self, column: Column | str) -> Column:
        """A condition for `where` that may drop rows whose value does not pass, early or late or never.

        It drops no row whose value passes all generations that a query sees. Unlike `matches` it follows
        updates while the query runs, if they only tighten the filter.

        Args:
            column: as for `matches`.

        Returns:
            A condition for `where` or an inner join, alone or joined to others by `&`.

        Raises:
            FilterClosed: it was closed.
            InvalidArgument: no column, or the session was stopped (also a TypeError).
        """
        return self._call("dynamic_filter_prune", column)

    @property
    def generation(self) -> int:
        """0 when made, one more with each update. Asks the driver.

        Raises:
            FilterClosed: it was closed.
            InvalidArgument: the session was stopped (also a TypeError).
            PluginNotLoaded: a server was started anew without the plugin.
        """
        return self.snapshot().generation

    def snapshot(self) -> FilterSnapshot:
        """What is in force now. Asks the driver.

        Raises:
            FilterClosed: it was closed.
            InvalidArgument: the session was stopped (also a TypeError).
            PluginNotLoaded: a server was started anew without the plugin.
        """
        self._check_open()
        row = sql(
            self._spark,
            "SELECT name, type, generation, form, expression, `values`, size_bytes "
            f"FROM dynamic_user_filters() WHERE token = '{self._token}'",
        ).first()
        if row is None:
            raise FilterClosed(f"{self._shown} is closed; create_filter makes a new one")
        return FilterSnapshot(**row.asDict())

    def close(self) -> None:
        """Forgets the filter. Running queries go on with what they have; new ones that name it are refused.

        Closing twice does nothing, nor does closing after the session was stopped, with which the filter
        ended.

        Raises:
            Exception: the driver cannot be reached; the filter then counts as open, and may be closed again.
        """
        if self._closed:
            return
        if not is_stopped(self._spark):
            # Closed by another client of the session: as wanted.
            with contextlib.suppress(FilterClosed, FilterNotFound):
                _commands.close(self._spark, self.name, self._token)
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise FilterClosed(f"{self._shown} is closed; create_filter makes a new one")
        require_session(self._shown, self._spark)

    @property
    def _shown(self) -> str:
        return f"filter '{shown(self.name)}' of type {shown(self.type, 30)}"

    def _call(self, function: str, column: Column | str) -> Column:
        self._check_open()
        if not isinstance(column, str) and not hasattr(column, "isNull"):
            raise InvalidArgument(
                f"filter '{shown(self.name)}': expected a column or its name, got {column.__class__.__name__}"
            )
        functions = _functions(self._spark)
        called: Column = functions.call_function(function, functions.lit(self.name), column)
        return called

    def __enter__(self) -> UserFilter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # What went wrong in the body says more than what comes of it here.
        with contextlib.suppress(Exception):
            self.close()

    def _repr_html_(self) -> str:
        if self._closed:
            return f"<p>{escape(repr(self))}</p>"
        now = self.snapshot()
        rows = [[field.name, str(getattr(now, field.name))] for field in fields(now)]
        return f"<p>{escape(repr(self))}</p>" + html_table(("", "value"), rows)

    def __repr__(self) -> str:
        return f"UserFilter({self.name!r}, {self.type!r}{', closed' if self._closed else ''})"


def create_filter(spark: SparkSession, name: str, type: Any) -> UserFilter:
    """A new filter of this session; generation 0, which everything passes.

    Args:
        spark: a classic or Spark Connect session.
        name: by which SQL knows it; unique among the session's filters that are not closed.
        type: of the columns that it is for, as in SQL ("bigint", "string", "decimal(10,2)") or a pyspark
            DataType, or the class of one without arguments (`LongType`). An atomic type with an order.

    Raises:
        DuplicateFilter: the session has an open filter of this name.
        FilterTypeMismatch: there are no filters of this type.
        InvalidArgument: `spark`, name or type is none (also a TypeError).
        ValueError: the name is empty.
        PluginNotLoaded: the plugin is not active; the message says what to add.
        ImportError: the `protobuf` package is missing.
    """
    require_session("create_filter", spark)
    if not isinstance(name, str):
        raise InvalidArgument(f"create_filter: the name is a string, got {name.__class__.__name__}")
    if not name:
        raise ValueError("create_filter: the name is empty")
    if not is_text(name):
        raise InvalidArgument(f"create_filter: the name has half a character: {shown(repr(name))}")
    text = _type_text(type)
    if text is None:
        kind = f"the class {type.__name__}" if isinstance(type, builtins.type) else type.__class__.__name__
        raise InvalidArgument(
            f"create_filter: the type is a string as in SQL or a pyspark DataType, got {kind}"
        )
    # The quieter way to find that the plugin is missing.
    conf(spark)
    token = uuid.uuid4().hex
    _commands.create(spark, name, text, token)
    return UserFilter(spark, name, text, token)


def _type_text(given: Any) -> str | None:
    """The name of a type in SQL; None for what is no type."""
    if isinstance(given, type) and hasattr(given, "simpleString"):
        try:
            given = given()
        except TypeError:  # a type with arguments
            return None
    text = given if isinstance(given, str) else getattr(given, "simpleString", lambda: None)()
    return text if isinstance(text, str) else None


def _functions(spark: SparkSession) -> Any:
    # By the session's kind: pyspark.sql.functions goes by environment variables.
    module = "pyspark.sql.connect.functions" if is_connect(spark) else "pyspark.sql.functions"
    return importlib.import_module(f"{module}.builtin")
