"""The load test's decision: limits, and what cannot be told."""

from __future__ import annotations

import math

import pytest

from release_tasks.judge.latency import MIN_ANSWERS, Latencies, judge_errors, judge_growth, judge_latency, summarise
from release_tasks.outcome import Verdict


def latencies(p95: float, answered: int = 100, failed: int = 0) -> Latencies:
    return Latencies(answered, failed, p95, p95, p95)


def test_percentiles_by_linear_interpolation() -> None:
    found = summarise([float(i) for i in range(101)], failed=3)
    assert (found.p50, found.p95, found.p99) == (50, 95, 99)
    assert (found.answered, found.failed) == (101, 3)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (latencies(50.0), Verdict.passed),
        (latencies(50.001), Verdict.failed),
        (latencies(math.nan), Verdict.inconclusive),
        (latencies(math.inf), Verdict.inconclusive),
        (latencies(1.0, answered=MIN_ANSWERS - 1), Verdict.inconclusive),
        (summarise([], failed=0), Verdict.inconclusive),
        (summarise([], failed=500), Verdict.inconclusive),
    ],
)
def test_p95_against_the_sla(found: Latencies, verdict: Verdict) -> None:
    assert judge_latency(found, 50) is verdict


@pytest.mark.parametrize(
    ("answered", "failed", "limit", "verdict"),
    [
        (99, 1, 0.01, Verdict.passed),
        (98, 2, 0.01, Verdict.failed),
        (0, 0, 1.0, Verdict.inconclusive),
        (0, 5, 0.01, Verdict.failed),
    ],
)
def test_error_share_counts_all_requests(answered: int, failed: int, limit: float, verdict: Verdict) -> None:
    assert judge_errors(latencies(1.0, answered, failed), limit) is verdict


def test_growth_is_between_first_and_last_third_and_ignores_a_spike() -> None:
    assert judge_growth([100.0, 100, 100, 900, 100, 100, 110, 110, 110], 20) == (Verdict.passed, 10.0)
    assert judge_growth([100.0, 100, 130, 130, 160, 160], 20) == (Verdict.failed, 60.0)


@pytest.mark.parametrize("samples", [[], [1.0] * 5, [1.0] * 5 + [math.nan], [1.0] * 5 + [math.inf]])
def test_growth_of_too_little_or_unknown_memory_cannot_be_told(samples: list[float]) -> None:
    assert judge_growth(samples, 1000)[0] is Verdict.inconclusive
