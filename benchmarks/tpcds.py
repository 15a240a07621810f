"""TPC-DS: the 24 tables by tpcgen-cli, and the 99 queries as DuckDB's extension has them, in Spark's dialect.

The texts are not kept here: they are taken from the packages of tools/requirements-tpcds.txt, in a virtual
environment of their own, as the extension fits one version of DuckDB only.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import generator
from datafiles import DATA, ROOT

VENV = ROOT / ".venv-tpcds"
REQUIREMENTS = ROOT / "tools" / "requirements-tpcds.txt"
_TEXTS = DATA / "tpcds-queries.json"

_EXTRACT = """
import json, sys
import duckdb, duckdb_extensions, sqlglot
duckdb_extensions.import_extension("tpcds")
connection = duckdb.connect()
connection.execute("LOAD tpcds")
found = connection.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY query_nr").fetchall()
texts = {f"q{n:02d}": sqlglot.transpile(text, read="duckdb", write="spark", pretty=True) for n, text in found}
assert all(len(parts) == 1 for parts in texts.values())
json.dump({name: text for name, (text,) in texts.items()}, sys.stdout, indent=1)
"""


def tables(data: Path, scale: float) -> dict[str, Path]:
    """The folders of the tables by name, made if nothing has been made there yet."""
    folder = generator.generated(data / f"tpcds-{scale:g}", "tpcds", scale)
    return {table.name: table for table in sorted(folder.iterdir()) if table.is_dir()}


def queries(_scale: float) -> dict[str, str]:
    """The texts of the queries by name, q01 to q99."""
    if not _TEXTS.exists():
        python = VENV / "bin" / "python"
        if not python.exists():
            raise SystemExit(f"{VENV.name} is missing: make {VENV.name}/.ready")
        command = [str(python), "-c", _EXTRACT]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        _TEXTS.write_text(found.stdout, encoding="utf-8")
    return dict(json.loads(_TEXTS.read_text(encoding="utf-8")))
