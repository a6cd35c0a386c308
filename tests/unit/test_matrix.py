"""The Triton version matrix."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from release_tasks.errors import RuntimeMismatch
from release_tasks.spec.matrix import check_runtime, releases_with, triton_release, triton_releases
from release_tasks.spec.model import Backend
from tests.unit.samples import as_spec, changed

SHARED = Path(__file__).resolve().parents[3] / "shared" / "facts" / "triton-matrix.yaml"


def test_matrix_agrees_with_the_collected_facts() -> None:
    if not SHARED.exists():
        pytest.skip(f"{SHARED} is not on this machine")
    facts = {r["release"]: r for r in yaml.safe_load(SHARED.read_text())["releases"]}
    assert [r.release for r in triton_releases()] == list(facts)
    for ours in triton_releases():
        fact = facts[ours.release]
        driver = fact["ngc_min_driver"] or {}
        assert ours.server == fact["server_version"]
        assert (Backend.tensorflow in ours.backends) is fact["tensorflow_backend"]
        assert str(fact["cuda"]["v"]).startswith(ours.cuda)
        assert ours.min_driver == driver.get("v")
        assert ours.python == fact["python"]


def test_releases_are_in_order_and_differ() -> None:
    names = [r.release for r in triton_releases()]
    assert names == sorted(set(names))


def test_tensorflow_ends_with_25_02() -> None:
    assert releases_with(frozenset({Backend.tensorflow}))[-1] == "25.02"


def test_missing_backend_says_which_releases_would_do() -> None:
    raw = changed("models.0.framework", "tensorflow")
    raw["serving"]["triton_release"] = "25.03"
    with pytest.raises(RuntimeMismatch, match=r"no `tensorflow` backend.*models\.ranker[\s\S]*23\.07 to 25\.02"):
        check_runtime(as_spec(raw))


def test_unknown_release_is_refused() -> None:
    with pytest.raises(RuntimeMismatch, match="not in the version matrix"):
        triton_release("19.01")
