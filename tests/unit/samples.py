"""A small valid spec that tests change in one place."""

from __future__ import annotations

import copy
from typing import Any

import yaml

from release_tasks.spec import ReleaseSpec, parse_spec

SPEC: dict[str, Any] = {
    "schema_version": 1,
    "name": "shop",
    "models": [
        {
            "name": "ranker",
            "framework": "onnx",
            "source": "models/ranker/model.onnx",
            "golden": "golden/ranker.npz",
            "inputs": [{"name": "features", "shape": [4]}],
            "outputs": [{"name": "score", "shape": [1]}],
            "sla_ms": 100,
        }
    ],
    "serving": {"triton_release": "24.12"},
    "regression": {"approvers": ["alice"]},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The sample with one value replaced; `path` is dotted, digits index lists."""
    spec = copy.deepcopy(SPEC)
    *parents, last = path.split(".")
    place: Any = spec
    for part in parents:
        place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
    place[int(last) if last.isdigit() else last] = value
    return spec


def as_spec(raw: dict[str, Any]) -> ReleaseSpec:
    """Parse a raw mapping the way a file is parsed."""
    return parse_spec(yaml.safe_dump(raw))
