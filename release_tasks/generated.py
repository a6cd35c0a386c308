"""Input rows made from golden ones, to ask what golden rows alone do not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensor = NDArray[Any]
GENERATED_ROWS = 64


def generated_rows(inputs: dict[str, Tensor], rows: int = GENERATED_ROWS, seed: int = 0) -> dict[str, Tensor]:
    """Rows inside and at the bounds of the range seen in ``inputs``, element by element.

    The first two rows are the lower and the upper bound of everything; the others mix values drawn uniformly from the
    range with golden values of other rows, so that inputs meet that never met. Arrays keep shape, type and range. A
    place that only ever held whole numbers is drawn in whole numbers: it may be a category, which has nothing between.
    """
    random = np.random.default_rng(seed)
    made: dict[str, Tensor] = {}
    for name, array in inputs.items():
        low, high = array.min(axis=0), array.max(axis=0)
        drawn = _uniform(random, array, rows)
        golden = array[random.integers(0, len(array), rows)]
        keep = random.random(rows) < 0.5
        mixed = np.where(keep.reshape(-1, *[1] * (array.ndim - 1)), golden, drawn).astype(array.dtype)
        made[name] = np.concatenate([low[None], high[None], mixed]).astype(array.dtype)
    return made


def _uniform(random: np.random.Generator, array: Tensor, rows: int) -> Tensor:
    low, high, dtype = array.min(axis=0), array.max(axis=0), array.dtype
    share = random.random((rows, *low.shape))
    if dtype == np.bool_:
        flags: Tensor = np.where(share < 0.5, low, high)
        return flags
    wide_low, wide_high = low.astype(np.float64), high.astype(np.float64)
    drawn = wide_low + share * (wide_high - wide_low)
    drawn = np.where((np.rint(array) == array).all(axis=0), np.rint(drawn), drawn)
    clipped: Tensor = np.clip(drawn.astype(dtype), low, high)
    return clipped
