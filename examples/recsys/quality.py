"""Quality figures. All are pure functions of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def auc(label: Array, score: Array) -> float:
    """Area under the ROC curve by the rank-sum (Mann-Whitney) formula, ties counted half; NaN without both labels."""
    positives, negatives = int((label > 0).sum()), int((label <= 0).sum())
    if not positives or not negatives:
        return float("nan")
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((rank[label > 0].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def ndcg_at_k(relevant: Array, score: Array, k: int) -> float:
    """Normalised discounted cumulative gain of one list with binary relevance (Järvelin and Kekäläinen, 2002)."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    order = np.argsort(-score, kind="stable")[:k]
    ideal = discount[: min(k, int(relevant.sum()))].sum()
    return float((relevant[order] * discount[: len(order)]).sum() / ideal) if ideal else float("nan")


def mean_ndcg(group: Array, relevant: Array, score: Array, k: int = 10) -> float:
    """Mean over the groups that have something relevant; rows of one group lie together."""
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    scores = [
        ndcg_at_k(relevant[a:b], score[a:b], k)
        for a, b in zip(starts, np.r_[starts[1:], len(group)], strict=True)
        if relevant[a:b].any()
    ]
    return float(np.mean(scores)) if scores else float("nan")


def ranking(group: Array, label: Array, score: Array, shelf: Array, min_positives: int = 100) -> dict[str, Any]:
    """AUC and NDCG@10, overall and per shelf.

    A shelf's figures ask how well ITS purchases are found: they are the positives, against everything that was
    not bought (AUC) or in the household's whole list (NDCG).
    """
    out: dict[str, Any] = {"auc": auc(label, score), "ndcg_at_10": mean_ndcg(group, label, score), "by_department": {}}
    for name in sorted(set(shelf[label > 0])):
        mine = (label > 0) & (shelf == name)
        if mine.sum() >= min_positives:
            rows = mine | (label <= 0)
            out["by_department"][str(name)] = {
                "auc": auc(mine[rows], score[rows]),
                "ndcg_at_10": mean_ndcg(group, mine.astype(float), score),
                "purchases": int(mine.sum()),
            }
    return out


def recall_at_k(truth: list[Array], top: Array) -> float:
    """Mean share of each list of true items that is among the row's top items (rows, k)."""
    return float(np.mean([np.isin(t, row).mean() for t, row in zip(truth, top, strict=True) if len(t)]))
