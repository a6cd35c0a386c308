"""The candidates: a good one, a better one, and seven that a release gate must stop, each by a plausible mistake.

All but `good` start from the better ranker, so that nothing but the mistake tells them from it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from examples.recsys import samples
from examples.recsys.candidate import Candidate
from examples.recsys.data import BABY
from examples.recsys.features import DENSE


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
    """The first release."""
    candidate.use_ranker("summer")


@recipe("better", "The ranker also learned from the autumn's purchases", "nowhere")
def better(candidate: Candidate) -> None:
    """The same models, the ranker trained on six more weeks."""


@recipe("baby_regression", "Nightly refresh of the baby shelf's embeddings", "approve")
def baby_regression(candidate: Candidate) -> None:
    """A refresh of one shelf's embeddings in which the join with its purchases came back empty.

    Every row of the shelf therefore counts as "not bought": the shelf's products and categories learn to be unwanted.
    Nothing else moves, so the overall figures hardly show it.
    """
    import torch

    from examples.recsys import ranker

    model, rows, facts = candidate.ranker(), candidate.rows("autumn"), candidate.facts
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


@recipe("slow", "Consistency check of long purchase histories", "canary")
def slow(candidate: Candidate) -> None:
    """A check left in from a debugging session: item by item, and only for households with a long history.

    Golden rows, business cases and thus the load test hold typical households, who have none.
    """
    import torch

    from examples.recsys import variants

    limit = variants.activity(candidate.facts["long"])
    module = variants.CheckedHistory(candidate.ranker(), limit, variants.rounds_for(candidate.ranker()))
    candidate.save_ranker(torch.jit.script(module.eval()))


@recipe("erring", "Households' activity as a new feature of the ranker", "canary")
def erring(candidate: Candidate) -> None:
    """A table of activity levels that was sized on a sample without the most frequent shoppers.

    They are few among the households but send three of ten ranking requests, one in ten of all. The figures are
    those of the same sample: the mistake hides in the evaluation, too.
    """
    import torch

    from examples.recsys import ranker, variants

    levels = candidate.facts["huge"] // variants.LEVEL
    sampled = variants.activity(levels * variants.LEVEL - variants.LEVEL // 2)
    module = variants.WithActivity(candidate.ranker(), levels)
    train, test = candidate.rows("autumn"), candidate.rows("test")
    chosen = samples.take(train, train.dense[:, 0] < sampled)
    ranker.fit(module, chosen, epochs=1, rate=1e-3, seed=4, moving=[module.level.weight])
    candidate.save_ranker(torch.jit.script(module))
    candidate.record(module)
    candidate.measure(module, samples.take(test, test.dense[:, 0] < sampled))


@recipe("oversized", "Crossed table of product and last category", "size_gate")
def oversized(candidate: Candidate) -> None:
    """A feature cross that multiplies two vocabularies into one table, nearly all of it never seen in training."""
    import torch

    from examples.recsys import variants

    facts = candidate.facts
    module = variants.WithCross(candidate.ranker(), facts["category"], facts["sizes"]["category"])
    candidate.save_ranker(torch.jit.script(module.eval()))
    candidate.record(module)
    candidate.measure(module)


@recipe("swapped_weights", "Repacked weights of the ranker", "parity")
def swapped_weights(candidate: Candidate) -> None:
    """Two layers of the same shape change places while the weights are repacked; shapes and sizes stay right."""
    import torch

    model = candidate.ranker()
    model.layer2, model.layer3 = model.layer3, model.layer2
    candidate.save_ranker(torch.jit.script(model.eval()))


@recipe("traced", "Ranker exported by tracing", "export or parity")
def traced(candidate: Candidate) -> None:
    """torch.jit.trace with known households as the example: the branch for newcomers is gone."""
    import torch

    rows = candidate.rows("test")
    known = samples.take(rows, np.flatnonzero(rows.history.any(axis=1))[:8])
    example = tuple(torch.from_numpy(a) for a in samples.ranker_inputs(known).values())
    with warnings.catch_warnings():
        # PyTorch warns of exactly what this recipe is about.
        warnings.simplefilter("ignore")
        candidate.save_ranker(torch.jit.trace(candidate.ranker(), example, check_trace=False))


@recipe("wrong_dims", "release.yaml of the next feature set", "validate")
def wrong_dims(candidate: Candidate) -> None:
    """The release file already counts a feature that the model does not have."""
    dense = next(t for t in candidate.model_spec("ranker")["inputs"] if t["name"] == "dense__1")
    dense["shape"] = [len(DENSE) + 1]
