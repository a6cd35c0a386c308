"""Scores of business cases and what they mean against stable, pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from release_tasks.spec.cases import BusinessCase


class Finding(StrEnum):
    """What a case says."""

    fine = "fine"
    flagged = "flagged"  # a soft drop: a person decides
    blocked = "blocked"  # a hard case below its score


@dataclass(frozen=True)
class CaseScore:
    """One case on both releases; scores between 0 and 1."""

    case: BusinessCase
    candidate: float
    stable: float | None
    finding: Finding

    @property
    def change(self) -> float | None:
        """Relative change against stable; None without a stable score, or where stable scores nothing."""
        return relative_change(self.candidate, self.stable)


@dataclass(frozen=True)
class TagScore:
    """The mean over the cases of one tag."""

    tag: str
    cases: int
    candidate: float
    stable: float | None
    flagged: bool

    @property
    def change(self) -> float | None:
        """Relative change of the mean."""
        return relative_change(self.candidate, self.stable)


def relative_change(candidate: float, stable: float | None) -> float | None:
    """``candidate / stable - 1``; None where there is nothing to divide by."""
    return None if not stable else candidate / stable - 1


def order(values: ArrayLike) -> list[int]:
    """Row indices, the highest value first; equal values keep the order of the rows, so that ties are the same twice.

    Raises:
        ValueError: a value is NaN or infinite; such an answer has no order.
    """
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    unusable = np.flatnonzero(~np.isfinite(flat))
    if unusable.size:
        raise ValueError(
            f"row {unusable[0]} scored {flat[unusable[0]]}, and {unusable.size} of {flat.size} are not finite"
        )
    return [int(i) for i in np.argsort(-flat, kind="stable")]


def recall_at_k(values: ArrayLike, relevant: tuple[int, ...], k: int) -> float:
    """Part of the relevant rows among the first ``k``; of at most ``k`` that fit."""
    first = order(values)[:k]
    wanted = set(relevant)
    return len(wanted.intersection(first)) / min(k, len(wanted))


def ndcg_at_k(values: ArrayLike, relevant: tuple[int, ...], k: int) -> float:
    """Normalised discounted cumulative gain of the first ``k`` rows, binary relevance (Järvelin & Kekäläinen 2002)."""
    wanted = set(relevant)
    discounts = 1 / np.log2(np.arange(2, k + 2))
    gains = np.array([row in wanted for row in order(values)[:k]], dtype=np.float64)
    ideal = discounts[: min(k, len(wanted))].sum()
    return float((gains * discounts[: gains.size]).sum() / ideal)


METRICS = {"recall_at_k": recall_at_k, "ndcg_at_k": ndcg_at_k}


def score(case: BusinessCase, values: ArrayLike) -> float:
    """The case's score, given one value per row.

    Raises:
        ValueError: the answer has another number of rows, or is not finite.
    """
    rows = len(next(iter(case.inputs.values())))
    got = np.asarray(values).size
    if got != rows:
        raise ValueError(f"{rows} rows were asked and {got} values answered")
    return METRICS[case.metric](values, case.relevant, case.k)


def compare(case: BusinessCase, candidate: float, stable: float | None, max_drop: float) -> CaseScore:
    """Judge one case: a hard one by its own score, any one by its drop against stable."""
    if case.hard and candidate < case.min_score:
        finding = Finding.blocked
    elif stable and candidate < stable * (1 - max_drop):
        finding = Finding.flagged
    else:
        finding = Finding.fine
    return CaseScore(case=case, candidate=candidate, stable=stable, finding=finding)


def by_tag(scores: list[CaseScore], max_drop: float) -> list[TagScore]:
    """Means per tag, in alphabetical order; a tag whose mean drops too far is flagged, though each case be fine."""
    found = []
    for tag in sorted({t for s in scores for t in s.case.tags}):
        group = [s for s in scores if tag in s.case.tags]
        candidate = float(np.mean([s.candidate for s in group]))
        known = [s.stable for s in group if s.stable is not None]
        stable = float(np.mean(known)) if len(known) == len(group) else None
        change = relative_change(candidate, stable)
        found.append(TagScore(tag, len(group), candidate, stable, change is not None and change < -max_drop))
    return found
