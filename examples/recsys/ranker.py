"""Train, measure and save the ranker."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch

from examples.recsys import quality
from examples.recsys.deepfm import DeepFM
from examples.recsys.features import DENSE, IDS
from examples.recsys.samples import RANKER_INPUTS, Pairs, ranker_inputs

BATCH = 2048
# One thread: the same sums in the same order everywhere, and threads that wait for each other on a busy machine
# are several times slower than a single one.
torch.set_num_threads(1)
OUTPUT = "score__0"


def create(sizes: dict[str, int], rows: Pairs) -> Any:
    """An untrained ranker; the seed is fixed. ``rows`` give the scale of the real-valued features."""
    torch.manual_seed(20170101)
    mean, scale = rows.dense.mean(axis=0), rows.dense.std(axis=0) + 1e-3
    return DeepFM([sizes[n] for n in IDS], len(DENSE), torch.from_numpy(mean), torch.from_numpy(scale))


def fit(model: Any, rows: Pairs, *, epochs: int, rate: float = 2e-3, seed: int = 0, moving: Any = None) -> None:
    """Minimise the log loss with Adam. ``moving`` holds the parameters that may change; None means all."""
    torch.manual_seed(seed)
    tensors = [torch.from_numpy(a) for a in (rows.ids, rows.dense, rows.history, rows.label)]
    optimiser = torch.optim.Adam(moving or model.parameters(), lr=rate)
    loss_of = torch.nn.BCEWithLogitsLoss()
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(rows.label))
        for chosen in order.split(BATCH):
            ids, dense, history, label = (t[chosen] for t in tensors)
            optimiser.zero_grad()
            loss_of(model.logits(ids, dense, history).squeeze(1), label).backward()
            optimiser.step()
    model.eval()


def predict(model: Any, inputs: dict[str, Any], chunk: int = 8192) -> Any:
    """Scores, float32 (rows, 1)."""
    tensors = [torch.from_numpy(np.ascontiguousarray(inputs[name])) for name in RANKER_INPUTS]
    with torch.inference_mode():
        parts = [model(*part) for part in zip(*(t.split(chunk) for t in tensors), strict=True)]
    return torch.cat(parts).numpy()


def measure(model: Any, rows: Pairs, shelf: Any) -> dict[str, Any]:
    """Quality on held-out rows. ``shelf`` holds a shelf's name per product index."""
    score = predict(model, ranker_inputs(rows))[:, 0]
    return quality.ranking(rows.home, rows.label, score, np.asarray(shelf)[rows.product])


def scripted(model: Any) -> bytes:
    """The TorchScript archive of the model in eval mode."""
    return archive(torch.jit.script(model.eval()))


def archive(script: Any) -> bytes:
    """The bytes of a TorchScript module."""
    buffer = io.BytesIO()
    torch.jit.save(script, buffer)
    return buffer.getvalue()


def dump(model: Any) -> bytes:
    """The weights, to go on from later."""
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    return buffer.getvalue()


def restore(model: Any, weights: bytes) -> Any:
    """Put saved weights into a model of the same shape."""
    model.load_state_dict(torch.load(io.BytesIO(weights), weights_only=True))
    return model.eval()
