"""Requests that real households would send: golden rows, live traffic, and where the two differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from examples.recsys import retriever, samples
from examples.recsys.data import Dataset, Ints
from examples.recsys.features import Snapshot

CANDIDATES = 20  # products per ranking request
GOLDEN_HOMES, GOLDEN_NEW, GOLDEN_ROWS = 12, 4, 8


@dataclass(frozen=True)
class Limits:
    """Lengths of history (purchase lines) that part the households.

    Golden rows and business cases come from households below ``long``, as typical ones do; frequent shoppers are
    few among the households but send most of the requests.
    """

    long: int
    huge: int


def visits(data: Dataset, snap: Snapshot) -> tuple[Ints, Ints]:
    """(household, second) of every basket on or after the snapshot's day, in time order."""
    lines = data.purchases
    start = int(np.searchsorted(lines.day, snap.cut))
    _, first = np.unique(lines.basket[start:], return_index=True)
    first = np.sort(first) + start
    return lines.household[first], lines.second[first]


def limits(data: Dataset, snap: Snapshot) -> Limits:
    """``long`` is exceeded by 55 % of the visits, ``huge`` by 30 %."""
    home, _ = visits(data, snap)
    a, b = np.quantile(snap.items[home], [0.45, 0.70])
    return Limits(int(a), int(b))


def eligible(snap: Snapshot, limit: Limits) -> Ints:
    """Households with a history shorter than ``limit.long``."""
    return np.flatnonzero((snap.items > 0) & (snap.items < limit.long))


def golden(data: Dataset, snap: Snapshot, limit: Limits) -> dict[str, dict[str, Any]]:
    """Golden inputs per model: known and new households, so that both branches of the ranker are taken."""
    rng = np.random.default_rng(11)
    known = rng.choice(eligible(snap, limit), size=80, replace=False)
    new = np.resize(np.flatnonzero(snap.items == 0), 16)
    home = np.concatenate([known, new])
    profile, history = retriever.inputs(data, snap, home)
    few = np.concatenate([known[:GOLDEN_HOMES], new[:GOLDEN_NEW]])
    parts = [samples.rows(data, snap, np.full(GOLDEN_ROWS, h), offers(data, snap, h)[:GOLDEN_ROWS]) for h in few]
    rows = samples.join(parts)
    return {
        "retriever": {"profile": profile, "history": history},
        "coarse_ranker": {"features": rows.dense},
        "ranker": samples.ranker_inputs(rows),
    }


def offers(data: Dataset, snap: Snapshot, home: int) -> Ints:
    """What a household is offered: half of it bought before, half popular; CANDIDATES distinct products, shuffled."""
    rng = np.random.default_rng(int(home))
    before = snap.history[home][snap.history[home] > 0]
    before = rng.permutation(before)[: CANDIDATES // 2]
    weight = snap.popularity**0.75
    weight[before] = 0
    others = rng.choice(len(weight), size=CANDIDATES - len(before), replace=False, p=weight / weight.sum())
    return rng.permutation(np.concatenate([before, others]))


def traffic(data: Dataset, snap: Snapshot) -> dict[str, Any]:
    """The traffic file's arrays.

    ``order`` and ``when`` say which household asks at which second of 2017; ``in:<model>:<input>`` holds one request
    per household: (households, rows, …).
    """
    home, when = visits(data, snap)
    who, order = np.unique(home, return_inverse=True)
    profile, history = retriever.inputs(data, snap, who)
    product = np.concatenate([offers(data, snap, h) for h in who])
    rows = samples.rows(data, snap, np.repeat(who, CANDIDATES), product)
    shaped = {f"in:ranker:{n}": v.reshape(len(who), CANDIDATES, -1) for n, v in samples.ranker_inputs(rows).items()}
    return {
        "order": order.astype(np.int32),
        "when": when,
        "items": snap.items[who].astype(np.int64),
        "in:retriever:profile": profile[:, None],
        "in:retriever:history": history[:, None],
        "in:coarse_ranker:features": rows.dense.reshape(len(who), CANDIDATES, -1),
        **shaped,
    }
