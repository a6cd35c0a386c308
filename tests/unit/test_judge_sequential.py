"""The sequential tests against published closed forms, and their error bound by simulation."""

import math

import numpy as np
import pytest

from release_tasks.judge.sequential import (
    Counted,
    log_good_enough,
    log_over_objective,
    log_worse,
    log_worse_closed,
    requests_needed,
    worsening_needed,
)


@pytest.mark.parametrize(("bad", "expected"), [(1, 10.5), (2, 140), (3, 2105)])
def test_closed_form_gives_the_published_e_values(bad: int, expected: float) -> None:
    assert math.exp(log_worse_closed(bad, 0, 0.05)) == pytest.approx(expected, rel=0.003)


@pytest.mark.parametrize(("bad", "expected"), [(1, 10.5), (2, 140), (3, 2105)])
def test_mixture_lies_within_a_fifth_of_the_closed_form(bad: int, expected: float) -> None:
    constant_share = Counted.of([(5, bad, 95, 0)])
    assert math.exp(log_worse(constant_share, 1.0)) == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize(
    ("limit", "needed"),
    [(0.10, [43, 66, 85]), (0.05, [88, 134, 174]), (0.02, [224, 340, 439]), (0.01, [449, 683, 882]),
     (0.005, [901, 1368, 1767])],
)  # fmt: skip
def test_requests_needed_reproduces_the_table(limit: float, needed: list[int]) -> None:
    assert [requests_needed(bad, limit, 0.05) for bad in (0, 1, 2)] == needed


def test_requests_needed_is_the_first_count_that_proves_it() -> None:
    needed = requests_needed(3, 0.02, 0.05)
    assert log_good_enough(needed, 3, 0.02) >= math.log(20) > log_good_enough(needed - 1, 3, 0.02)


def test_far_over_the_limit_is_no_underflow_that_passes() -> None:
    assert log_good_enough(1e6, 9e5, 0.02) < 0
    assert log_over_objective(1e6, 9e5, 0.02) > 1000
    assert log_over_objective(1e6, 10, 0.02) < 0


def test_nothing_seen_says_nothing() -> None:
    assert log_worse(Counted.of([]), 1.5) == 0
    assert log_worse(Counted.of([(0, 0, 0, 0)]), 1.5) == 0
    assert log_good_enough(0, 0, 0.02) == pytest.approx(0)
    assert log_over_objective(0, 0, 0.02) == pytest.approx(0)


def test_scrapes_without_one_side_leave_the_comparison_as_it_was() -> None:
    both = [(5.0, 2.0, 95.0, 1.0)]
    alone = [(50.0, 9.0, 0.0, 0.0), (0.0, 0.0, 80.0, 3.0)]
    assert log_worse(Counted.of(both + alone), 1.0) == pytest.approx(log_worse(Counted.of(both), 1.0))


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="is no count"):
        log_good_enough(3, 4, 0.1)


def test_worsening_needed_is_the_smallest_that_reaches_the_bound() -> None:
    seen = Counted.of([(5, 0, 95, 0)] * 4)
    more = worsening_needed(seen, 1.0, math.log(100))
    assert more is not None
    rows = [(5, 0, 95, 0)] * 3
    assert log_worse(Counted.of([*rows, (5, more, 95, 0)]), 1.0) >= math.log(100)
    assert log_worse(Counted.of([*rows, (5, more - 1, 95, 0)]), 1.0) < math.log(100)


def _ever(rng: np.random.Generator, ratio: float, canary_rate: float, alpha: float) -> bool:
    """Whether the test ever fires over 5 % → 50 %, base rate drifting fivefold, every scrape looked at."""
    looks = 40
    base = 0.02 * np.exp(0.8 * np.sin(np.linspace(0, 6, looks) + rng.uniform(0, 6)))
    share = np.where(np.arange(looks) < looks // 2, 0.05, 0.5)
    canary = rng.poisson(100 * share).astype(float)
    stable = rng.poisson(100 * (1 - share)).astype(float)
    canary_bad = rng.binomial(canary.astype(int), np.minimum(1, base * canary_rate)).astype(float)
    stable_bad = rng.binomial(stable.astype(int), base).astype(float)
    counts = Counted(canary, canary_bad, stable, stable_bad)
    goal = -math.log(alpha)
    return any(
        log_worse(Counted(canary[:t], canary_bad[:t], stable[:t], stable_bad[:t]), ratio) >= goal
        for t in range(1, counts.canary.size + 1)
    )


@pytest.mark.parametrize("ratio", [1.0, 1.5])
def test_false_alarms_stay_under_alpha_while_weights_and_base_rate_change(ratio: float) -> None:
    rng = np.random.default_rng(7)
    fired = sum(_ever(rng, ratio, canary_rate=ratio, alpha=0.05) for _ in range(200))
    assert fired / 200 <= 0.05


def test_a_tenfold_error_rate_is_caught() -> None:
    rng = np.random.default_rng(8)
    fired = sum(_ever(rng, 1.5, canary_rate=10, alpha=0.01) for _ in range(40))
    assert fired / 40 >= 0.95
