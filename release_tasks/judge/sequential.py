"""Sequential tests that may be looked at after every scrape without losing their error bound.

All three are e-values: under the hypothesis they test, the chance of ever seeing a value of ``1/a`` or more is at most
``a`` (Ville's inequality), however often one looks and whenever one stops. Everything is computed as logarithms, since
the products run over thousands of requests.

Sources: Lindon & Malek, Anytime-Valid Inference for Multinomial Count Data (NeurIPS 2022, arXiv 2011.03567); Turner,
Ly & Grünwald (arXiv 2106.02693); Howard et al., Time-uniform confidence sequences (2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, betaln, logsumexp

Counts = NDArray[np.float64]

GRID = 40  # alternatives in the mixture
NEAREST, FARTHEST = 1.05, 200.0  # of the tolerated ratio; beyond 200 a single scrape decides anyway


@dataclass(frozen=True)
class Counted:
    """Requests and bad ones per scrape; four arrays of one length ``(scrapes,)``."""

    canary: Counts
    canary_bad: Counts
    stable: Counts
    stable_bad: Counts

    @classmethod
    def of(cls, rows: list[tuple[float, float, float, float]]) -> Counted:
        """From rows ``(canary, canary bad, stable, stable bad)``."""
        table = np.asarray(rows, dtype=np.float64).reshape(-1, 4)
        return cls(table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def log_worse(counts: Counted, ratio: float) -> float:
    """Log e-value against "the canary's bad rate is at most ``ratio`` times stable's".

    Given the number of bad requests of a scrape, the canary's part of them is binomial with the share
    ``theta(rho) = n_c*rho / (n_c*rho + n_s)``; the base rate, which drifts over the day, drops out.
    The e-value is the likelihood ratio against ``theta(ratio)``, averaged over alternatives ``rho``. For ``ratio`` = 1
    the bound is proved; above 1, with several scrapes of unequal weights, it is checked by simulation.
    """
    seen = (counts.canary + counts.stable) > 0
    canary, stable = counts.canary[seen], counts.stable[seen]
    bad = counts.canary_bad[seen]
    both = bad + counts.stable_bad[seen]
    rho = ratio * np.geomspace(NEAREST, FARTHEST, GRID)
    growth = np.log(canary[:, None] * rho + stable[:, None]) - np.log(canary * ratio + stable)[:, None]
    paths = bad.sum() * np.log(rho / ratio) - both @ growth
    return float(logsumexp(paths) - math.log(GRID))


def log_worse_closed(canary_bad: float, stable_bad: float, share: float) -> float:
    """Log e-value for a constant traffic share and ratio 1, with a uniform prior over all larger shares.

    The closed form of Lindon & Malek; it serves as the check of ``log_worse``.
    """
    a, b = 1 + canary_bad, 1 + stable_bad
    upper = math.log(betaincc(a, b, share)) - math.log1p(-share)
    return float(betaln(a, b) + upper - canary_bad * math.log(share) - stable_bad * math.log1p(-share))


def log_good_enough(requests: float, bad: float, limit: float) -> float:
    """Log e-value against "the bad share is ``limit`` or more"; large means the objective is met.

    Uniform mixture over all shares below the limit. Minus infinity once the share is far above it.
    """
    below = betainc(1 + bad, 1 + requests - bad, limit)
    return _mixture(requests, bad, limit, below) - math.log(limit)


def log_over_objective(requests: float, bad: float, limit: float) -> float:
    """Log e-value against "the bad share is ``limit`` or less"; large means the objective is missed."""
    above = betaincc(1 + bad, 1 + requests - bad, limit)
    return _mixture(requests, bad, limit, above) - math.log1p(-limit)


def _mixture(requests: float, bad: float, limit: float, mass: float) -> float:
    """Log of the beta integral over one side of the limit, relative to the likelihood at the limit."""
    if not 0 <= bad <= requests:
        raise ValueError(f"{bad:g} bad of {requests:g} requests is no count")
    if mass <= 0.0:  # underflow: the data lie far on the other side, where the e-value is below one
        return -math.inf
    at_limit = bad * math.log(limit) + (requests - bad) * math.log1p(-limit)
    return float(betaln(1 + bad, 1 + requests - bad) + math.log(mass) - at_limit)


def requests_needed(bad: int, limit: float, error: float) -> int:
    """Requests until ``bad`` bad ones among them prove a share below ``limit`` with error at most ``error``."""
    goal = -math.log(error)
    high = max(1, bad)
    while log_good_enough(high, bad, limit) < goal:
        high *= 2
    low = bad
    while high - low > 1:
        middle = (low + high) // 2
        if log_good_enough(middle, bad, limit) >= goal:
            high = middle
        else:
            low = middle
    return high


def worsening_needed(counts: Counted, ratio: float, goal: float, most: int = 10_000) -> int | None:
    """Further bad canary requests, all at the last scrape's traffic, that would lift the log e-value to ``goal``."""
    if log_worse(counts, ratio) >= goal:
        return 0
    last = np.flatnonzero(counts.canary > 0)
    if last.size == 0:
        return None
    low, high = 0, 1
    while log_worse(_with_bad(counts, int(last[-1]), high), ratio) < goal:
        low, high = high, high * 2
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        reached = log_worse(_with_bad(counts, int(last[-1]), middle), ratio) >= goal
        low, high = (low, middle) if reached else (middle, high)
    return high


def _with_bad(counts: Counted, at: int, more: int) -> Counted:
    bad = counts.canary_bad.copy()
    bad[at] += more
    return Counted(counts.canary, bad, counts.stable, counts.stable_bad)
