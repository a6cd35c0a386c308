"""Rows to train and to measure on: what was bought in the window after a cut, against what could have been."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.recsys import features
from examples.recsys.data import WINDOW_DAYS, Dataset, Floats, Ints
from examples.recsys.features import Snapshot

POSITIVES = 20  # at most, per household and window
NEGATIVES = 3  # per positive
FIELDS = ("home", "product", "ids", "dense", "history", "label")
RANKER_INPUTS = ("ids__0", "dense__1", "history__2")
BLANKED = 0.06  # share of training households shown as if they had no history, to train for newcomers


@dataclass(frozen=True)
class Pairs:
    """Household-product rows with their label; rows of one household lie together."""

    home: Ints
    product: Ints
    ids: Ints
    dense: Floats
    history: Ints
    label: Floats


def bought(data: Dataset, cut: int) -> tuple[Ints, Ints]:
    """Distinct (household, product) of the catalogue bought in the window after ``cut``, in that order."""
    lines = data.purchases
    start, stop = np.searchsorted(lines.day, [cut, cut + WINDOW_DAYS])
    inside = lines.product[start:stop] > 0
    products = data.sizes["product"]
    key = np.unique(lines.household[start:stop][inside] * products + lines.product[start:stop][inside])
    return key // products, key % products


def pairs(data: Dataset, snap: Snapshot, *, seed: int, blanked: float = 0.0) -> Pairs:
    """Positives from the window after the snapshot, negatives by popularity, features from before it."""
    rng = np.random.default_rng(seed)
    home, product = bought(data, snap.cut)
    shuffled = rng.permutation(len(home))
    shuffled = shuffled[np.argsort(home[shuffled], kind="stable")]
    rank = np.arange(len(home)) - np.searchsorted(home[shuffled], home[shuffled])
    chosen = shuffled[rank < POSITIVES]
    weight = snap.popularity**0.75
    others = rng.choice(len(weight), size=len(chosen) * NEGATIVES, p=weight / weight.sum())
    who = np.concatenate([home[chosen], np.repeat(home[chosen], NEGATIVES)])
    what = np.concatenate([product[chosen], others])
    label = np.concatenate([np.ones(len(chosen)), np.zeros(len(others))])
    products = data.sizes["product"]
    wrong = (label == 0) & np.isin(who * products + what, home * products + product)
    order = np.argsort(who[~wrong], kind="stable")
    who, what, label = who[~wrong][order], what[~wrong][order], label[~wrong][order]
    return rows(data, snap, who, what, label=label, blank=rng.random(len(data.household_id)) < blanked)


def rows(
    data: Dataset,
    snap: Snapshot,
    home: Ints,
    product: Ints,
    *,
    label: Floats | None = None,
    blank: NDArray[np.bool_] | None = None,
) -> Pairs:
    """Features of given pairs. ``blank`` marks households (by index) whose history is hidden."""
    found = Pairs(
        home,
        product,
        features.ids(home, product, data),
        features.dense(snap, home, product, data),
        snap.history[home],
        (np.zeros(len(home)) if label is None else label).astype(np.float32),
    )
    if blank is None or not blank.any():
        return found
    hide = blank[home]
    empty = features.dense(newcomer(snap), home[hide], product[hide], data)
    found.dense[hide], found.history[hide] = empty, 0
    return found


def newcomer(snap: Snapshot) -> Snapshot:
    """The snapshot as it looks for households that have never bought anything."""
    names = ("items", "baskets", "last_day", "spend", "discount", "history", "category", "category_last", "department")
    return replace(
        snap,
        **{n: np.zeros_like(getattr(snap, n)) for n in names},
        pair_key=np.array([-1]),
        pair_last=np.zeros(1, np.float32),
    )


def join(parts: list[Pairs]) -> Pairs:
    """Rows of several samples, one after the other."""
    return Pairs(*(np.concatenate([getattr(p, n) for p in parts]) for n in FIELDS))


def take(pairs: Pairs, index: Any) -> Pairs:
    """The rows at an index or under a mask."""
    return Pairs(*(getattr(pairs, n)[index] for n in FIELDS))


def ranker_inputs(pairs: Pairs) -> dict[str, Any]:
    """The rows as the ranker's named inputs."""
    return dict(zip(RANKER_INPUTS, (pairs.ids, pairs.dense, pairs.history), strict=True))


def save(pairs: Pairs, path: Path) -> None:
    """Write the rows, uncompressed: reading is what happens often."""
    np.savez(path, **{n: getattr(pairs, n) for n in FIELDS})


def restore(path: Path) -> Pairs:
    """Read saved rows."""
    with np.load(path) as stored:
        return Pairs(*(stored[n] for n in FIELDS))
