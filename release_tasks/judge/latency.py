"""Decide on a load test from raw latencies. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from release_tasks.outcome import Verdict

# A 95th percentile of fewer answers than this says little: with 20, one answer stands above it.
MIN_ANSWERS = 20


@dataclass(frozen=True)
class Latencies:
    """Percentiles of one phase, milliseconds; NaN where nothing was answered."""

    answered: int
    failed: int
    p50: float
    p95: float
    p99: float

    @property
    def error_share(self) -> float:
        """Failed requests over all; NaN where none was sent."""
        sent = self.answered + self.failed
        return self.failed / sent if sent else math.nan


def summarise(latencies_ms: list[float], failed: int) -> Latencies:
    """Percentiles of the answered requests, by linear interpolation between order statistics."""
    if not latencies_ms:
        return Latencies(0, failed, math.nan, math.nan, math.nan)
    p50, p95, p99 = (float(p) for p in np.percentile(latencies_ms, [50, 95, 99]))
    return Latencies(len(latencies_ms), failed, p50, p95, p99)


def judge_latency(found: Latencies, sla_ms: float) -> Verdict:
    """95 % of answers within the SLA; too few answers, or none, cannot tell."""
    if found.answered < MIN_ANSWERS or not math.isfinite(found.p95):
        return Verdict.inconclusive
    return Verdict.passed if found.p95 <= sla_ms else Verdict.failed


def judge_errors(found: Latencies, limit: float) -> Verdict:
    """Share of failed requests against the limit; nothing sent cannot tell."""
    if not math.isfinite(found.error_share):
        return Verdict.inconclusive
    return Verdict.passed if found.error_share <= limit else Verdict.failed


def judge_growth(samples_mb: list[float], limit_mb: float) -> tuple[Verdict, float]:
    """Growth of memory over a phase, MiB: median of its last third less median of its first third.

    Medians of thirds, since single samples jump with what the allocator keeps. Fewer than six samples cannot tell.
    """
    if len(samples_mb) < 6 or not all(math.isfinite(s) for s in samples_mb):
        return Verdict.inconclusive, math.nan
    third = len(samples_mb) // 3
    growth = float(np.median(samples_mb[-third:]) - np.median(samples_mb[:third]))
    return (Verdict.passed if growth <= limit_mb else Verdict.failed), growth
