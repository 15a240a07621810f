"""`make publish-local`, and then `spark.jars.packages`, in a home where nothing was before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import environment
import pytest
from pages import ROOT

VERSION = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
QUERY = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
row = spark.sql("SELECT version, activation FROM dynamic_filters_status()").first()
assert tuple(row) == ({version!r}, "plugin"), row
"""


@pytest.mark.large
@pytest.mark.timeout(900)
@pytest.mark.parametrize("own", [True, False], ids=["home", "repositories"])
def test_packages_finds_what_was_published(python: Path, tmp_path: Path, own: bool) -> None:
    """In the repository of this home, or in one that `spark.jars.repositories` names."""
    home = tmp_path / "home"
    repository = home / ".m2" / "repository" if own else tmp_path / "published"
    make = ["make", "--no-print-directory", "publish-local", f"MAVEN_REPOSITORY={repository}"]
    subprocess.run(make, cwd=ROOT, check=True, timeout=600)
    folder = repository / "org" / "dynamicfilters" / "spark-dynamic-filters_2.13" / VERSION
    pom = (folder / f"spark-dynamic-filters_2.13-{VERSION}.pom").read_text(encoding="utf-8")
    for element in ("description", "licenses", "organization"):
        assert f"<{element}>" in pom
    query = tmp_path / "query.py"
    query.write_text(QUERY.format(version=VERSION))
    submit = [str(python.parent / "spark-submit"), "--master", "local[1]"]
    submit += ["--conf", f"spark.jars.packages=org.dynamicfilters:spark-dynamic-filters_2.13:{VERSION}"]
    if not own:
        submit += ["--conf", f"spark.jars.repositories={repository.as_uri()}"]
    submit += ["--conf", "spark.plugins=org.dynamicfilters.DynamicFiltersPlugin", str(query)]
    clean = {"HOME": str(home), "SPARK_SUBMIT_OPTS": f"-Duser.home={home}"}
    variables = {**environment.variables(python), **clean}
    done = subprocess.run(submit, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
