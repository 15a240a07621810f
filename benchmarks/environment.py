"""Where a benchmark ran, as far as it matters for the numbers."""

from __future__ import annotations

import os
import platform
from typing import Any

import pyspark

import runs


def environment() -> dict[str, Any]:
    """Versions, cores and memory, and how busy the machine was beforehand."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "Spark": pyspark.__version__,
        "Python": platform.python_version(),
        "cores used": runs.CORES,
        "cores": os.cpu_count(),
        "memory GiB": round(memory),
        "load average before": f"{os.getloadavg()[0]:.1f}",  # what else was running; should be near zero
    }
