"""The two-tower retriever in TensorFlow: household and product embeddings whose dot product ranks the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from examples.recsys import features, quality, samples
from examples.recsys.data import Dataset
from examples.recsys.features import HISTORY, Snapshot

WIDTH = 32  # of the common space
TOP = 50  # best catalogue scores that are served beside the embedding
BATCH = 128
EPOCHS = 6


@dataclass(frozen=True)
class Households:
    """One row per household: what the retriever sees, and what was bought afterwards."""

    home: Any
    profile: Any  # float32 (rows, profile)
    history: Any  # int64 (rows, HISTORY)
    target: Any  # float32 (rows, products), each row sums to 1; products bought in the window


def households(data: Dataset, snap: Snapshot, *, seed: int, blanked: float = 0.0) -> Households:
    """Everyone who bought something of the catalogue in the window after the snapshot."""
    home, product = samples.bought(data, snap.cut)
    who, row = np.unique(home, return_inverse=True)
    target = np.zeros((len(who), data.sizes["product"]), np.float32)
    target[row, product] = 1
    target /= target.sum(axis=1, keepdims=True)
    profile, history = inputs(data, snap, who)
    hide = np.random.default_rng(seed).random(len(who)) < blanked
    profile[hide], history[hide] = inputs(data, samples.newcomer(snap), who[hide])
    return Households(who, profile, history, target)


def inputs(data: Dataset, snap: Snapshot, home: Any) -> tuple[Any, Any]:
    """(profile, history) of households given by index."""
    return features.profile(snap, home, data), snap.history[home]


def train(data: Dataset, snaps: list[Snapshot]) -> Any:
    """Full softmax over the catalogue; a household's purchases share the probability mass."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(20170102)
    tf.config.experimental.enable_op_determinism()
    parts = [households(data, s, seed=s.cut, blanked=samples.BLANKED) for s in snaps]
    profile, history, target = (
        np.concatenate([getattr(p, n) for p in parts]) for n in ("profile", "history", "target")
    )
    model = build(tf, data, profile)
    optimiser = tf.keras.optimizers.Adam(3e-3)
    variables = list(model.trainable_variables)
    optimiser.build(variables)

    @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]
    def step(a: Any, b: Any, wanted: Any) -> None:
        with tf.GradientTape() as tape:
            scores = model.scores(model.household(a, b)) * 12.0
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(wanted, scores + model.popularity))
        optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    rng = np.random.default_rng(3)
    for _ in range(EPOCHS):
        order = rng.permutation(len(profile))
        for i in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[i : i + BATCH]
            step(profile[rows], history[rows], target[rows])
    return model


def build(tf: Any, data: Dataset, profile: Any) -> Any:
    """The untrained module. ``profile`` (rows, profile) gives the scale of the inputs."""
    products = data.sizes["product"]
    start = tf.random_normal_initializer(stddev=0.1, seed=5)
    mean, scale = profile.mean(axis=0), profile.std(axis=0) + 1e-2

    class TwoTower(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.product = tf.Variable(start([products, WIDTH]), name="product")
            self.category = tf.Variable(start([data.sizes["category"], WIDTH]), name="category")
            self.hidden = tf.Variable(start([profile.shape[1] + WIDTH, 64]), name="hidden")
            self.hidden_bias = tf.Variable(tf.zeros([64]), name="hidden_bias")
            self.top = tf.Variable(start([64 + WIDTH, WIDTH]), name="top")
            self.popularity = tf.Variable(tf.zeros([products]), name="popularity")
            self.category_of = tf.constant(data.catalogue.category)
            self.mean, self.scale = tf.constant(mean), tf.constant(scale)

        def products(self) -> Any:
            """Product tower: (products, WIDTH), unit length."""
            return tf.math.l2_normalize(self.product + tf.gather(self.category, self.category_of), axis=1)

        def household(self, profile: Any, history: Any) -> Any:
            """Household tower: (rows, WIDTH), unit length."""
            there = tf.cast(history > 0, tf.float32)[:, :, None]
            recent = tf.gather(self.product + tf.gather(self.category, self.category_of), history) * there
            mean = tf.reduce_sum(recent, axis=1) / tf.maximum(tf.reduce_sum(there, axis=1), 1.0)
            seen = tf.concat([(profile - self.mean) / self.scale, mean], axis=1)
            hidden = tf.nn.relu(tf.matmul(seen, self.hidden) + self.hidden_bias)
            return tf.math.l2_normalize(tf.matmul(tf.concat([hidden, mean], axis=1), self.top), axis=1)

        def scores(self, embedding: Any) -> Any:
            """Cosine with every product: (rows, products)."""
            return tf.matmul(embedding, self.products(), transpose_b=True)

        @tf.function(  # type: ignore[untyped-decorator]
            input_signature=[
                tf.TensorSpec([None, profile.shape[1]], tf.float32, name="profile"),
                tf.TensorSpec([None, HISTORY], tf.int64, name="history"),
            ]
        )
        def serve(self, profile: Any, history: Any) -> dict[str, Any]:
            """The signature: the household's embedding, and the best scores of the catalogue, highest first."""
            embedding = self.household(profile, history)
            scores = self.scores(embedding) + self.popularity / 12.0
            best = tf.math.top_k(scores[:, 1:], k=TOP, sorted=True)
            return {"embedding": embedding, "top_scores": best.values}

    return TwoTower()


def save(model: Any, folder: Path) -> None:
    """Write the SavedModel with the single signature `serving_default`."""
    import tensorflow as tf

    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.serve})


def predict(model: Any, profile: Any, history: Any) -> dict[str, Any]:
    """Outputs of the signature as numpy arrays."""
    return {name: value.numpy() for name, value in model.serve(profile, history).items()}


def measure(model: Any, data: Dataset, snap: Snapshot) -> dict[str, Any]:
    """Recall@50 of the next six weeks' products, overall and per shelf, beside the best sellers' recall."""
    held_out = households(data, snap, seed=0)
    scores = model.scores(model.household(held_out.profile, held_out.history)).numpy() + model.popularity.numpy() / 12.0
    scores[:, 0] = -np.inf
    top = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
    truth = [np.flatnonzero(t) for t in held_out.target]
    best = np.argsort(-snap.popularity, kind="stable")[:TOP]
    shelf = np.array(data.catalogue.shelf)
    departments = {}
    for name in sorted(set(shelf[1:])):
        mine = [t[shelf[t] == name] for t in truth]
        if sum(map(len, mine)) >= 100:
            departments[str(name)] = {"recall_at_50": quality.recall_at_k(mine, top), "purchases": sum(map(len, mine))}
    return {
        "recall_at_50": quality.recall_at_k(truth, top),
        "recall_at_50_of_best_sellers": quality.recall_at_k(truth, np.tile(best, (len(truth), 1))),
        "by_department": departments,
    }
