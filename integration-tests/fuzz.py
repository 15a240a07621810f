"""Random queries until the time is over: `make fuzz SECONDS=600 [SEED=n] [MODE=classic] [KIND=subqueries]`.

Each runs without filters and with them; the answers must be the same. Prints how many there were and in how
many a filter skipped rows. Ends with 1 at the first fault, and prints its seed and the smallest query that
shows it.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from spark_dynamic_filters.testing import MODES, start_application
from support import jvm, losses
from support.generator import campaign

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "2g",
    "spark.buffer.pageSize": "2m",
    **jvm.QUICK,
}


def main() -> int:
    """Runs; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, help="of the first tables; by default a random one")
    parser.add_argument("--statement", type=int, help="only this one, of the tables of --seed")
    parser.add_argument(
        "--kind",
        choices=(*campaign.KINDS, "all"),
        default="all",
        help="of statements; all is each kind for a seed by turns",
    )
    parser.add_argument("--mode", choices=MODES, default="classic")
    parser.add_argument(
        "--losses",
        action="store_true",
        help="while a query runs with filters, shuffle files are lost, executors killed, tasks slow",
    )
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        return _session(options, Path(folder), seed)


def _session(options: argparse.Namespace, folder: Path, seed: int) -> int:
    local = folder / "local"
    settings = _SETTINGS | {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    settings |= losses.settings(local) if options.losses else {}
    application = start_application(options.mode, settings)
    session = application.new_session()
    try:
        run = campaign.Campaign(session, folder, report=lambda text: print(text, flush=True))
        happened: list[losses.RandomLosses] = []
        if options.losses:
            run.expects_failures = True
            run.runner.losses = lambda: _lose(session, local, seed + len(happened), options.mode, happened)
            # What fails by chance does not fail again with one part less.
            run.shrinking = 0.0
        _run(run, seed, options)
        if options.losses:
            files, executors = (sum(n) for n in zip(*((h.files, h.executors) for h in happened), strict=True))
            print(f"lost: files of {files} map tasks, {executors} executors")
    finally:
        # First: a client asks a server that is gone again and again, for minutes.
        application.close_session(session)
        application.stop()
    return 1 if run.tally.faults else 0


@contextmanager
def _lose(
    spark: SparkSession, folder: Path, seed: int, mode: str, happened: list[losses.RandomLosses]
) -> Iterator[None]:
    with losses.losses(spark, folder, seed, mode) as lost:
        happened.append(lost)
        yield


def _run(run: campaign.Campaign, seed: int, options: argparse.Namespace) -> None:
    start = time.monotonic()
    until = start + options.seconds
    only = None if options.statement is None else [options.statement]
    kinds = tuple(campaign.KINDS) if options.kind == "all" else (options.kind,)
    print(f"seed {seed}", flush=True)
    for run.kind in itertools.cycle(kinds):
        if time.monotonic() > until:
            break
        tally = run.run(seed, only or range(campaign.STATEMENTS), until)
        print(f"{time.monotonic() - start:5.0f} s: {tally}", flush=True)
        for fault in tally.faults:
            print(f"\n{fault}\n", flush=True)
        if only or tally.faults:
            break
        if run.kind == kinds[-1]:
            seed += 1
    print(f"seeds to {seed}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
