"""What was measured of joins, and how it compares with the figures to reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from join_queries import CLUSTERED, TAP, TPCH, USELESS, Case
from join_runs import BLOOM, OURS
from results import Figure, Pairs
from runs import ORACLE, STOCK, Skipped

TARGET_MILLIONS = 100  # the figures for clustered joins are meant at this size
LEAST_SPEED = 0.97  # of stock, for every query of TPC-H
USELESS_LIMIT = 1.03
TAP_LIMIT = 1.02
LEAST_PAIRS = 5  # with fewer, an interval says nothing


@dataclass
class Measured:
    """One query: the seconds of each variant, round by round, and what filters did in their last run."""

    part: str
    name: str
    size: float
    label: str
    sql: str
    why: str = ""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    skipped: Skipped | None = None
    filters: Sequence[Mapping[str, Any]] = ()
    bloom_filters: int | None = None

    @classmethod
    def of(cls, case: Case, name: str | None = None) -> Measured:
        """Nothing measured yet."""
        return cls(case.part, name or case.name, case.size, case.label, case.sql, case.why)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Measured:
        """The inverse of ``as_dict``."""
        fields = {name: values[name] for name in cls.__dataclass_fields__}
        fields["skipped"] = Skipped(**fields["skipped"]) if fields["skipped"] else None
        return cls(**fields)

    def as_dict(self) -> dict[str, Any]:
        """For the JSON report."""
        medians = {variant: self.median(variant) for variant in self.seconds}
        return {**asdict(self), "median_seconds": medians}

    def add(self, variant: str, seconds: float) -> None:
        """Adds a run."""
        self.seconds.setdefault(variant, []).append(seconds)

    def median(self, variant: str) -> float | None:
        """Seconds, or None where the variant was not measured."""
        values = self.seconds.get(variant)
        return median(values) if values else None

    def ratio(self, above: str, below: str) -> float | None:
        """The ratio of two variants' medians."""
        numerator, denominator = self.median(above), self.median(below)
        return numerator / denominator if numerator is not None and denominator else None

    def pairs(self) -> Pairs | None:
        """Ours over stock, round by round; None where either was not measured."""
        base, other = self.seconds.get(STOCK), self.seconds.get(OURS)
        if not base or not other:
            return None
        return Pairs(self.name, self.why, self.label, base, other, self.skipped)

    @property
    def wait_seconds(self) -> float | None:
        """The longest time that a filter of the last run held something back."""
        waits = [row["wait_ms"] for row in self.filters if row["wait_ms"] is not None]
        return max(waits) / 1e3 if waits else None

    @property
    def forms(self) -> str:
        """The last run's filters, equal ones counted: what they became, or why not."""
        found = Counter(
            f"{row['form']}" if row["state"] == "ready" else f"{row['state']}: {row['reason'] or 'no reason'}"
            for row in self.filters
        )
        return "; ".join(f"{count} x {what}" if count > 1 else what for what, count in found.items())


def figures(measured: Sequence[Measured]) -> list[Figure]:
    """The figures to reach, as far as these measurements hold them."""
    found = []
    for one in measured:
        if one.part == CLUSTERED:
            found += _clustered(one)
        elif one.part == USELESS:
            found += _at_most(one, USELESS_LIMIT, f"every row matches: {one.name}: cost relative to stock")
        elif one.part == TAP:
            what = f"tap, {one.name}: relative to stock"
            found += _at_most(one, TAP_LIMIT, what) if "build stage" in one.name else []
    for scale in dict.fromkeys(one.size for one in measured if one.part == TPCH):
        found += _tpch(scale, [one for one in measured if (one.part, one.size) == (TPCH, scale)])
    return found


def sums(queries: Sequence[Measured]) -> dict[str, float]:
    """The sums of the medians, of the variants that were measured for every query."""
    variants = [variant for variant in queries[0].seconds if all(variant in one.seconds for one in queries)]
    return {variant: sum(one.median(variant) or 0.0 for one in queries) for variant in variants}


def _clustered(one: Measured) -> list[Figure]:
    where = f"{one.name}, {one.label}"
    faster, against = one.ratio(STOCK, OURS), one.ratio(OURS, ORACLE)
    note = "" if one.size >= TARGET_MILLIONS else f" (target is for {TARGET_MILLIONS}M rows)"
    found = []
    if faster is not None:
        answer = ("yes" if faster >= 15 else "no") + note
        found.append(Figure(f"{where}: times faster than stock", "at least 15", f"{faster:.1f}", answer))
    if against is not None:
        answer = ("yes" if against <= 1.25 else "no") + note
        found.append(
            Figure(f"{where}: cost relative to the oracle", "at most 1.25", f"{against:.2f}", answer)
        )
    return found


def _at_most(one: Measured, limit: float, what: str) -> list[Figure]:
    pairs = one.pairs()
    if pairs is None:
        return []
    low, high = pairs.interval
    seen = f"{pairs.ratio:.3f} ({low:.3f} to {high:.3f})"
    return [Figure(what, f"at most {limit:g}", seen, _verdict(pairs, limit))]


def _verdict(pairs: Pairs, limit: float) -> str:
    return pairs.verdict(limit) if len(pairs.base) >= LEAST_PAIRS else "undecided"


def _tpch(scale: float, queries: Sequence[Measured]) -> list[Figure]:
    found = []
    every = [pairs for one in queries if (pairs := one.pairs())]
    if every:
        slowest = max(every, key=lambda pairs: pairs.ratio)
        verdicts = {pairs.name: _verdict(pairs, 1 / LEAST_SPEED) for pairs in every}
        missed, undecided = (
            [name for name, verdict in verdicts.items() if verdict == wanted]
            for wanted in ("no", "undecided")
        )
        answer = f"no: {', '.join(missed)}" if missed else "yes"
        if undecided:
            answer = f"{'undecided' if not missed else answer + '; undecided'}: {', '.join(undecided)}"
        what = f"TPC-H SF {scale:g}: least speed relative to stock, of {len(every)} queries"
        seen = f"{1 / slowest.ratio:.3f} ({slowest.name})"
        found.append(Figure(what, f"at least {LEAST_SPEED:g}", seen, answer))
    total = sums(queries)
    if OURS in total and BLOOM in total:
        ratio = total[OURS] / total[BLOOM]
        what = (
            f"TPC-H SF {scale:g}: sum of {len(queries)} queries relative to stock with Spark's bloom filters"
        )
        found.append(Figure(what, "below 1", f"{ratio:.3f}", "yes" if ratio < 1 else "no"))
    return found
