"""The rows of a web log like ClickBench's ``hits``: wide, skewed, in arrival order, the same for every run.

Rows come in blocks. A block depends on the seed and its own number only, so blocks can be made in any order
and in parallel, and a table of 2M rows is exactly the beginning of one of 32M. Strings are taken from small
dictionaries by vectorised look-ups: no Python code runs per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

GENERATOR_VERSION = 1  # raise it when any value changes: data sets on disk are then made anew
BLOCK_ROWS = 50_000  # small enough for the processor's caches

FIRST_ARRIVAL = 1_372_636_800  # 2013-07-01 00:00:00 UTC, in seconds: the month of ClickBench's data
ROWS_PER_SECOND = 12.5  # 32M rows make about a month, like the original
MEAN_LATENESS = 60.0  # seconds between an event and its arrival; what makes files only nearly ordered
MAX_LATENESS = 600.0
GOOGLE_SHARE = 0.0002  # rows whose URL contains 'google': rare, and spread evenly over time
WORST_KEY_START = 1 << 40

HOSTS, URLS, REFERERS, TITLES, PHRASES, USERS = 400, 40_000, 20_000, 4_000, 10_000, 3_000_000

SCHEMA = pa.schema(
    [
        ("WatchID", pa.int64()),
        ("EventTime", pa.timestamp("us", tz="UTC")),
        ("EventDate", pa.date32()),
        ("CounterID", pa.int32()),
        ("ClientIP", pa.int32()),
        ("RegionID", pa.int32()),
        ("UserID", pa.int64()),
        ("URL", pa.string()),
        ("Referer", pa.string()),
        ("Title", pa.string()),
        ("SearchPhrase", pa.string()),
        ("UserAgent", pa.int16()),
        ("OS", pa.int16()),
        ("ResolutionWidth", pa.int16()),
        ("ResolutionHeight", pa.int16()),
        ("IsMobile", pa.int16()),
        ("TraficSourceID", pa.int16()),  # ClickBench's spelling
        ("Age", pa.int16()),
        ("Income", pa.int16()),
        ("SendTiming", pa.int32()),
        ("DNSTiming", pa.int32()),
        ("ResponseEndTiming", pa.int32()),
        ("ScrollShare", pa.float64()),
        ("Price", pa.decimal128(12, 2)),
        ("RandomKey", pa.int64()),  # uniform: statistics of row groups say almost nothing
        ("WorstKey", pa.int64()),  # each row smaller than all before: every row improves the bound
    ]
)

_VOCABULARY = """
    auto kvartira novosti pogoda film online skachat besplatno forum rabota moskva foto video igra recept
    kupit cena otzyvy raspisanie karta gorod dom remont mebel odezhda telefon noutbuk internet magazin
    dostavka turizm otel bilet poezd futbol match zhurnal kniga muzyka koncert teatr shkola universitet kurs
"""
_WORDS = _VOCABULARY.split()


@dataclass(frozen=True)
class Weblog:
    """The generator for one seed; ``block(i)`` gives rows ``i * BLOCK_ROWS`` up to the next block's first."""

    seed: int = 42

    def block(self, number: int, rows: int = BLOCK_ROWS) -> pa.Table:
        """The first ``rows`` rows of one block."""
        rng = np.random.default_rng([self.seed, 1, number])
        row = np.arange(number * BLOCK_ROWS, (number + 1) * BLOCK_ROWS, dtype=np.int64)
        columns = {**self._who_and_when(rng, row), **self._strings(rng, row), **self._measures(rng, row)}
        return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA).slice(0, rows)

    def _who_and_when(self, rng: np.random.Generator, row: np.ndarray) -> dict[str, pa.Array]:
        n = len(row)
        lateness = np.minimum(rng.exponential(MEAN_LATENESS, n), MAX_LATENESS)
        seconds = (FIRST_ARRIVAL + row / ROWS_PER_SECOND - lateness).astype(
            np.int64
        )  # whole seconds, so with ties
        user = _skewed(rng, n, USERS)
        return {
            "WatchID": pa.array(_mix(row) >> np.int64(1)),
            "EventTime": pa.array(seconds * 1_000_000).cast(SCHEMA.field("EventTime").type),
            "EventDate": pa.array((seconds // 86_400).astype(np.int32)).cast(pa.date32()),
            "CounterID": pa.array(_skewed(rng, n, 6_000).astype(np.int32)),
            "ClientIP": pa.array((_mix(user) >> np.int64(33)).astype(np.int32)),
            "RegionID": pa.array((user % 5_000).astype(np.int32)),
            "UserID": pa.array(_mix(user)),
        }

    def _strings(self, rng: np.random.Generator, row: np.ndarray) -> dict[str, pa.Array]:
        n = len(row)
        words = self._dictionaries
        page = _skewed(rng, n, URLS)
        google = rng.random(n) < GOOGLE_SHARE
        page[google] = URLS + rng.integers(0, len(words["url"]) - URLS, int(google.sum()))
        referer = np.where(rng.random(n) < 0.3, 0, 1 + _skewed(rng, n, REFERERS))
        phrase = np.where(rng.random(n) < 0.87, 0, 1 + _skewed(rng, n, PHRASES))
        return {
            "URL": _with_ids(words["url"].take(pa.array(page)), rng, "&id="),
            "Referer": _with_ids(words["referer"].take(pa.array(referer)), rng, "&ref="),
            "Title": words["title"].take(pa.array(page % TITLES)),
            "SearchPhrase": words["phrase"].take(pa.array(phrase)),
        }

    def _measures(self, rng: np.random.Generator, row: np.ndarray) -> dict[str, pa.Array]:
        n = len(row)
        screen = _skewed(rng, n, 40)

        def small(highest: int) -> pa.Array:
            return pa.array(_skewed(rng, n, highest).astype(np.int16))

        def timing(mean: float) -> pa.Array:
            return pa.array(rng.exponential(mean, n).astype(np.int32))

        return {
            "UserAgent": small(80),
            "OS": small(60),
            "ResolutionWidth": pa.array((320 + 40 * screen).astype(np.int16)),
            "ResolutionHeight": pa.array((240 + 22 * screen).astype(np.int16)),
            "IsMobile": pa.array((rng.random(n) < 0.12).astype(np.int16)),
            "TraficSourceID": pa.array(rng.integers(-1, 9, n, dtype=np.int16)),
            "Age": small(60),
            "Income": small(5),
            "SendTiming": timing(150),
            "DNSTiming": timing(25),
            "ResponseEndTiming": timing(400),
            "ScrollShare": pa.array(rng.integers(0, 10_001, n) / 10_000.0),
            "Price": _cents(rng.exponential(2_000, n).astype(np.int64)),
            "RandomKey": pa.array(rng.integers(0, 1 << 62, n, dtype=np.int64)),
            "WorstKey": pa.array(WORST_KEY_START - row),
        }

    @cached_property
    def _dictionaries(self) -> dict[str, pa.Array]:
        rng = np.random.default_rng([self.seed, 0])
        hosts = [f"{'-'.join(rng.choice(_WORDS, 2))}{i}.example" for i in range(HOSTS)]

        def some_words(separator: str, low: int, high: int) -> str:
            return separator.join(rng.choice(_WORDS, rng.integers(low, high)))

        def page(i: int) -> str:
            return f"http://{hosts[i % HOSTS]}/{some_words('/', 2, 5)}/{some_words('-', 2, 6)}?page={i}"

        searches = [
            f"http://www.google.com/search?q={some_words('+', 2, 6)}&hl=ru&num={i}" for i in range(500)
        ]
        return {
            "url": pa.array([page(i) for i in range(URLS)] + searches),
            "referer": pa.array(["", *(page(i) for i in range(REFERERS))]),
            "title": pa.array(
                [f"{some_words(' ', 6, 13).capitalize()} | {hosts[i % HOSTS]}" for i in range(TITLES)]
            ),
            "phrase": pa.array(["", *(some_words(" ", 1, 5) for _ in range(PHRASES))]),
        }


def _skewed(rng: np.random.Generator, n: int, highest: int) -> np.ndarray:
    """``n`` integers in [0, highest), few of them very common, as everything on the web is."""
    return (highest * rng.random(n) ** 3).astype(np.int64)


def _mix(values: np.ndarray) -> np.ndarray:
    """A bijection of int64 (splitmix64's): identifiers that look random, each input with its own."""
    z = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).view(np.int64)


def _with_ids(strings: pa.Array, rng: np.random.Generator, key: str) -> pa.Array:
    """Appends a random identifier to half of the strings that are not empty: dictionaries stay large."""
    ids = pa.array(rng.integers(10**8, 10**10, len(strings))).cast(pa.string())
    plain = pc.or_(pa.array(rng.random(len(strings)) < 0.5), pc.equal(strings, ""))
    return pc.if_else(plain, strings, pc.binary_join_element_wise(strings, ids, key))


def _cents(cents: np.ndarray) -> pa.Array:
    """Non-negative int64 hundredths as decimal(12, 2), without a Python object per value."""
    words = np.zeros((len(cents), 2), dtype=np.int64)
    words[:, 0] = cents
    return pa.Array.from_buffers(SCHEMA.field("Price").type, len(cents), [None, pa.py_buffer(words)])
