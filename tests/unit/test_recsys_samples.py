"""Features look back, labels look ahead, figures are what their formulas say; on a small made-up shop."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest

from examples.recsys import cases, data, features, live, quality, release_file, samples
from release_tasks.spec import parse_spec
from release_tasks.spec.cases import load_cases

CATEGORIES = [("DRUG GM", "BABY FOODS"), ("GROCERY", "CAT FOOD"), ("PRODUCE", "APPLES"), ("FUEL", "GASOLINE")]


@pytest.fixture(scope="module")
def shop():
    """240 households, 120 products, a year; household 1 comes only after the last cut."""
    rng = np.random.default_rng(1)
    n = 40_000
    kinds = [CATEGORIES[i % 4] for i in range(120)]
    products = pd.DataFrame(
        {
            "product_id": np.arange(1000, 1120),
            "manufacturer_id": np.arange(120) % 7,
            "department": [k[0] for k in kinds],
            "brand": "National",
            "product_category": [k[1] for k in kinds],
            "product_type": "TYPE",
            "package_size": "1 LB",
        }
    )
    home = rng.integers(1, 241, n)
    day = rng.integers(0, 360, n)
    keep = (home != 1) | (day >= data.TEST_CUT)
    lines = pd.DataFrame(
        {
            "household_id": home,
            "basket_id": home * 1000 + day,
            "product_id": rng.integers(1000, 1120, n),
            "sales_value": 2.0,
            "retail_disc": rng.random(n),
            "transaction_timestamp": pd.Timestamp("2017-01-01") + pd.to_timedelta(day * 86_400 + 60, unit="s"),
        }
    )[keep]
    people = pd.DataFrame(
        {
            "household_id": np.arange(2, 80),
            "age": np.where(np.arange(2, 80) % 2, "19-24", "65+"),
            "income": "50-74K",
            "household_size": np.where(np.arange(2, 80) % 3, "1", "5+"),
            "kids_count": "0",
        }
    )
    return data.build(lines, products, people)


@pytest.fixture(scope="module")
def now(shop):
    return features.snapshot(shop, data.TEST_CUT)


def test_features_ignore_everything_on_or_after_the_cut(shop):
    cut = data.TRAIN_CUTS[1]
    lines = shop.purchases
    later = lines.day >= cut
    changed = data.Purchases(**{**vars(lines), "product": np.where(later, 1, lines.product)})
    future = data.Dataset(changed, shop.catalogue, shop.household_id, shop.demographics, shop.sizes)
    before, after = features.snapshot(shop, cut), features.snapshot(future, cut)
    for name in vars(before):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name), err_msg=name)
    assert before.items.sum() == (~later).sum()


def test_the_windows_of_labels_follow_one_another_and_end_before_the_held_out_one(shop):
    starts = [*data.TRAIN_CUTS, data.TEST_CUT]
    assert all(b - a == data.WINDOW_DAYS for a, b in itertools.pairwise(starts))
    home, product = samples.bought(shop, data.TRAIN_CUTS[0])
    lines = shop.purchases
    inside = (lines.day >= starts[0]) & (lines.day < starts[1]) & (lines.product > 0)
    assert set(zip(home, product, strict=True)) == set(zip(lines.household[inside], lines.product[inside], strict=True))


def test_the_catalogue_leaves_out_what_is_no_good(shop):
    assert "FUEL" not in shop.catalogue.shelf
    assert shop.catalogue.is_baby.sum() == 30


def test_no_negative_was_bought_in_the_window(shop, now):
    rows = samples.pairs(shop, now, seed=1)
    bought = set(zip(*samples.bought(shop, now.cut), strict=True))
    positives = set(zip(rows.home[rows.label == 1], rows.product[rows.label == 1], strict=True))
    negatives = set(zip(rows.home[rows.label == 0], rows.product[rows.label == 0], strict=True))
    assert positives <= bought
    assert negatives and not negatives & bought
    assert (np.diff(rows.home) >= 0).all()


def test_dense_features_are_finite_multiples_of_a_64th(shop, now):
    rows = samples.pairs(shop, now, seed=1)
    assert rows.dense.dtype == np.float32 and rows.dense.shape[1] == len(features.DENSE)
    assert np.isfinite(rows.dense).all()
    np.testing.assert_array_equal(rows.dense * 64, np.round(rows.dense * 64))


def test_history_holds_the_last_distinct_products_newest_first(shop, now):
    lines = shop.purchases
    mine = (lines.household == 5) & (lines.day < now.cut) & (lines.product > 0)
    last = {}
    for product, day in zip(lines.product[mine], lines.day[mine], strict=True):
        last[product] = max(day, last.get(product, -1))
    days = [last[p] for p in now.history[5] if p > 0]
    assert days == sorted(last.values(), reverse=True)[: features.HISTORY]


def test_a_blanked_household_looks_like_one_that_never_came(shop, now):
    rows = samples.rows(shop, now, np.array([5]), np.array([1]), blank=np.arange(len(shop.household_id)) == 5)
    never = samples.rows(shop, now, np.array([0]), np.array([1]))
    assert now.items[0] == 0
    np.testing.assert_array_equal(rows.dense, never.dense)
    assert not rows.history.any()


def test_cases_are_accepted_and_hold_truth_from_after_the_cut(shop, now, tmp_path):
    limit = live.Limits(long=10_000, huge=20_000)
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"version": 1, "cases": cases.build(shop, now, live.eligible(now, limit))}))
    book = load_cases(path)
    assert len(book.cases) == 10
    assert sum("baby" in c.tags for c in book.cases) >= 2
    new = next(c for c in book.cases if "new" in c.tags)
    assert not np.any(new.inputs["history__2"])
    assert all(len(c.labels) == len(c.inputs["ids__0"]) == cases.ROWS for c in book.cases)
    later = set(samples.bought(shop, now.cut)[1])
    assert all(c.inputs["ids__0"][i][0] in later for c in book.cases for i in c.relevant)


def test_golden_rows_take_both_branches_and_stay_below_the_long_histories(shop, now):
    limit = live.Limits(long=int(np.median(now.items)), huge=10_000)
    golden = live.golden(shop, now, limit)
    known = golden["ranker"]["history__2"].any(axis=1)
    assert known.any() and not known.all() and len(known) >= 64
    assert np.expm1(golden["ranker"]["dense__1"][:, 0]).max() < limit.long * 1.02


def test_the_release_file_is_a_valid_spec():
    spec = parse_spec(release_file.text(release_file.spec(20, "text")))
    assert [m.name for m in spec.models] == ["retriever", "coarse_ranker", "ranker"]


def test_auc_counts_pairs_in_the_right_order_and_ties_half():
    assert quality.auc(np.array([1, 0, 1, 0]), np.array([4.0, 3, 2, 1])) == pytest.approx(0.75)
    assert quality.auc(np.array([1, 0]), np.array([1.0, 1.0])) == pytest.approx(0.5)
    assert np.isnan(quality.auc(np.ones(3), np.arange(3)))


def test_ndcg_by_hand():
    expected = (1 / np.log2(3)) / (1 + 1 / np.log2(3))
    assert quality.ndcg_at_k(np.array([0, 1, 1]), np.array([3.0, 2, 1]), 2) == pytest.approx(expected)
    assert quality.ndcg_at_k(np.array([1, 0]), np.array([2.0, 1]), 10) == pytest.approx(1)


def test_recall_by_hand():
    assert quality.recall_at_k([np.array([1, 2]), np.array([3])], np.array([[1, 9], [3, 4]])) == pytest.approx(0.75)
