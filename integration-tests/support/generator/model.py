"""SQL as a tree of dataclasses: it can be written as text, and made smaller part by part.

A list may lose any of its elements, an optional part may be left out: what the text then means, or whether it
still means something, is for Spark to say.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Item:
    """A column of a result. `as_text`: it is compared as text."""

    text: str
    alias: str
    as_text: bool = False

    def sql(self) -> str:
        return f"{self.text} AS {self.alias}"


@dataclass
class AnyOf:
    """Conditions joined by OR, or all of it negated."""

    conditions: list[Condition]
    negated: bool = False

    def sql(self) -> str:
        text = "(" + " OR ".join(write(c) for c in self.conditions) + ")"
        return f"NOT {text}" if self.negated else text


@dataclass
class Subquery:
    """A condition with a subquery: `before` is `a.k IN`, `NOT EXISTS`, `a.v >` and the like."""

    before: str
    select: Select

    def sql(self) -> str:
        return f"{self.before} ({self.select.sql()})"


Condition = str | AnyOf | Subquery


@dataclass
class Source:
    """A table, or a subquery in its place.

    Attributes:
        table: its name; empty for a subquery.
    """

    alias: str
    table: str = ""
    select: Select | SetOperation | None = None

    def sql(self) -> str:
        return f"({self.select.sql()}) {self.alias}" if self.select else f"{self.table} {self.alias}"


@dataclass
class Join:
    """A join with what stands before it.

    Attributes:
        kind: `LEFT OUTER JOIN` and so on.
        on: conditions, joined by AND.
        using: columns in place of conditions.
    """

    kind: str
    source: Source
    on: list[Condition] = field(default_factory=list)
    using: list[str] = field(default_factory=list)

    def sql(self) -> str:
        text = f"{self.kind} {self.source.sql()}"
        if self.using:
            return f"{text} USING ({', '.join(self.using)})"
        return f"{text} ON {' AND '.join(map(write, self.on))}" if self.on else text


@dataclass
class Select:
    items: list[Item]
    base: Source
    joins: list[Join] = field(default_factory=list)
    laterals: list[str] = field(default_factory=list)
    where: list[Condition] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    rollup: bool = False
    having: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    distinct: bool = False
    order: list[Order] = field(default_factory=list)
    limit: int | None = None

    def sql(self) -> str:
        hints = f"/*+ {', '.join(self.hints)} */ " if self.hints else ""
        text = f"SELECT {hints}{'DISTINCT ' if self.distinct else ''}"
        text += ", ".join(i.sql() for i in self.items) + f" FROM {self.base.sql()}"
        text += "".join(f" {join.sql()}" for join in self.joins) + "".join(f" {v}" for v in self.laterals)
        if self.where:
            text += " WHERE " + " AND ".join(map(write, self.where))
        if self.group:
            keys = ", ".join(self.group)
            text += f" GROUP BY {f'ROLLUP ({keys})' if self.rollup else keys}"
        if self.having:
            text += " HAVING " + " AND ".join(self.having)
        return text + ordering(self.order, self.limit, 0)

    def columns(self) -> list[Item]:
        return self.items


@dataclass
class SetOperation:
    """`UNION ALL`, `EXCEPT` and so on of selects with equal columns."""

    kind: str
    selects: list[Select]

    def sql(self) -> str:
        return f" {self.kind} ".join(f"({s.sql()})" if s.limit or s.hints else s.sql() for s in self.selects)

    def columns(self) -> list[Item]:
        return self.selects[0].items


@dataclass
class Order:
    """A sort key: an alias of the result, or in a subquery any expression; direction and place of NULLs."""

    by: str
    direction: str

    def sql(self) -> str:
        return f"{self.by} {self.direction}".rstrip()


@dataclass
class Cte:
    name: str
    select: Select | SetOperation


@dataclass
class Statement:
    """A whole query.

    Attributes:
        cached: its rows are cached and read twice.
        kept: what it reads of the cache; filled when it reads that.
    """

    body: Select | SetOperation
    ctes: list[Cte] = field(default_factory=list)
    kept: list[Cte] = field(default_factory=list)
    order: list[Order] = field(default_factory=list)
    limit: int | None = None
    offset: int = 0
    cached: bool = False

    def sql(self) -> str:
        return self._text(ordering(self.order, self.limit, self.offset))

    def unlimited(self) -> str:
        """The same query without LIMIT."""
        return self._text("")

    def before(self) -> list[str]:
        """What is to be run before, under the same settings."""
        return [f"CACHE LAZY TABLE {c.name} AS {c.select.sql()}" for c in self.kept]

    def script(self) -> str:
        """All of it as text."""
        return "".join(f"{text};\n" for text in (*self.before(), self.sql()))

    def _text(self, end: str) -> str:
        ctes = f"WITH {', '.join(f'{c.name} AS ({c.select.sql()})' for c in self.ctes)} " if self.ctes else ""
        text = f"{ctes}{self.body.sql()}{end}"
        columns = self.body.columns()
        if not any(c.as_text for c in columns):
            return text
        cast = (f"CAST({c.alias} AS STRING) AS {c.alias}" if c.as_text else c.alias for c in columns)
        return f"SELECT {', '.join(cast)} FROM ({text})"


def shows(join: str) -> bool:
    """Whether the result of a join of this kind has columns of what is joined."""
    return "SEMI" not in join and "ANTI" not in join


def write(condition: Condition) -> str:
    return condition if isinstance(condition, str) else condition.sql()


def ordering(order: list[Order], limit: int | None, offset: int) -> str:
    text = " ORDER BY " + ", ".join(o.sql() for o in order) if order else ""
    if limit is not None:
        text += f" LIMIT {limit}"
        if offset:
            text += f" OFFSET {offset}"
    return text
