"""Processor time of a JVM, by kind of thread."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

WALL, PROCESSOR = UNITS = ("wall", "processor")

#: Beginnings of the names of threads that compile or collect garbage: when they do so is chance.
_CHANCE = ("C1 ", "C2 ", "GC ", "G1 ", "VM ", "Sweeper", "Cleaner", "Common-Cleaner", "Reference Handl")


class Threads:
    """What the threads of a process have used of processors, since they were started.

    Args:
        process: its id. Of a Spark in local mode: that of driver and tasks together.
    """

    def __init__(self, process: int) -> None:
        self._tasks = Path(f"/proc/{process}/task")

    def seconds(self) -> dict[int, float]:
        """By thread, without those of the compiler and the garbage collector.

        Raises:
            OSError: the machine has no /proc, or the process is gone.
        """
        found = {}
        for thread in self._tasks.iterdir():
            try:
                name = (thread / "comm").read_text()
                used = (thread / "schedstat").read_text().split()[0]
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile, before its file was opened or after that
            if not name.startswith(_CHANCE):
                found[int(thread.name)] = int(used) / 1e9
        return found

    def since(self, before: dict[int, float]) -> float:
        """Seconds of all threads after `before` was taken. Threads that have ended are not counted."""
        now = Counter(self.seconds())
        now.subtract({thread: used for thread, used in before.items() if thread in now})
        return sum(now.values())

    def measured(self, run: Callable[[], T]) -> tuple[T, dict[str, float]]:
        """What ``run`` returns, and its seconds by unit."""
        before, start = self.seconds(), time.perf_counter()
        result = run()
        wall = time.perf_counter() - start
        return result, {WALL: wall, PROCESSOR: self.since(before)}
