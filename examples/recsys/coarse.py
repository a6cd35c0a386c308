"""The coarse ranker: gradient-boosted trees on the pair features (LightGBM)."""

from __future__ import annotations

from typing import Any

import numpy as np

from examples.recsys import quality
from examples.recsys.features import DENSE
from examples.recsys.samples import Pairs

PARAMETERS = {
    "objective": "binary",
    "num_leaves": 31,
    "learning_rate": 0.1,
    "min_data_in_leaf": 200,
    "deterministic": True,
    "force_row_wise": True,
    # One thread: on a machine that is busy otherwise, two that wait for each other are several times slower.
    "num_threads": 1,
    "seed": 20170103,
    "verbosity": -1,
}
ROUNDS = 60


def train(rows: Pairs) -> Any:
    """Fit the booster."""
    import lightgbm

    data = lightgbm.Dataset(rows.dense, rows.label, feature_name=list(DENSE))
    return lightgbm.train(PARAMETERS, data, num_boost_round=ROUNDS)


def predict(booster: Any, features: Any) -> Any:
    """float32 (rows, 2): chance of "not bought" and of "bought", as a classifier's exported form gives them."""
    bought = booster.predict(features, num_threads=1)
    return np.stack([1 - bought, bought], axis=1).astype(np.float32)


def measure(booster: Any, rows: Pairs, shelf: Any) -> dict[str, Any]:
    """Quality on held-out rows. ``shelf`` holds a shelf's name per product index."""
    score = predict(booster, rows.dense)[:, 1]
    return quality.ranking(rows.home, rows.label, score, np.asarray(shelf)[rows.product])
