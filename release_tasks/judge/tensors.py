"""Compare two tensors, element by element. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from release_tasks.spec.tensors import Tolerance

Tensor = NDArray[Any]


@dataclass(frozen=True)
class WorstElement:
    """The element that is furthest over, or nearest to, its limit."""

    row: int
    index: tuple[int, ...]
    expected: float
    got: float
    difference: float
    limit: float
    ulp: float

    def __str__(self) -> str:
        return (
            f"row {self.row}, element {list(self.index)}: expected {self.expected:.9g}, got {self.got:.9g}, "
            f"difference {self.difference:.3g}, limit {self.limit:.3g}, {self.ulp:.3g} ulp"
        )


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    Attributes:
        equal_within: every element is finite and within its limit, and there was at least one.
        rows: rows compared.
        bad: elements over their limit or not finite.
        largest: largest finite difference, in units of the output; NaN where nothing could be compared.
        worst: the worst element; None where shapes or types differ or nothing was there.
        fault: why nothing could be compared; empty where it could.
    """

    equal_within: bool
    rows: int
    bad: int
    largest: float
    worst: WorstElement | None
    fault: str = ""

    @property
    def measured(self) -> str:
        """For a report's column `measured`."""
        if self.fault:
            return self.fault
        return f"{self.rows} rows, largest difference {self.largest:.3g}, {self.bad} elements over the limit"


def compare(expected: Tensor, got: Tensor, tolerance: Tolerance) -> Comparison:
    """Compare tensors of shape (rows, ...); ``|got - expected| <= absolute + relative * |expected|`` everywhere.

    NaN and Inf never pass, on either side, not even where both sides agree.
    """
    fault = _fault(expected, got)
    if fault:
        return Comparison(False, len(expected) if expected.ndim else 0, 0, float("nan"), None, fault)
    want, have = expected.astype(np.float64), got.astype(np.float64)
    limit = tolerance.absolute + tolerance.relative * np.abs(want)
    with np.errstate(invalid="ignore"):
        difference = np.abs(have - want)
        finite = np.isfinite(want) & np.isfinite(have)
        within = finite & (difference <= limit)
    # The excess orders elements; what is not finite comes first.
    excess = np.where(finite, difference / limit, np.inf)
    place = np.unravel_index(int(np.argmax(excess)), excess.shape)
    seen = difference[finite]
    return Comparison(
        equal_within=bool(within.all()),
        rows=len(expected),
        bad=int((~within).sum()),
        largest=float(seen.max()) if seen.size else float("nan"),
        worst=WorstElement(
            row=int(place[0]),
            index=tuple(int(i) for i in place[1:]),
            expected=float(want[place]),
            got=float(have[place]),
            difference=float(difference[place]),
            limit=float(limit[place]),
            ulp=_ulp(expected[place], difference[place]),
        ),
    )


def _fault(expected: Tensor, got: Tensor) -> str:
    if expected.shape != got.shape:
        return f"shape {got.shape} where {expected.shape} was expected"
    if expected.dtype != got.dtype:
        return f"type {got.dtype} where {expected.dtype} was expected"
    if expected.size == 0 or expected.ndim == 0:
        return "no element to compare"
    return ""


def _ulp(expected: Any, difference: Any) -> float:
    """The difference in units of the last place of the expected value; the plain difference for integers."""
    if not np.issubdtype(np.asarray(expected).dtype, np.floating):
        return float(difference)
    return float(difference / abs(np.spacing(expected))) if np.isfinite(expected) else float("nan")
