"""The plan of a release."""

from __future__ import annotations

import pytest

from release_tasks.errors import RuntimeMismatch
from release_tasks.plan import render_plan
from release_tasks.stages import STAGES
from tests.unit.samples import SPEC, as_spec, changed


def test_plan_names_every_stage_in_order() -> None:
    text = render_plan(as_spec(SPEC))
    places = [text.index(f" {stage}: ") for stage in STAGES]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("models.0.size_budget_mb", 77, "ranker 77 MiB"),
        ("models.0.max_batch_size", 16, "batches of 1, 2, 16"),
        ("regression.approvers", ["carol"], "carol answers"),
        ("canary.weights", [10, 100], "10 % -> 100 %"),
        ("load_test.soak_s", 42, "42 s soak"),
        ("serving.triton_release", "24.10", "Triton 24.10: server 2.51.0"),
    ],
)
def test_plan_shows_the_specs_numbers(path: str, value: object, words: str) -> None:
    assert words not in render_plan(as_spec(SPEC))
    assert words in render_plan(as_spec(changed(path, value)))


def test_plan_of_an_impossible_release_is_refused() -> None:
    raw = changed("models.0.framework", "tensorflow")
    raw["serving"]["triton_release"] = "26.01"
    with pytest.raises(RuntimeMismatch):
        render_plan(as_spec(raw))
