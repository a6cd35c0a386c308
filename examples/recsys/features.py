"""Features of households and of household-product pairs, as they were known before a day."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from examples.recsys.data import Dataset, Floats, Ints

HISTORY = 32  # most recent distinct products of a household, newest first, 0 = none
DENSE = (
    "household_items", "household_baskets", "days_since_visit", "basket_value", "discount_share",
    "times_bought", "days_since_bought", "bought_share", "category_count", "category_share", "days_since_category",
    "department_share", "product_households", "product_price", "product_repeat",
)  # fmt: skip
IDS = ("product", "category", "department", "manufacturer", "brand", "age", "income", "household_size")


@dataclass(frozen=True)
class Snapshot:
    """What is known before day ``cut``; the first axis of every array is households or products."""

    cut: int
    items: Floats
    baskets: Floats
    last_day: Floats
    spend: Floats
    discount: Floats
    history: Ints  # (households, HISTORY)
    pair_key: Ints  # household * products + product, sorted
    pair_count: Floats
    pair_last: Floats
    category: Floats  # (households, categories) purchase lines
    category_last: Floats
    department: Floats
    product_households: Floats
    product_price: Floats
    product_repeat: Floats
    popularity: NDArray[np.float64]  # share of purchase lines per product, sums to 1, index 0 is 0


def snapshot(data: Dataset, cut: int) -> Snapshot:
    """Aggregate every purchase strictly before day ``cut``."""
    lines = data.purchases
    n = int(np.searchsorted(lines.day, cut))
    who, what, day = lines.household[:n], lines.product[:n], lines.day[:n].astype(np.float32)
    homes, products = len(data.household_id), data.sizes["product"]
    key, inverse, count = np.unique(who * products + what, return_inverse=True, return_counts=True)
    last, spend = _latest(inverse, day, len(key)), np.bincount(what, lines.sales[:n], products)
    sold = np.bincount(what, minlength=products)
    buyers = np.bincount(key % products, minlength=products)
    again = np.bincount((key % products)[count > 1], minlength=products)
    popular = sold.astype(np.float64)
    popular[0] = 0
    known = key % products > 0
    return Snapshot(
        cut=cut,
        items=np.bincount(who, minlength=homes).astype(np.float32),
        baskets=_distinct_per_home(who, lines.basket[:n], homes),
        last_day=_latest(who, day, homes),
        spend=np.bincount(who, lines.sales[:n], homes).astype(np.float32),
        discount=np.bincount(who, lines.discount[:n], homes).astype(np.float32),
        history=_recent(key[known], last[known], homes, products),
        pair_key=key,
        pair_count=count.astype(np.float32),
        pair_last=last,
        category=_table(who, lines.category[:n], homes, data.sizes["category"]),
        category_last=_latest(
            who * data.sizes["category"] + lines.category[:n], day, homes * data.sizes["category"]
        ).reshape(homes, -1),
        department=_table(who, lines.department[:n], homes, data.sizes["department"]),
        product_households=buyers.astype(np.float32),
        product_price=(spend / np.maximum(sold, 1)).astype(np.float32),
        product_repeat=(again / np.maximum(buyers, 1)).astype(np.float32),
        popularity=popular / popular.sum(),
    )


def dense(snap: Snapshot, home: Ints, product: Ints, data: Dataset) -> Floats:
    """The pair features, (rows, len(DENSE)), in the order of DENSE.

    Values are multiples of 1/64: every split between two of them is exact in float32, so that a tree model
    answers the same whether its thresholds are kept in float32 or in float64.
    """
    goods, now = data.catalogue, np.float32(snap.cut)
    items = snap.items[home]
    some = np.maximum(items, 1)
    key = home * data.sizes["product"] + product
    place = np.minimum(np.searchsorted(snap.pair_key, key), len(snap.pair_key) - 1)
    hit = snap.pair_key[place] == key
    times = np.where(hit, snap.pair_count[place], 0)
    category = snap.category[home, goods.category[product]]
    seen = items > 0
    columns = [
        np.log1p(items),
        np.log1p(snap.baskets[home]),
        np.where(seen, np.log1p(now - snap.last_day[home]), 6.0),
        np.log1p(snap.spend[home] / np.maximum(snap.baskets[home], 1)),
        snap.discount[home] / np.maximum(snap.spend[home] + snap.discount[home], 1),
        np.log1p(times),
        np.where(hit, np.log1p(now - snap.pair_last[place]), 6.0),
        100 * times / some,
        np.log1p(category),
        100 * category / some,
        np.where(category > 0, np.log1p(now - snap.category_last[home, goods.category[product]]), 6.0),
        10 * snap.department[home, goods.department[product]] / some,
        np.log1p(snap.product_households[product]),
        np.log1p(snap.product_price[product]),
        10 * snap.product_repeat[product],
    ]
    return (np.round(np.stack(columns, axis=1) * 64) / 64).astype(np.float32)


def ids(home: Ints, product: Ints, data: Dataset) -> Ints:
    """The categorical features, (rows, len(IDS)), each counted from 0 = unknown."""
    goods, people = data.catalogue, data.demographics[home]
    parts = [product, goods.category[product], goods.department[product], goods.manufacturer[product]]
    return np.stack([*parts, goods.brand[product], people[:, 0], people[:, 1], people[:, 2]], axis=1)


def profile(snap: Snapshot, home: Ints, data: Dataset) -> Floats:
    """What the retriever knows of a household: (rows, 5 + departments + categories), log counts."""
    head = dense(snap, home, np.zeros_like(home), data)[:, :5]
    parts = [head, np.log1p(snap.department[home]), np.log1p(snap.category[home])]
    return (np.round(np.concatenate(parts, axis=1) * 64) / 64).astype(np.float32)


def _table(row: Ints, column: Ints, rows: int, columns: int) -> Floats:
    return np.bincount(row * columns + column, minlength=rows * columns).reshape(rows, columns).astype(np.float32)


def _latest(group: Ints, day: Floats, groups: int) -> Floats:
    out = np.zeros(groups, np.float32)
    np.maximum.at(out, group, day)
    return out


def _distinct_per_home(who: Ints, basket: Ints, homes: int) -> Floats:
    _, first = np.unique(basket, return_index=True)
    return np.bincount(who[first], minlength=homes).astype(np.float32)


def _recent(key: Ints, last: Floats, homes: int, products: int) -> Ints:
    order = np.lexsort((key, -last, key // products))
    home = key[order] // products
    rank = np.arange(len(home)) - np.searchsorted(home, home)
    out = np.zeros((homes, HISTORY), np.int64)
    keep = rank < HISTORY
    out[home[keep], rank[keep]] = (key[order] % products)[keep]
    return out
