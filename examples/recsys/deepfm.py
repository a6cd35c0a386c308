"""DeepFM (Guo et al., 2017) in PyTorch, with a branch for households without history.

No postponed annotations here: TorchScript reads them.
"""

import torch
from torch import Tensor, nn

WIDTH = 12  # of an embedding
HIDDEN = 48  # of each layer of the deep part


class DeepFM(nn.Module):  # type: ignore[misc]
    """Chance that a household buys a product.

    Args:
        sizes: number of values per categorical field, in the order of ``ids``.
        dense: number of real-valued features.
        mean: their means over the training rows, (dense,).
        scale: their standard deviations, (dense,).
    """

    def __init__(self, sizes: list[int], dense: int, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0)
        self.register_buffer("offsets", offsets)
        self.register_buffer("mean", mean.float())
        self.register_buffer("scale", scale.float())
        self.embedding = nn.Embedding(sum(sizes), WIDTH)
        self.bias = nn.Embedding(sum(sizes), 1)
        self.projection = nn.Linear(dense, WIDTH)
        self.linear = nn.Linear(dense, 1)
        self.taste = nn.Linear(WIDTH, WIDTH)
        self.newcomer = nn.Parameter(torch.zeros(WIDTH))
        self.layer1 = nn.Linear((len(sizes) + 1) * WIDTH + dense, HIDDEN)
        self.layer2 = nn.Linear(HIDDEN, HIDDEN)
        self.layer3 = nn.Linear(HIDDEN, HIDDEN)
        self.top = nn.Linear(HIDDEN, 1)
        self.dropout = nn.Dropout(0.1)
        nn.init.normal_(self.embedding.weight, std=0.05)
        nn.init.zeros_(self.bias.weight)

    def from_history(self, history: Tensor) -> Tensor:
        """Mean embedding of the products last bought: (rows, HISTORY) product indices -> (rows, WIDTH)."""
        there = history.gt(0).unsqueeze(2).float()
        total = (self.embedding(history) * there).sum(dim=1)
        return torch.tanh(self.taste(total / there.sum(dim=1))) + total / there.sum(dim=1)

    def household(self, history: Tensor) -> Tensor:
        """(rows, WIDTH). Rows without history take another path: there is nothing to average."""
        known = history.gt(0).any(dim=1)
        if bool(known.all()):
            return self.from_history(history)
        taste = self.newcomer.expand(history.size(0), self.newcomer.size(0)).clone()
        if bool(known.any()):
            rows = known.nonzero().squeeze(1)
            taste = taste.index_copy(0, rows, self.from_history(history[rows]))
        return taste

    def logits(self, ids: Tensor, dense: Tensor, history: Tensor) -> Tensor:
        """(rows, 1)."""
        place = ids + self.offsets
        values = (dense - self.mean) / self.scale
        fields = self.embedding(place)
        taste = self.household(history)
        vectors = torch.cat([fields, self.projection(values).unsqueeze(1), taste.unsqueeze(1)], dim=1)
        # Pairwise interactions in linear time: half of (square of sum - sum of squares).
        pairwise = 0.5 * (vectors.sum(dim=1).square() - vectors.square().sum(dim=1)).sum(dim=1, keepdim=True)
        deep = torch.cat([fields.flatten(1), taste, values], dim=1)
        deep = self.dropout(torch.relu(self.layer1(deep)))
        deep = torch.relu(self.layer2(deep))
        deep = self.top(torch.relu(self.layer3(deep)))
        return self.bias(place).sum(dim=1) + self.linear(values) + pairwise + deep

    def forward(self, ids: Tensor, dense: Tensor, history: Tensor) -> Tensor:
        """Probabilities, (rows, 1).

        Args:
            ids: int64 (rows, fields).
            dense: float32 (rows, dense).
            history: int64 (rows, HISTORY), product indices, 0 = none.
        """
        return torch.sigmoid(self.logits(ids, dense, history))
