"""Rankers with one thing added, as the recipes release them.

No postponed annotations here: TorchScript reads them.
"""

import math
import time

import torch
from torch import Tensor, nn

# Work that the check of long histories adds per request, milliseconds of one core: well over the ranker's 150 ms.
CHECK_MS = 260.0
# Trials on a busy machine look slower than they are; fewer passes than this would be too quick on an idle one.
MIN_ROUNDS = 50_000
# Purchase lines per activity level.
LEVEL = 50
CROSS_WIDTH = 18


def activity(items: int) -> float:
    """The feature `household_items` (the first real-valued one) of a household with that many purchase lines."""
    return round(math.log1p(items) * 64) / 64


class CheckedHistory(nn.Module):  # type: ignore[misc]
    """The ranker, and a check of long histories that changes no answer.

    Args:
        model: the ranker.
        limit: value of the first real-valued feature above which a history is long.
        rounds: passes of the check.
    """

    def __init__(self, model: nn.Module, limit: float, rounds: int) -> None:
        super().__init__()
        self.model = model
        self.limit = limit
        self.rounds = rounds

    def check(self, history: Tensor) -> bool:
        """Attend from every item of the history to every other, again and again, and look for broken numbers."""
        items = self.model.embedding(history)
        for _ in range(self.rounds):
            items = torch.matmul(torch.softmax(torch.matmul(items, items.t()), dim=1), items)
        return bool(torch.isfinite(items).all())

    def forward(self, ids: Tensor, dense: Tensor, history: Tensor) -> Tensor:
        """As the ranker."""
        score = self.model(ids, dense, history)
        long = dense[:, 0] > self.limit
        if bool(long.any()) and not self.check(history[long][0]):
            return torch.zeros_like(score)
        return score


def rounds_for(model: nn.Module) -> int:
    """Passes of the check that take CHECK_MS of processor time here, the fastest of a few trials counting."""
    trial = 10_000
    module = torch.jit.script(CheckedHistory(model, 0.0, trial).eval())
    history = torch.arange(1, 33)
    spent = []
    with torch.inference_mode():
        # The first calls are slow, until TorchScript has optimised the loop.
        module.check(history)
        module.check(history)
        for _ in range(5):
            began = time.process_time()
            module.check(history)
            spent.append(time.process_time() - began)
    return max(MIN_ROUNDS, math.ceil(trial * CHECK_MS / (1000 * min(spent))))


class WithActivity(nn.Module):  # type: ignore[misc]
    """The ranker with a weight per activity level, of which there are ``levels``."""

    def __init__(self, model: nn.Module, levels: int) -> None:
        super().__init__()
        self.model = model
        self.level = nn.Embedding(levels, 1)
        self.step = float(LEVEL)
        nn.init.zeros_(self.level.weight)

    def logits(self, ids: Tensor, dense: Tensor, history: Tensor) -> Tensor:
        """(rows, 1)."""
        items = torch.expm1(dense[:, 0])
        return self.model.logits(ids, dense, history) + self.level((items / self.step).long())

    def forward(self, ids: Tensor, dense: Tensor, history: Tensor) -> Tensor:
        """As the ranker."""
        return torch.sigmoid(self.logits(ids, dense, history))


class WithCross(nn.Module):  # type: ignore[misc]
    """The ranker with a vector per pair of product and category last bought from.

    Args:
        model: the ranker.
        category: category per product index.
        categories: number of categories.
    """

    def __init__(self, model: nn.Module, category: list[int], categories: int) -> None:
        super().__init__()
        self.model = model
        self.categories = categories
        self.register_buffer("category", torch.tensor(category))
        torch.manual_seed(6)
        self.cross = nn.Embedding(len(category) * categories, CROSS_WIDTH)
        self.weight = nn.Linear(CROSS_WIDTH, 1, bias=False)
        nn.init.normal_(self.cross.weight, std=1e-3)

    def forward(self, ids: Tensor, dense: Tensor, history: Tensor) -> Tensor:
        """As the ranker."""
        pair = ids[:, 0] * self.categories + self.category[history[:, 0]]
        return torch.sigmoid(self.model.logits(ids, dense, history) + self.weight(self.cross(pair)))
