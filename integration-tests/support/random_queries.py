"""Random TopKs over random data, from fixed seeds."""

from __future__ import annotations

import random
from pathlib import Path

from . import tables
from .checks import ORDERS

_PREDICATES = (
    "c_int > 0",
    "c_string LIKE '%a%'",
    "c_boolean",
    "c_date < DATE'2000-01-01'",
    "grp IN (1, 3, 5)",
    "c_double IS NOT NULL",
    "id % 3 = 1",
    "c_tinyint IS NULL OR c_tinyint > 10",
)


def write(folder: Path) -> Path:
    """Files of several writers, among them one whose rows are ordered by a key."""
    for seed, writer in enumerate(("page_index", "no_statistics", "pages_v2", "bloom_filter")):
        block = 100 if seed % 2 else None
        table = tables.all_types(rows=1_500, seed=seed, nulls=0.2 * seed, block=block)
        if seed == 0:
            table = table.sort_by("c_int")
        tables.write(table, folder / f"writer={writer}", **tables.PYARROW_WRITERS[writer])
    return folder


def topk(r: random.Random, view: str) -> tuple[str, list[str]]:
    """A query over a view of the files of `write`, and its sort keys."""
    columns = ["id", "seq", "grp", "writer", *tables.TYPES]
    keys = r.sample(columns, r.choice([1, 1, 2, 3]))
    selected = list(dict.fromkeys(keys + r.sample(columns, r.randrange(1, 6))))
    where = " AND ".join(r.sample(_PREDICATES, r.choice([0, 0, 1, 2])))
    order = ", ".join(f"{key} {r.choice(ORDERS)}" for key in keys)
    limit = r.choice([1, 3, 10, 50, 400, 3_000])
    offset = f" OFFSET {r.randrange(100)}" if r.random() < 0.2 else ""
    source = view
    if r.random() < 0.3:
        source = f"(SELECT * FROM {view} WHERE grp < 5 UNION ALL SELECT * FROM {view} WHERE grp >= 5)"
    text = f"SELECT {', '.join(selected)} FROM {source}{' WHERE ' + where if where else ''}"
    return f"{text} ORDER BY {order} LIMIT {limit}{offset}", keys
