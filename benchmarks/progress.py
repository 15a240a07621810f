"""A progress line for everything that takes longer than two seconds, on stderr so that reports stay clean."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

QUIET_SECONDS = 2.0


class Step:
    """One piece of work under way; ``note`` says how far it is."""

    def __init__(self, label: str) -> None:
        """Starts the clock; nothing is shown yet."""
        self._label = label
        self._note = ""
        self._started = time.perf_counter()
        self._shown = False
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._thread.start()

    def note(self, text: str) -> None:
        """Shown beside the label from the next tick on."""
        self._note = f": {text}"

    def _tick(self) -> None:
        # A terminal gets one line that moves; a log gets a line now and then, or it would be all progress.
        interval = 1.0 if sys.stderr.isatty() else 15.0
        if self._finished.wait(QUIET_SECONDS):
            return
        while True:
            self._write(f"{self._label}{self._note} ... {self._elapsed()}")
            if self._finished.wait(interval):
                return

    def _write(self, text: str, last: bool = False) -> None:
        self._shown = True
        if sys.stderr.isatty():
            # The line is written over the one before, which may have been longer.
            sys.stderr.write(f"\r{text:<100}" + ("\n" if last else ""))
        else:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def _elapsed(self) -> str:
        return f"{time.perf_counter() - self._started:.0f} s"

    def finish(self) -> None:
        """Ends the line, if there is one."""
        self._finished.set()
        self._thread.join()
        if self._shown:
            self._write(f"{self._label} ... done in {self._elapsed()}", last=True)


@contextmanager
def step(label: str) -> Iterator[Step]:
    """``with step("writing") as progress: ... progress.note("3 of 16 files")``."""
    running = Step(label)
    try:
        yield running
    finally:
        running.finish()
