"""release.yaml of the recommender."""

from __future__ import annotations

from typing import Any

import yaml

from examples.recsys.features import DENSE, HISTORY, IDS
from examples.recsys.retriever import TOP, WIDTH


def spec(profile: int, description: str) -> dict[str, Any]:
    """The spec as a mapping, to be changed by a recipe. ``profile`` is the width of the retriever's profile."""
    return {
        "schema_version": 1,
        "name": "recsys",
        "description": description,
        "promote": "immediately",
        "models": [_retriever(profile), _coarse_ranker(), _ranker()],
        "serving": {"triton_release": "24.12", "resources": {"cpu": 2, "memory_gb": 4}},
        # A short profile for a laptop; the policy below likewise trades certainty for minutes.
        "load_test": {"users": 6, "requests_per_user_s": 4, "baseline_s": 2, "ramp_s": 3, "soak_s": 6},
        "canary": {
            "weights": [5, 50, 100],
            "min_bake_s": 8,
            "poll_s": 1,
            "deadline_s": 150,
            "lease_s": 20,
            "alpha": 0.01,
            "beta": 0.05,
            "max_error_share": 0.05,
            "max_slow_share": 0.10,
        },
        "regression": {"cases": "cases.json", "approvers": ["alice"], "timeout_s": 3600, "max_drop": 0.2},
    }


def text(content: dict[str, Any]) -> str:
    """The file's text."""
    return yaml.safe_dump(content, sort_keys=False, width=120)


def _retriever(profile: int) -> dict[str, Any]:
    return {
        "name": "retriever",
        "framework": "tensorflow",
        "source": "models/retriever/saved_model",
        "golden": "golden/retriever.npz",
        "inputs": [_tensor("profile", "FP32", profile), _tensor("history", "INT64", HISTORY)],
        "outputs": [_tensor("embedding", "FP32", WIDTH), _tensor("top_scores", "FP32", TOP)],
        "sla_ms": 50,
        "size_budget_mb": 64,
        "max_batch_size": 64,
        "export": {"signature": "serving_default"},
        "config": {"priority": 1},
    }


def _coarse_ranker() -> dict[str, Any]:
    return {
        "name": "coarse_ranker",
        "framework": "lightgbm",
        "source": "models/coarse_ranker/model.txt",
        "golden": "golden/coarse_ranker.npz",
        "inputs": [_tensor("features", "FP32", len(DENSE))],
        "outputs": [_tensor("probabilities", "FP32", 2)],
        "sla_ms": 100,
        "size_budget_mb": 64,
        "max_batch_size": 64,
        "typical_batch_size": 20,
        "config": {"priority": 2},
    }


def _ranker() -> dict[str, Any]:
    inputs = [_tensor("ids__0", "INT64", len(IDS)), _tensor("dense__1", "FP32", len(DENSE))]
    return {
        "name": "ranker",
        "framework": "pytorch",
        "source": "models/ranker/model.pt",
        "golden": "golden/ranker.npz",
        "inputs": [*inputs, _tensor("history__2", "INT64", HISTORY)],
        "outputs": [_tensor("score__0", "FP32", 1)],
        "sla_ms": 150,
        "size_budget_mb": 64,
        "max_batch_size": 64,
        "typical_batch_size": 20,
        "config": {"priority": 2},
    }


def _tensor(name: str, dtype: str, size: int) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": [size]}
