"""What importing the package needs."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from graphlib import TopologicalSorter
from pathlib import Path

import spark_dynamic_filters as sdf
from spark_dynamic_filters import _errors

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


def test_errors_are_public_and_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs/python-api.md").read_text(encoding="utf-8")
    errors = [e for e in vars(_errors).values() if isinstance(e, type) and e.__module__ == _errors.__name__]
    assert {e.__name__ for e in errors} <= set(sdf.__all__)
    assert [
        e.__name__ for e in errors if f".. autoexception:: {sdf.__name__}.{e.__name__}\n" not in page
    ] == []


def _zipped(folder: Path, version: str | None) -> subprocess.CompletedProcess[str]:
    """What a Python without site-packages says of the package in a zip."""
    package = Path(sdf.__file__).parent
    with zipfile.ZipFile(folder / "package.zip", "w") as written:
        for file in package.rglob("*.py"):
            written.write(file, file.relative_to(package.parent))
        if version is not None:
            written.writestr("spark_dynamic_filters/VERSION", f"{version}\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import spark_dynamic_filters as sdf\n"
        "print(sdf.__version__)\n"
        "sdf.jar_path()\n"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(folder / "package.zip")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_zip_of_the_package(tmp_path: Path) -> None:
    done = _zipped(tmp_path, "9.8.7")
    assert done.stdout == "9.8.7\n", done.stderr
    assert "the plugin's jar spark-dynamic-filters_2.13-9.8.7.jar is not at " in done.stderr
    assert "Spark takes none out of a zip" in done.stderr
    bare = _zipped(tmp_path, None)
    assert "ImportError: spark-dynamic-filters does not find its version" in bare.stderr


def test_modules_import_each_other_in_one_direction() -> None:
    """Imports for type checkers count, too: six modules once named each other in a circle."""
    folder = Path(sdf.__file__).parent
    modules = {file.stem: ast.parse(file.read_text("utf-8")) for file in folder.glob("*.py")}
    uses = {
        name: {
            imported
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level == 1
            for imported in ([node.module] if node.module else [alias.name for alias in node.names])
            if imported in modules
        }
        for name, tree in modules.items()
    }
    list(TopologicalSorter(uses).static_order())  # raises CycleError
