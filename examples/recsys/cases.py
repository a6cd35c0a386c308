"""Ten business cases: real households, the goods they were offered, and what they went on to buy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from examples.recsys import samples
from examples.recsys.data import BABY, Dataset, Ints
from examples.recsys.features import Snapshot

ROWS = 40
RELEVANT = 10  # at most
MIN_BOUGHT = 8  # a case with fewer held-out purchases says little


@dataclass(frozen=True)
class Kind:
    """A kind of household: the one with the highest figure stands for it."""

    id: str
    title: str
    tags: tuple[str, ...]
    figure: Any  # figure per household, -inf where it does not apply
    baby: bool = False


def build(data: Dataset, snap: Snapshot, eligible: Ints) -> list[dict[str, Any]]:
    """The cases as the case file holds them. ``eligible`` are household indices; each is used once at most."""
    home, product = samples.bought(data, snap.cut)
    cases: list[dict[str, Any]] = []
    used: set[int] = set()
    for kind in _kinds(data, snap, home, product):
        figure = np.full(len(data.household_id), -np.inf)
        pool = np.flatnonzero(snap.items == 0) if "new" in kind.tags else eligible
        figure[pool] = kind.figure[pool]
        figure[list(used)] = -np.inf
        who = int(np.argmax(figure))
        used.add(who)
        cases.append(_case(data, snap, kind, who, product[home == who]))
    return cases


def _kinds(data: Dataset, snap: Snapshot, home: Ints, product: Ints) -> list[Kind]:
    homes = len(data.household_id)
    bought = np.bincount(home, minlength=homes)
    of_baby = np.bincount(home[data.catalogue.is_baby[product]], minlength=homes).astype(float)
    enough = np.where(bought >= MIN_BOUGHT, 0.0, -np.inf)
    share = snap.department / np.maximum(snap.items, 1)[:, None]
    category = snap.category / np.maximum(snap.items, 1)[:, None]
    names = {name: i for i, name in zip(data.catalogue.department, data.catalogue.shelf, strict=True) if name != BABY}
    pets = _categories(data, ("CAT FOOD", "DOG FOODS"))
    people = data.demographics
    largest = data.sizes["household_size"] - 1
    oldest = data.sizes["age"] - 1
    thrift = snap.discount / np.maximum(snap.spend + snap.discount, 1)
    return [
        Kind("baby_1", "Family with a baby, buys baby goods every week", ("baby",), of_baby, baby=True),
        Kind("baby_2", "Family with a baby, second", ("baby",), of_baby, baby=True),
        Kind("baby_3", "Family with a baby, third", ("baby",), of_baby, baby=True),
        Kind("new", "New household without any history", ("new",), bought.astype(float)),
        Kind("large_family", "Family of five or more", ("family",), np.where(people[:, 2] == largest, bought, -np.inf)),
        Kind("single", "One person", ("single",), np.where(people[:, 2] == 1, bought, -np.inf)),
        Kind("senior", "Senior household", ("senior",), np.where(people[:, 0] == oldest, bought, -np.inf)),
        Kind("pets", "Household with a pet", ("pets",), category[:, pets].sum(axis=1) + enough),
        Kind("greens", "Buys mostly fruit and vegetables", ("produce",), share[:, names["PRODUCE"]] + enough),
        Kind("thrifty", "Buys what is on offer", ("thrifty",), thrift + enough),
    ]


def _categories(data: Dataset, names: tuple[str, ...]) -> list[int]:
    """Indices of categories, found by the titles that begin their products' labels."""
    titles = tuple(f"{n.title()}:" for n in names)
    labels = zip(data.catalogue.category, data.catalogue.label, strict=True)
    return sorted({int(c) for c, label in labels if label.startswith(titles)})


def _case(data: Dataset, snap: Snapshot, kind: Kind, who: int, bought: Ints) -> dict[str, Any]:
    rng = np.random.default_rng(who)
    baby = data.catalogue.is_baby
    right = bought[baby[bought]] if kind.baby else bought
    right = rng.permutation(right)[:RELEVANT]
    weight = snap.popularity**0.75
    weight[bought] = 0
    parts = [right]
    if kind.baby:
        # The page offers baby goods the family does not buy, too.
        parts.append(_draw(rng, weight * baby, 10))
        weight = weight * ~baby
    parts.append(_draw(rng, weight, ROWS - sum(map(len, parts))))
    offered = rng.permutation(np.concatenate(parts))
    rows = samples.rows(data, snap, np.full(len(offered), who), offered)
    return {
        "id": kind.id,
        "title": kind.title,
        "tags": list(kind.tags),
        "model": "ranker",
        "inputs": {name: value.tolist() for name, value in samples.ranker_inputs(rows).items()},
        "output": "score__0",
        "metric": "ndcg_at_k",
        "k": 10,
        "relevant": np.flatnonzero(np.isin(offered, right)).tolist(),
        "labels": [data.catalogue.label[p] for p in offered],
    }


def _draw(rng: np.random.Generator, weight: Any, count: int) -> Ints:
    count = min(count, int((weight > 0).sum()))
    return rng.choice(len(weight), size=count, replace=False, p=weight / weight.sum())
