"""LightGBM's model text: the thresholds in it, and what float32 inputs make of them.

LightGBM keeps thresholds as doubles and asks ``x <= threshold``; an ONNX tree keeps them as float32. For a float32 x
and a double t, x <= t holds exactly when x <= t rounded DOWN to float32. Rounding to nearest, as a plain conversion
does, sends the float32 next above such a t to the other branch.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

_LINE = re.compile(r"^(split_feature|threshold|decision_type)=(.*)$", re.MULTILINE)
_CATEGORICAL = 1  # bit of decision_type


def round_down(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 that is not above each threshold."""
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    above = nearest.astype(np.float64) > thresholds
    return np.where(above, np.nextafter(nearest, np.float32(-np.inf)), nearest).astype(np.float32)


def with_float32_thresholds(text: str) -> tuple[str, int]:
    """The model text with every numerical threshold rounded down to float32, and how many were changed.

    ``tree_sizes`` is dropped, because the trees' lengths change; LightGBM then reads tree by tree.
    """
    changed = 0

    def mend(tree: str) -> str:
        nonlocal changed
        found = dict(_LINE.findall(tree))
        if not found.get("threshold"):
            return tree
        values, numerical = _thresholds(found)
        rounded = np.where(numerical, round_down(values).astype(np.float64), values)
        changed += int((rounded != values).sum())
        written = " ".join(repr(float(v)) for v in rounded)
        return re.sub(r"^threshold=.*$", f"threshold={written}", tree, flags=re.MULTILINE)

    head, *trees = re.split(r"(?m)^(?=Tree=\d+$)", re.sub(r"(?m)^tree_sizes=.*\n", "", text))
    return head + "".join(mend(tree) for tree in trees), changed


def split_points(text: str) -> list[tuple[int, float]]:
    """Every numerical split of every tree: feature index and threshold, without repeats, in order."""
    points: set[tuple[int, float]] = set()
    for tree in re.split(r"(?m)^(?=Tree=\d+$)", text)[1:]:
        found = dict(_LINE.findall(tree))
        if found.get("threshold"):
            values, numerical = _thresholds(found)
            features = [int(f) for f in found["split_feature"].split()]
            points.update((f, float(v)) for f, v, n in zip(features, values, numerical, strict=True) if n)
    return sorted(points)


def _thresholds(found: dict[str, str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values = np.array([float(v) for v in found["threshold"].split()])
    numerical = np.array([not int(d) & _CATEGORICAL for d in found["decision_type"].split()])
    return values, numerical
