"""Losses while queries run: shuffle files of map tasks, and whole executors.

Unlike `spark_dynamic_filters.testing.faults` these come from outside: files are removed and processes are
killed at any moment, also those of stages without a filtered scan.
"""

from __future__ import annotations

import os
import random
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from spark_dynamic_filters.testing import faults

_FILE = re.compile(r"shuffle_(\d+)_(\d+)_\d+\.(data|index)")
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_POLL_SECONDS = 0.005
#: From one random loss to the next, on average.
_MEAN_SECONDS = 0.4


class ShuffleFiles:
    """The files of shuffles below a folder.

    Args:
        folder: `spark.local.dir` of the application.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def maps(self) -> dict[int, list[int]]:
        """By number of a shuffle, those of map tasks that have files."""
        found: dict[int, set[int]] = {}
        for file in self._all():
            shuffle, task = _numbers(file)
            found.setdefault(shuffle, set()).add(task)
        return {shuffle: sorted(tasks) for shuffle, tasks in sorted(found.items())}

    def remove(self, shuffle: int, tasks: list[int]) -> None:
        """Removes what these map tasks of a shuffle have written."""
        for file in self._all():
            number, task = _numbers(file)
            if number == shuffle and task in tasks:
                file.unlink(missing_ok=True)

    def _all(self) -> Iterator[Path]:
        # Not by rglob: folders come and go while it looks.
        for root, _, names in os.walk(self.folder):
            yield from (Path(root, name) for name in names if _FILE.fullmatch(name))


def _numbers(file: Path) -> tuple[int, int]:
    found = _FILE.fullmatch(file.name)
    assert found is not None
    return int(found[1]), int(found[2])


class _Watcher(threading.Thread):
    """Does something once, or again and again, until the body of its `with` statement ends."""

    def __init__(self, step: Callable[[], bool], pause: Callable[[], float]) -> None:
        super().__init__(daemon=True)
        self._step = step
        self._pause = pause
        self._end = threading.Event()

    def run(self) -> None:
        while not self._end.wait(self._pause()):
            if self._step():
                return

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join(30)


@contextmanager
def lost_map(
    spark: SparkSession,
    folder: Path,
    reducers: int,
    completed: int = 2,
    tasks: int = 1,
    before: Callable[[], None] = lambda: None,
) -> Iterator[list[int]]:
    """Once, when some tasks of a stage have ended, the newest shuffle loses files of map tasks.

    Args:
        spark: a classic session.
        folder: `spark.local.dir` of the application.
        reducers: how many tasks the stage has; no other stage may have as many.
        completed: so many of them have ended.
        tasks: of so many map tasks the files are lost.
        before: is called just before.

    Yields:
        The map tasks whose files are gone; empty until it has happened.
    """
    files = ShuffleFiles(folder)
    lost: list[int] = []
    status = spark.sparkContext.statusTracker()
    # Spark tells late that a stage has ended: one of the query before this one may still be listed.
    earlier = set(status.getActiveStageIds())

    def step() -> bool:
        for stage in set(status.getActiveStageIds()) - earlier:
            info = status.getStageInfo(stage)
            if info is None or info.numTasks != reducers or info.numCompletedTasks < completed:
                continue
            shuffles = files.maps()
            if not shuffles:
                continue
            newest = max(shuffles)
            before()
            chosen = shuffles[newest][:tasks]
            files.remove(newest, chosen)
            lost.extend(chosen)
            return True
        return False

    with _Watcher(step, lambda: _POLL_SECONDS):
        yield lost


class RandomLosses:
    """Losses at random moments, while its `watcher` runs.

    Args:
        folder: `spark.local.dir` of the application, in which executors keep their files, too.
        seed: of moments and choices.
        application: its id, to kill an executor, one at most; None kills none.
        most: no more losses than this.

    Attributes:
        files: how many map tasks have lost their files.
        executors: how many executors were killed.
    """

    def __init__(self, folder: Path, seed: int, application: str | None, most: int) -> None:
        self.files = 0
        self.executors = 0
        self._shuffles = ShuffleFiles(folder)
        self._random = random.Random(seed)
        self._application = application
        self._most = most
        self.watcher = _Watcher(self._step, lambda: self._random.expovariate(1 / _MEAN_SECONDS))

    def _step(self) -> bool:
        r = self._random
        # A new executor takes seconds to start.
        if self._application is not None and not self.executors and r.random() < 0.02 and self._kill():
            self.executors += 1
        else:
            shuffles = self._shuffles.maps()
            if shuffles:
                # Mostly of what runs now.
                newest = sorted(shuffles)[-3:]
                shuffle = r.choice(newest)
                count = r.choice((1, 1, len(shuffles[shuffle])))
                chosen = r.sample(shuffles[shuffle], count)
                self._shuffles.remove(shuffle, chosen)
                self.files += count
        return self.files + self.executors >= self._most

    def _kill(self) -> bool:
        """Kills one executor, unless it is the only one."""
        processes = executors(self._application or "")
        if len(processes) < 2:
            return False
        try:
            os.kill(self._random.choice(processes), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True


def executors(application: str) -> list[int]:
    """Processes of the executors of one application on this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if _EXECUTOR in command and application.encode() in command:
            found.append(int(entry.name))
    return sorted(found)


def settings(folder: Path) -> dict[str, str]:
    """What an application is started with whose files are to be lost below a folder, and whose tasks are to
    run twice: copies of tasks that are a little slow, and as many attempts as it takes.
    """
    return {
        "spark.local.dir": str(folder),
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "50ms",
        "spark.task.maxFailures": "20",
        "spark.stage.maxConsecutiveAttempts": "20",
        "spark.excludeOnFailure.enabled": "false",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.shuffle.io.maxRetries": "1",
        "spark.shuffle.io.retryWait": "100ms",
    }


@contextmanager
def losses(spark: SparkSession, folder: Path, seed: int, mode: str) -> Iterator[RandomLosses]:
    """Slow tasks, lost shuffle files and, where there are executors, killed ones, at random moments.

    In the classic mode files are lost once only: Spark strikes off the one block manager that there is.

    Args:
        folder: `spark.local.dir` of the application.
        mode: of the application, see `spark_dynamic_filters.testing.MODES`.
    """
    processes = mode == "local-cluster"
    application = spark.sparkContext.applicationId if processes else None
    happened = RandomLosses(folder, seed, application, most=4 if processes else 1)
    with (
        faults(spark, seed=seed, slow_tasks=0.15, slow=0.3, fetch_failures=0.1 if processes else None),
        happened.watcher,
    ):
        yield happened
