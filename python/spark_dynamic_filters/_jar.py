"""Where the plugin's jar is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ._errors import shown
from ._version import __version__, checkout

JAR_PREFIX = "spark-dynamic-filters_2.13-"
JAR_NAME = f"{JAR_PREFIX}{__version__}.jar"
_FAULTS_NAME = f"spark-dynamic-filters-faults_2.13-{__version__}.jar"
#: Setting that allows fault injection in an application, for tests. The code for it is in a second jar.
FAULTS_ENABLED = "spark.dynamicFilters.testing.faults.enabled"


def jar_path() -> str:
    """Absolute path of the plugin's jar: the one in this package, or in a source checkout the one built
    there.

    Raises:
        FileNotFoundError: the package was installed without the jar or is in a zip, or the checkout has not
            been built.
    """
    return _path("jvm", JAR_NAME)


def faults_jars(settings: Mapping[str, object]) -> list[str]:
    """The jar that injects faults, as an absolute path, if `settings` enable it; otherwise an empty list.

    Raises:
        FileNotFoundError: as for `jar_path`.
    """
    enabled = str(settings.get(FAULTS_ENABLED, "")).strip().lower() == "true"
    return [faults_jar_path()] if enabled else []


def faults_jar_path() -> str:
    """Absolute path of the jar that injects faults, for tests.

    Raises:
        FileNotFoundError: as for `jar_path`.
    """
    return _path("faults", _FAULTS_NAME)


def _path(project: str, name: str) -> str:
    packaged = Path(__file__).resolve().parent / "jars" / name
    candidates = [packaged]
    source = checkout()
    if source is not None:
        candidates.insert(0, source / project / "target" / "scala-2.13" / name)
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate)
    if source is not None:
        fix = "build it with `make jar`"
    elif any(folder.is_file() for folder in packaged.parents):
        fix = "Spark takes none out of a zip: give it the jar itself by --jars"
    else:
        fix = "install the wheel (`pip install spark-dynamic-filters`), not the bare sources"
    raise FileNotFoundError(f"the plugin's jar {name} is not at {shown(str(candidates[0]), 90)}; {fix}")
