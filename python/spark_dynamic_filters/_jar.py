"""Where the plugin's jar is."""

from __future__ import annotations

from pathlib import Path

from ._errors import shown
from ._version import __version__, checkout

JAR_PREFIX = "spark-dynamic-filters_2.13-"
JAR_NAME = f"{JAR_PREFIX}{__version__}.jar"


def jar_path() -> str:
    """Absolute path of the plugin's jar: the one in this package, or in a source checkout the one built
    there.

    Raises:
        FileNotFoundError: the package was installed without the jar or is in a zip, or the checkout has not
            been built.
    """
    packaged = Path(__file__).resolve().parent / "jars" / JAR_NAME
    candidates = [packaged]
    source = checkout()
    if source is not None:
        candidates.insert(0, source / "jvm" / "target" / "scala-2.13" / JAR_NAME)
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate)
    if source is not None:
        fix = "build it with `make jar`"
    elif any(folder.is_file() for folder in packaged.parents):
        fix = "Spark takes none out of a zip: give it the jar itself by --jars"
    else:
        fix = "install the wheel (`pip install spark-dynamic-filters`), not the bare sources"
    raise FileNotFoundError(f"the plugin's jar {JAR_NAME} is not at {shown(str(candidates[0]), 90)}; {fix}")
