"""From raw counter readings to evidence: increments per scrape, role and metric, with every doubt kept out.

Increments are differences of raw counters with reset detection. ``increase()`` is not used: it extrapolates, and the
tests need whole requests. A scrape that cannot be trusted adds nothing; it is counted under its reason instead, so that
an hour of such scrapes ends inconclusive and never as a pass.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from release_tasks.judge.sequential import Counted

ERRORS = "errors"  # metric: requests that failed, as users saw them
ATTEMPTS = "attempts"  # metric: attempts towards a server that had to be made again; users do not see them
SLOW = "slow."  # prefix of the per-model metrics: requests over the SLA, counted as total minus those within it


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Role(StrEnum):
    """Which side of the comparison a counter belongs to."""

    canary = "canary"
    stable = "stable"


class Kind(StrEnum):
    """What a counter counts. ``good`` serves where only the good ones are counted (a latency bucket)."""

    total = "total"
    bad = "bad"
    good = "good"


class Reading(_Frozen):
    """One raw counter, as scraped."""

    role: Role
    metric: str
    kind: Kind
    series: str = Field(description="Tells the counters of one role, metric and kind apart.")
    value: float

    @property
    def key(self) -> str:
        """Identity of the counter."""
        return "|".join((self.role.value, self.metric, self.kind.value, self.series))


class Scrape(_Frozen):
    """What one look brought."""

    at: float = Field(description="Unix seconds.")
    readings: tuple[Reading, ...] = ()
    fault: str = Field(default="", description="Why this look is no evidence, e.g. the live weights were others.")


class Counts(_Frozen):
    """Increments of one metric over one interval, in requests."""

    canary: float = 0
    canary_bad: float = 0
    stable: float = 0
    stable_bad: float = 0

    def row(self) -> tuple[float, float, float, float]:
        """As a row for the tests."""
        return self.canary, self.canary_bad, self.stable, self.stable_bad

    def plus(self, other: Counts) -> Counts:
        """Sum of both."""
        return Counts(
            canary=self.canary + other.canary,
            canary_bad=self.canary_bad + other.canary_bad,
            stable=self.stable + other.stable,
            stable_bad=self.stable_bad + other.stable_bad,
        )


class Interval(_Frozen):
    """Time between two trusted looks."""

    step: int
    at: float
    seconds: float
    counts: dict[str, Counts] = Field(description="By metric.")


class Evidence(_Frozen):
    """All that was seen of one release, over all steps. Serialises, so that a rerun goes on where it stopped."""

    release: str
    intervals: tuple[Interval, ...] = ()
    baseline: dict[str, float] | None = Field(default=None, description="Last value of every counter; null: look anew.")
    baseline_at: float = 0
    discarded: dict[str, int] = Field(default_factory=dict, description="Looks that are no evidence, by reason.")
    passed: tuple[int, ...] = Field(default=(), description="Steps that went on, from 0.")

    def observe(self, scrape: Scrape, step: int) -> Evidence:
        """Add a look. The first one after a start or a doubt only sets the baseline."""
        fault = scrape.fault or _fault(scrape.readings)
        if fault:
            return self._discard(fault)
        now = {r.key: r.value for r in scrape.readings}
        moved = {"baseline": {**(self.baseline or {}), **now}, "baseline_at": scrape.at}
        if self.baseline is None:
            return self.model_copy(update=moved)
        if scrape.at <= self.baseline_at:
            return self._discard("the clock went backwards")
        counts = _counts(scrape.readings, self.baseline)
        if any(not 0 <= bad <= total for c in counts.values() for total, bad in _pairs(c)):
            return self._discard("more bad requests than requests").model_copy(update=moved)
        new = Interval(step=step, at=scrape.at, seconds=scrape.at - self.baseline_at, counts=counts)
        return self.model_copy(update={**moved, "intervals": (*self.intervals, new)})

    def restarted(self) -> Evidence:
        """The same evidence for another process: what happened in between was not watched."""
        return self.model_copy(update={"baseline": None})

    def with_passed(self, step: int) -> Evidence:
        """Note that a step went on."""
        return self.model_copy(update={"passed": tuple(sorted({*self.passed, step}))})

    def counted(self, metric: str) -> Counted:
        """The metric's increments over all steps."""
        return Counted.of([i.counts.get(metric, Counts()).row() for i in self.intervals])

    def total(self, metric: str, step: int) -> Counts:
        """The metric's sum over one step."""
        total = Counts()
        for interval in self.intervals:
            if interval.step == step and metric in interval.counts:
                total = total.plus(interval.counts[metric])
        return total

    def steps(self) -> list[int]:
        """Steps with evidence."""
        return sorted({i.step for i in self.intervals})

    def watched_s(self, step: int) -> float:
        """Seconds of the step that were watched with trust."""
        return sum(i.seconds for i in self.intervals if i.step == step)

    def _discard(self, reason: str) -> Evidence:
        counted = {**self.discarded, reason: self.discarded.get(reason, 0) + 1}
        return self.model_copy(update={"discarded": counted, "baseline": None})


def _fault(readings: tuple[Reading, ...]) -> str:
    """Why these readings cannot be trusted; empty when they can."""
    if any(not math.isfinite(r.value) or r.value < 0 for r in readings):
        return "a counter is NaN, infinite or negative"
    totals = {(r.role, r.metric) for r in readings if r.kind is Kind.total}
    if not totals:
        return "no data: no request counter is fresh"
    repeated = [key for key, times in Counter(r.key for r in readings).items() if times > 1]
    if repeated:
        return f"duplicate series: {repeated[0]}"
    goods = {(r.role, r.metric) for r in readings if r.kind is Kind.good}
    blind = sorted(metric for role, metric in totals - goods if metric.startswith(SLOW))
    return f"{blind[0]}: the histogram has no bucket at the SLA" if blind else ""


def _counts(readings: Iterable[Reading], baseline: dict[str, float]) -> dict[str, Counts]:
    """Increments since the baseline, by metric.

    A counter below its last value was reset and counts from zero. One that was not there before was born in between
    (error series appear with the first error) and counts from zero as well.
    """
    sums: defaultdict[str, dict[tuple[Role, Kind], float]] = defaultdict(dict)
    for r in readings:
        before = baseline.get(r.key, 0.0)
        grown = r.value - before if r.value >= before else r.value
        sums[r.metric][r.role, r.kind] = sums[r.metric].get((r.role, r.kind), 0.0) + grown
    return {metric: _both_sides(metric, sides) for metric, sides in sums.items()}


def _both_sides(metric: str, sides: dict[tuple[Role, Kind], float]) -> Counts:
    def total(role: Role) -> float:
        return sides.get((role, Kind.total), 0.0)

    def bad(role: Role) -> float:
        if metric.startswith(SLOW):
            return total(role) - sides.get((role, Kind.good), 0.0)
        return sides.get((role, Kind.bad), 0.0)

    return Counts(
        canary=total(Role.canary),
        canary_bad=bad(Role.canary),
        stable=total(Role.stable),
        stable_bad=bad(Role.stable),
    )


def _pairs(counts: Counts) -> tuple[tuple[float, float], tuple[float, float]]:
    return (counts.canary, counts.canary_bad), (counts.stable, counts.stable_bad)
