"""Counters of the traffic replay, and the file that others read them from."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from release_tasks.workspace import write_atomic

# Latencies kept per model: the percentiles are of the last few minutes, and memory stays bounded.
KEPT = 5000


class TrafficStats:
    """Counts answers by model, slot and failure kind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.started = _now()
        self.by_slot: Counter[str] = Counter()
        self.by_model: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.failed_by_slot: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.latency: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))

    def count(self, model: str, slot: str, failure: str | None, elapsed_ms: float) -> None:
        """Add one answer. ``failure`` is None, `invalid`, `status:<code>` or `transport:<error>`."""
        self.by_slot[slot] += 1
        self.by_model[model]["requests"] += 1
        self.latency[model].append(elapsed_ms)
        if failure is not None:
            self.failures[failure] += 1
            self.failed_by_slot[slot] += 1
            self.by_model[model]["invalid" if failure == "invalid" else "failed"] += 1

    def content(self) -> dict[str, Any]:
        """The file's content. `failed` leaves out `invalid`: answers with status 200 that are no use."""
        invalid = self.failures["invalid"]
        return {
            "requests": self.by_slot.total(),
            "failed": self.failures.total() - invalid,
            "invalid": invalid,
            "by_slot": dict(self.by_slot),
            "failed_by_slot": dict(self.failed_by_slot),
            "by_model": {m: {k: c[k] for k in ("requests", "failed", "invalid")} for m, c in self.by_model.items()},
            "failures": {kind: n for kind, n in self.failures.items() if n},
            "latency_ms": {model: _percentiles(values) for model, values in self.latency.items()},
            "started": self.started,
            "updated": _now(),
        }

    def write(self) -> None:
        """Replace the file at once, so that a reader never sees a part."""
        write_atomic(self.path, json.dumps(self.content()))


def _percentiles(values: deque[float]) -> dict[str, float]:
    p50, p95 = np.percentile(list(values), [50, 95])
    return {"p50": round(float(p50), 2), "p95": round(float(p95), 2)}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
