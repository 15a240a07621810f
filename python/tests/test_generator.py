"""The generator of random queries itself: what it makes, shrinks and compares, without Spark."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from support.generator import comparison, data, shrinking
from support.generator.campaign import KINDS, make
from support.generator.kinds import BIGINT, COLUMNS, INT
from support.generator.model import Item, Order, Select, Source, Statement


def _tables() -> list[data.Table]:
    columns = {"id": BIGINT, "g": INT, "p": INT} | {c: kinds[0] for c, kinds in COLUMNS.items()}
    sizes = (1_500, 1_000, 300, 50, 10, 1)
    return [data.Table(f"t{i}", rows, columns, Path(), False) for i, rows in enumerate(sizes)]


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_statement(kind: str) -> None:
    made = [[make(seed, n, _tables(), kind) for seed in range(5) for n in range(5)] for _ in range(2)]
    texts = [[(statement.sql(), settings) for statement, settings in run] for run in made]
    assert texts[0] == texts[1]
    assert len({text for text, _ in texts[0]}) > 20


# How many statements of a kind show all that is to be tested, and what that is.
_WANTED: dict[str, tuple[int, tuple[str, ...]]] = {
    "joins": (
        2_000,
        (
            *("LEFT OUTER JOIN", "RIGHT OUTER JOIN", "FULL OUTER JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"),
            *("CROSS JOIN", "USING (", "<=>", " NOT IN (SELECT", "NOT EXISTS (", ") OR "),
            *("= (SELECT m", "rank() OVER", "row_number() OVER", "GROUP BY", "ROLLUP", "HAVING", "DISTINCT"),
            *("UNION", "INTERSECT", "EXCEPT", "WITH c AS", "LATERAL VIEW", "LIMIT", "OFFSET"),
            *("BROADCAST(", "MERGE(", "SHUFFLE_HASH(", "REPARTITION(8)", "REBALANCE", "DYNAMIC_FILTER"),
        ),
    ),
    "subqueries": (
        1_000,
        (
            *("LEFT SEMI JOIN", "LEFT ANTI JOIN", "LEFT OUTER JOIN", "FULL OUTER JOIN"),
            *(" IN (SELECT", " NOT IN (SELECT", "EXISTS (SELECT", "NOT EXISTS (SELECT", ">= (SELECT m"),
            *("HAVING count(*) + (SELECT", ", (SELECT count(", "FROM (SELECT", "RIGHT OUTER JOIN"),
            *("UNION ALL", "rank() OVER", "LIMIT", "min(", ".id < 0"),
            *("BROADCAST(", "MERGE(", "SHUFFLE_HASH(", "DYNAMIC_FILTER("),
        ),
    ),
    "replanned": (
        300,
        (
            *("HAVING count(*)", "HAVING sum(", "SELECT DISTINCT", "slow(", "BROADCAST(", "DYNAMIC_FILTER("),
            *("(SELECT /*+", "UNION ALL", "EXCEPT", " IN (SELECT", " NOT IN (SELECT"),
            *("LEFT SEMI JOIN", "LEFT ANTI JOIN", "LEFT OUTER JOIN", "INTERSECT", ") AS v1"),
            *("CACHE LAZY TABLE kept AS SELECT", "FROM kept q", "older_t2 "),
        ),
    ),
    "computed": (
        600,
        (
            *("try_cast(", "try_add(try_add(try_add(", "CASE WHEN", "aggregate(array(", "(-", "try_sum("),
            *("avg(", "GROUP BY", "HAVING", "UNION", "REPARTITION(3, ", "<=>", "DYNAMIC_FILTER("),
            *("SHUFFLE_HASH(", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "RIGHT OUTER JOIN", "LEFT OUTER JOIN"),
            *("to_date(", "date_trunc('WEEK'", "year(", " DIV ", "DECIMAL(38, 6)", "DESC NULLS FIRST"),
            *("LIMIT", "<= (SELECT m", "= (SELECT m", ".st.inner.", "BROADCAST(", "MERGE(", " AND a"),
        ),
    ),
    "shared": (
        300,
        (
            *("c2 AS (", "FROM c1 ", "ROLLUP", "DISTINCT", "REPARTITION(", "REBALANCE", "OVER (PARTITION BY"),
            *("UNION ALL", "EXCEPT", "INTERSECT", " IN (SELECT", " NOT IN (SELECT", "EXISTS (SELECT"),
            *(">= (SELECT", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "LEFT OUTER JOIN", "FULL OUTER JOIN", "<=>"),
            "DYNAMIC_FILTER(",
        ),
    ),
    "failing": (
        1_500,
        (
            *("100 DIV ", "element_at(", "raise_error(", "CASE WHEN ", "nullif(", "try_divide("),
            *(" AND 100 / ", "LIKE", "FILTER (WHERE", "HAVING", "OVER (PARTITION BY", "sum(a.su)"),
            *("max_by(a.bl", "CAST(b.c AS DATE)", "LEFT JOIN", "RIGHT JOIN", "LEFT SEMI JOIN"),
            *(
                "NOT EXISTS (SELECT",
                "(EXISTS (SELECT",
                "(SELECT max(l.y)",
                "UNION ALL",
                "fboth",
                "ORDER BY k",
            ),
            *("max(e.k)", "WITH c AS", "fmid", "NO_DYNAMIC_FILTER(", "a.type = 'A'"),
        ),
    ),
}


@pytest.mark.parametrize("kind", _WANTED)
def test_statements_have_all_that_is_to_be_tested(kind: str) -> None:
    seeds, wanted = _WANTED[kind]
    tables = _tables()
    if kind == "replanned":
        tables += [dataclasses.replace(t, name=f"older_{t.name}", is_older=True) for t in tables[1:3]]
    made = [make(seed, 0, tables, kind)[0] for seed in range(seeds)]
    text = "\n".join(statement.script() for statement in made)
    assert [w for w in wanted if w not in text] == []
    if kind == "replanned":
        assert 0 < sum(statement.cached for statement in made) < len(made)


def test_shrinking_leaves_what_matters() -> None:
    def still_fails(candidate: Statement, settings: dict[str, str]) -> bool:
        return "JOIN" in candidate.sql() and "spark.sql.adaptive.enabled" in settings

    for seed in range(200):
        statement, settings = make(seed, 0, _tables())
        settings["spark.sql.adaptive.enabled"] = "false"
        if still_fails(statement, settings):
            small, fewer = shrinking.shrink(statement, settings, still_fails)
            assert small.sql().count("JOIN") == 1, small.sql()
            assert list(fewer) == ["spark.sql.adaptive.enabled"]
            assert len(small.sql()) <= len(statement.sql())
            return
    pytest.fail("no statement has a join")


def test_ties_are_free_and_nothing_else() -> None:
    columns = [Item("a.x", "x"), Item("a.y", "y")]
    statement = Statement(Select(columns, Source("a", "t")), order=[Order("x", "ASC")], limit=2)
    everything = [{"x": 1, "y": 1}, {"x": 2, "y": 2}, {"x": 2, "y": 3}, {"x": 3, "y": 4}]
    rows = [_Row(r) for r in everything]

    def check(actual: list[_Row]) -> str:
        return comparison.difference(statement, rows[:2], actual, lambda: rows)

    assert check([rows[1], rows[0]]) == ""
    assert check([rows[0], rows[2]]) == ""
    assert "sort keys" in check([rows[0], rows[3]])
    assert "not in the result" in check([rows[0], _Row({"x": 2, "y": 9})])
    assert "1 with them" in check(rows[:1])


class _Row(tuple[int, ...]):
    """Stands in for Spark's: values by place and by name."""

    __slots__ = ()
    names = ("x", "y")

    def __new__(cls, values: dict[str, int]) -> _Row:
        return super().__new__(cls, values.values())

    def __getitem__(self, key: object) -> int:  # type: ignore[override]
        return tuple(self)[self.names.index(key) if isinstance(key, str) else key]  # type: ignore[index]
