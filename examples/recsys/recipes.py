"""The candidates: a good one, a better one, and seven that a release gate must stop, each by a plausible mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.recsys import samples
from examples.recsys.base import load_golden, save_golden
from examples.recsys.data import BABY


@dataclass
class Candidate:
    """A candidate in the making: a copy of the base that a recipe changes.

    Attributes:
        base: folder of the base, read only.
        folder: folder of the candidate.
        spec: content of release.yaml.
        quality: figures per model.
    """

    base: Path
    folder: Path
    spec: dict[str, Any]
    quality: dict[str, Any]

    @property
    def facts(self) -> dict[str, Any]:
        """What the base knows of the data: sizes, shelves, lengths of history."""
        facts: dict[str, Any] = json.loads((self.base / "facts.json").read_text())
        return facts

    def model_spec(self, name: str) -> dict[str, Any]:
        """The part of release.yaml that describes a model."""
        found: dict[str, Any] = next(m for m in self.spec["models"] if m["name"] == name)
        return found

    def rows(self, name: str) -> samples.Pairs:
        """Prepared rows: `summer`, `autumn` (training) or `test` (held out)."""
        return samples.restore(self.base / f"{name}.npz")

    def ranker(self) -> Any:
        """The base ranker in PyTorch."""
        from examples.recsys import ranker

        model = ranker.create(self.facts["sizes"], self.rows("summer"))
        return ranker.restore(model, (self.base / "ranker.weights").read_bytes())

    def save_ranker(self, script: Any) -> None:
        """Write the TorchScript module that is released."""
        from examples.recsys import ranker

        (self.folder / "models" / "ranker" / "model.pt").write_bytes(ranker.archive(script))

    def record(self, model: Any) -> None:
        """Record the golden outputs of the ranker in PyTorch."""
        from examples.recsys import ranker

        inputs, _ = load_golden(self.base, "ranker")
        save_golden(self.folder, "ranker", inputs, {ranker.OUTPUT: ranker.predict(model, inputs)})

    def measure(self, model: Any, rows: samples.Pairs | None = None) -> None:
        """Measure the ranker, on the held-out rows unless others are given."""
        from examples.recsys import ranker

        self.quality["ranker"] = ranker.measure(model, rows or self.rows("test"), self.facts["shelf"])


@dataclass(frozen=True)
class Recipe:
    """How a candidate comes about."""

    title: str
    stopped_at: str
    apply: Callable[[Candidate], None]


RECIPES: dict[str, Recipe] = {}


def recipe(name: str, title: str, stopped_at: str) -> Callable[[Callable[[Candidate], None]], Callable[..., None]]:
    """Register a recipe. ``stopped_at`` names the stage that should stop it, or says that none should."""

    def register(apply: Callable[[Candidate], None]) -> Callable[..., None]:
        RECIPES[name] = Recipe(title, stopped_at, apply)
        return apply

    return register


@recipe("good", "Trained on purchases up to the end of summer", "nowhere")
def good(candidate: Candidate) -> None:
    """The base, unchanged."""


@recipe("better", "The ranker also learned from the autumn's purchases", "nowhere")
def better(candidate: Candidate) -> None:
    """Go on training with six newer weeks, the learning rate falling."""
    import torch

    from examples.recsys import ranker

    model, autumn = candidate.ranker(), candidate.rows("autumn")
    ranker.fit(model, autumn, epochs=1, seed=1)
    ranker.fit(model, samples.join([candidate.rows("summer"), autumn]), epochs=1, rate=4e-4, seed=2)
    candidate.save_ranker(torch.jit.script(model))
    candidate.record(model)
    candidate.measure(model)


@recipe("baby_regression", "Nightly refresh of the baby shelf's embeddings", "approve")
def baby_regression(candidate: Candidate) -> None:
    """A refresh of one shelf's embeddings in which the join with its purchases came back empty.

    Every row of the shelf therefore counts as "not bought": the shelf's products and categories learn to be unwanted.
    Nothing else moves, so the overall figures hardly show it.
    """
    import numpy as np
    import torch

    from examples.recsys import ranker

    model, rows = candidate.ranker(), candidate.rows("autumn")
    facts = candidate.facts
    shelf = np.flatnonzero(np.asarray(facts["shelf"]) == BABY)
    refreshed = samples.take(rows, np.isin(rows.product, shelf))
    refreshed.label[:] = 0
    entries = np.concatenate([shelf, facts["sizes"]["product"] + np.unique(np.asarray(facts["category"])[shelf])])
    mask = torch.zeros(model.bias.weight.shape[0], 1)
    mask[torch.from_numpy(entries)] = 1
    moving = [model.embedding.weight, model.bias.weight]
    hooks = [p.register_hook(lambda gradient: gradient * mask) for p in moving]
    ranker.fit(model, refreshed, epochs=4, rate=5e-2, seed=3, moving=moving)
    for hook in hooks:
        hook.remove()
    candidate.save_ranker(torch.jit.script(model))
    candidate.record(model)
    candidate.measure(model)
