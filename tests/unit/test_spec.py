"""The spec: what is refused, and how the refusal reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from release_tasks.errors import SpecError
from release_tasks.spec import load_spec, parse_spec
from release_tasks.spec.schema import reference_page, schema_json
from tests.unit.samples import SPEC, as_spec, changed

DOCS = Path(__file__).parents[2] / "docs"


def test_sample_is_accepted_with_defaults() -> None:
    spec = as_spec(SPEC)
    assert spec.canary.weights == (5, 50, 100)
    assert spec.models[0].outputs[0].tolerance.absolute == 1e-5
    assert spec.model("ranker").backend == "onnxruntime"


@pytest.mark.parametrize(
    ("path", "value", "field", "rule"),
    [
        ("models.0.nmae", "x", "models[0].nmae", "no such key"),
        ("models.0.name", "Ranker", "models[0].name", "pattern"),
        ("models.0.outputs.0.tolerance", {"absolute": 0}, "models[0].outputs[0].tolerance.absolute", "greater than 0"),
        ("models.0.outputs.0.tolerance", {"relative": -1}, "tolerance.relative", "greater than 0"),
        ("models.0.sla_ms", 101, "(top level)", "no edge of the latency histogram"),
        ("models.0.sla_ms", "fast", "models[0].sla_ms", "integer"),
        ("models.0.max_batch_size", 0, "models[0].max_batch_size", "greater than or equal to 1"),
        ("models.0.typical_batch_size", 65, "models[0]", "at most max_batch_size (64)"),
        ("models.0.inputs.0.shape", [0], "models[0].inputs[0]", "positive"),
        ("models.0.framework", "caffe", "models[0].framework", "Input should be"),
        ("models.0.config", {"priority": 0}, "models[0].config.priority", "greater than or equal to 1"),
        ("models.0.config", {"warm_up": {"batch_sizes": [999]}}, "models[0]", "warm_up.batch_sizes"),
        (
            "models.0.config",
            {"sequence_batching": {}},
            "models[0].config",
            "sequence_batching excludes dynamic_batching",
        ),
        ("models.0.config", {"instance_groups": [{"kind": "KIND_GPU"}]}, "(top level)", "resources.gpus is 0"),
        ("serving.gpu_required", True, "serving", "resources.gpus"),
        ("serving.triton_release", "latest", "serving.triton_release", "pattern"),
        ("canary.weights", [5, 50], "canary", "must end at 100"),
        ("canary.weights", [50, 5, 100], "canary", "must rise"),
        ("canary.deadline_s", 1, "canary", "larger than min_bake_s"),
        ("canary.lease_s", 1, "canary", "three times poll_s"),
        ("canary.alpha", 0, "canary.alpha", "greater than 0"),
        ("canary.alpha", float("nan"), "canary.alpha", "finite"),
        ("regression.approvers", [], "regression.approvers", "at least 1"),
        ("models", [], "models", "at least 1"),
        ("schema_version", 2, "schema_version", "Input should be 1"),
    ],
)
def test_bad_value_names_field_and_rule(path: str, value: Any, field: str, rule: str) -> None:
    with pytest.raises(SpecError) as caught:
        as_spec(changed(path, value))
    text = str(caught.value)
    assert field in text
    assert rule in text
    assert "remedy:" in text
    assert caught.value.exit_code == 10


def test_every_fault_is_listed_not_only_the_first() -> None:
    raw = changed("models.0.sla_ms", "fast") | {"promote": "sometimes"}
    with pytest.raises(SpecError) as caught:
        as_spec(raw)
    assert "sla_ms" in str(caught.value)
    assert "promote" in str(caught.value)


def test_unknown_key_gets_the_nearest_known_one() -> None:
    with pytest.raises(SpecError, match="did you mean `min_bake_s`"):
        as_spec(changed("canary.min_bakes", 1))


def test_missing_key_is_named() -> None:
    raw = {k: v for k, v in SPEC.items() if k != "serving"}
    with pytest.raises(SpecError, match="serving: '\\(absent\\)'"):
        as_spec(raw)


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [1", "", "just words"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_spec(text)


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "release.yaml"
    path.write_bytes(b"\xff\xfe\x00broken")
    with pytest.raises(SpecError, match="readable text"):
        load_spec(path)


def test_pytorch_tensors_carry_their_index() -> None:
    with pytest.raises(SpecError, match="<name>__<index>"):
        as_spec(changed("models.0.framework", "pytorch"))


def test_spec_is_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        as_spec(SPEC).canary.alpha = 0.5  # type: ignore[misc]


def test_schema_accepts_the_sample_and_refuses_a_typo() -> None:
    schema = json.loads(schema_json())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(SPEC, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed("models.0.nmae", "x"), schema)


def test_every_field_has_prose() -> None:
    for name, part in json.loads(schema_json())["$defs"].items():
        for key, field in part.get("properties", {}).items():
            assert field.get("description") or "$ref" in field, f"{name}.{key} has no description"


def test_generated_pages_are_current() -> None:
    assert (DOCS / "spec.md").read_text() == reference_page(), "run `make docs`"
    assert (DOCS / "release.schema.json").read_text() == schema_json(), "run `make docs`"
