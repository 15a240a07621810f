"""TPC-H: the eight tables by tpcgen-cli, and the 22 queries with the specification's validation parameters.

Query 15 is written with a common table expression in place of its view. The tables are in order of their
generator: ``lineitem`` and ``orders`` by order key, the others by their own keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import generator

TABLES = ("lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region")
QUERIES = Path(__file__).resolve().parent / "sql" / "tpch"


def tables(data: Path, scale: float, names: Sequence[str] = TABLES) -> dict[str, Path]:
    """The folders of tables at scale factor ``scale`` by name, made if nothing has been made there yet."""
    options = [f"--tables={','.join(names)}"]
    folder = generator.generated(data / f"tpch-{scale:g}", "tpch", scale, options)
    return {name: folder / name for name in names}


def queries(scale: float) -> dict[str, str]:
    """The texts of the queries by name, q01 to q22."""
    # The only parameter that depends on the size: what share of a nation's stock is important in query 11.
    fraction = f"{0.0001 / scale:.10f}"
    return {
        file.stem: file.read_text().replace("{fraction}", fraction) for file in sorted(QUERIES.glob("q*.sql"))
    }
