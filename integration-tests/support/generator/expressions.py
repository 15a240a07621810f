"""Expressions of key columns, by family."""

from __future__ import annotations

#: Of a column {y} and the column {g} of the same table: what stays near the column's values. Where an end of
#: a type would be an error, the result is NULL.
NEAR: dict[str, tuple[str, ...]] = {
    "integer": (
        *(f"try_cast({{y}} AS {name})" for name in ("SMALLINT", "INT", "BIGINT", "BIGINT")),
        "try_add(try_add(CAST({y} AS BIGINT), CAST({g} AS BIGINT)), -{g})",
        "try_add(try_add(try_add({g}, {g}), CAST({y} AS BIGINT)), 3L)",
        "try_multiply(CAST({y} AS BIGINT), -1L)",
        "try_cast(try_subtract(0L, CAST({y} AS BIGINT)) AS INT)",
        "CASE WHEN {g} % 2 = 0 THEN {y} WHEN {g} > 6 THEN NULL ELSE {g} END",
        "coalesce({y}, {g}, -1)",
        "nullif({y}, 0)",
        "CAST({g} - 5 AS SMALLINT) + CAST({g} AS SMALLINT) + CAST(1 AS SMALLINT)",
        "({y} & -1)",
        "({y} | 0)",
        "aggregate(array({g}, 5), 0, (s, i) -> s + i - 3)",
        "greatest({y}, -{g})",
        "length(repeat('x', {g})) - 3",
    ),
    "float": (
        "CAST({y} AS DOUBLE)",
        "CAST({y} AS FLOAT)",
        "({y} + {g} + -{g})",
        "({g} + {y} + 1e16D + -1e16D)",
        "(-{y})",
        "nanvl({y}, -0.0D)",
        "(0.25D * {g} * {g})",
        "coalesce({y}, 0.0D)",
    ),
    "decimal": (
        "try_cast({y} AS DECIMAL(18, 4))",
        "try_cast({y} AS DECIMAL(38, 6))",
        "try_cast({y} AS DECIMAL(9, 2))",
        "try_add(try_cast({y} AS DECIMAL(20, 2)), CAST(0 AS DECIMAL(5, 2)))",
        "CAST({g} AS DECIMAL(7, 2)) / 4",
    ),
    "string": ("concat({y}, '')", "upper({y})", "substring({y}, 1, 5)", "lpad({g}, 5, '0')", "trim({y})"),
    "binary": ("concat({y}, X'')", "CAST(lpad({g}, 5, '0') AS BINARY)"),
    "date": ("date_add(DATE '2020-01-01', {g})", "coalesce({y}, DATE '2020-01-05')", "trunc({y}, 'MONTH')"),
    "TIMESTAMP": ("coalesce({y}, TIMESTAMP '2020-01-02 03:00:00')", "date_trunc('DAY', {y})"),
    "TIMESTAMP_NTZ": ("coalesce({y}, TIMESTAMP_NTZ '2020-01-02 03:00:00')", "nullif({y}, {y})"),
}

#: Of a column {y}: what rises or falls with it. None overflows.
RISING: dict[str, tuple[str, ...]] = {
    "integer": (
        *(f"CAST({{y}} AS {name})" for name in ("BIGINT", "DOUBLE", "DECIMAL(20, 1)", "DECIMAL(38, 0)")),
        "{y} DIV 7",
        "CAST({y} AS BIGINT) DIV 100",
        "-({y} DIV 7)",
        "5 - {y} DIV 3",
        "coalesce({y}, 3)",
        "coalesce({y} DIV 7, -1)",
    ),
    "decimal": ("CAST({y} AS DECIMAL(38, 6))",),
    "date": (
        "coalesce({y}, DATE'2020-02-01')",
        "trunc({y}, 'MONTH')",
        "year({y})",
        "trunc({y}, 'WEEK')",
        "-year({y})",
    ),
    "TIMESTAMP": (
        "to_date({y})",
        "date_trunc('HOUR', {y})",
        "date_trunc('WEEK', {y})",
        "year({y})",
        "year(to_date({y}))",
        "CAST({y} AS TIMESTAMP_NTZ)",
    ),
    "TIMESTAMP_NTZ": ("to_date({y})", "year({y})"),
}

#: Of two columns that are compared: what differs for some values, or has to be the same on both sides.
BOTH: dict[str, tuple[str, ...]] = {
    "integer": (
        "abs(CAST({x} AS DECIMAL(20, 0))) = {y}",
        "-CAST({x} AS DECIMAL(20, 0)) = {y}",
        "CAST({x} AS BIGINT) = CAST({y} AS BIGINT)",
    ),
    "string": (
        "upper({x}) = upper({y})",
        "{x} COLLATE UTF8_LCASE = {y} COLLATE UTF8_LCASE",
        "concat({x}, 'x') = concat({y}, 'x')",
    ),
}
