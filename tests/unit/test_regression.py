"""Scores of business cases: known values, ties, NaN, and what a drop means."""

import math
from typing import Any

import numpy as np
import pytest

from release_tasks.judge.regression import (
    Finding,
    by_tag,
    compare,
    ndcg_at_k,
    order,
    recall_at_k,
    relative_change,
    score,
)
from release_tasks.spec.cases import BusinessCase


def case(**changes: Any) -> BusinessCase:
    fields: dict[str, Any] = {
        "id": "c1",
        "title": "Family",
        "model": "ranker",
        "inputs": {"features": [[0.0]] * 4},
        "output": "score",
        "k": 2,
        "relevant": (1, 3),
        "tags": ("baby",),
    }
    return BusinessCase(**{**fields, **changes})


def test_recall_counts_relevant_rows_among_the_first() -> None:
    assert recall_at_k([0.1, 0.9, 0.8, 0.2], (1, 3), 2) == 0.5
    assert recall_at_k([0.1, 0.9, 0.2, 0.8], (1, 3), 2) == 1.0
    assert recall_at_k([0.9, 0.1, 0.8, 0.2], (1, 3), 2) == 0.0
    assert recall_at_k([0.1, 0.9, 0.8, 0.7], (0, 1, 2, 3), 2) == 1.0


def test_ndcg_discounts_by_position() -> None:
    best = 1 + 1 / math.log2(3)
    assert ndcg_at_k([0.1, 0.9, 0.2, 0.8], (1, 3), 2) == pytest.approx(1)
    assert ndcg_at_k([0.1, 0.9, 0.8, 0.2], (1, 3), 2) == pytest.approx(1 / best)
    assert ndcg_at_k([0.1, 0.8, 0.9, 0.2], (1, 3), 2) == pytest.approx((1 / math.log2(3)) / best)


def test_k_beyond_the_rows_is_all_rows() -> None:
    assert ndcg_at_k([0.3, 0.9], (1,), 10) == 1.0
    assert recall_at_k([0.3, 0.9], (0, 1), 10) == 1.0


def test_ties_keep_the_order_of_the_rows() -> None:
    assert order([0.5, 0.5, 0.9, 0.5]) == [2, 0, 1, 3]
    assert order(np.array([[0.5], [0.5]], dtype=np.float32)) == [0, 1]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_answer_that_is_not_finite_has_no_score(value: float) -> None:
    with pytest.raises(ValueError, match="1 of 4 are not finite"):
        score(case(), [0.1, value, 0.2, 0.3])


def test_answer_of_another_length_has_no_score() -> None:
    with pytest.raises(ValueError, match="4 rows were asked and 3 values answered"):
        score(case(), [0.1, 0.2, 0.3])


def test_hard_case_blocks_by_its_own_score_soft_drop_is_flagged() -> None:
    hard = case(hard=True, min_score=0.5)
    assert compare(hard, 0.4, None, 0.2).finding is Finding.blocked
    assert compare(hard, 0.5, None, 0.2).finding is Finding.fine
    assert compare(case(), 0.79, 1.0, 0.2).finding is Finding.flagged
    assert compare(case(), 0.81, 1.0, 0.2).finding is Finding.fine
    assert compare(case(), 0.0, None, 0.2).finding is Finding.fine
    assert compare(hard, 0.6, 1.0, 0.2).finding is Finding.flagged


def test_change_against_nothing_is_unknown() -> None:
    assert relative_change(0.5, None) is None
    assert relative_change(0.5, 0.0) is None
    assert relative_change(0.59, 1.0) == pytest.approx(-0.41)


def test_tag_mean_is_flagged_and_untouched_tags_are_not() -> None:
    scores = [
        compare(case(id="a"), 0.5, 1.0, 0.2),
        compare(case(id="b"), 0.68, 1.0, 0.2),
        compare(case(id="c", tags=("meat",)), 0.9, 0.9, 0.2),
    ]
    baby, meat = by_tag(scores, 0.2)
    assert (baby.tag, baby.cases, baby.flagged) == ("baby", 2, True)
    assert baby.change == pytest.approx(-0.41)
    assert not meat.flagged
