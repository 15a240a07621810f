"""What importing the package needs."""

from __future__ import annotations

import subprocess
import sys

import spark_dynamic_filters as sdf

# What a machine with only pyspark-client does not have.
CLIENT_ONLY = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "py4j" or name in ("pyspark.core", "pyspark.sql.classic"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_without_py4j_and_classic_pyspark() -> None:
    code = CLIENT_ONLY + (
        "import spark_dynamic_filters as sdf\n"
        "import spark_dynamic_filters.testing.plugin\n"
        "assert 'py4j' not in sys.modules\n"
        "from pyspark.sql.connect.session import SparkSession\n"
        "b = sdf.configure(SparkSession.builder.remote('sc://spark.example'))\n"
        "print(b._options)\n"
    )
    done = _python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'spark.remote': 'sc://spark.example'}"


def test_pytest_plugin_does_not_import_spark() -> None:
    done = _python("import sys, spark_dynamic_filters.testing.plugin; print('pyspark' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


def test_everything_public_is_documented() -> None:
    for name in sdf.__all__:
        if not name.startswith("__"):
            assert getattr(sdf, name).__doc__, name
