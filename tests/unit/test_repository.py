"""config.pbtxt through the protobuf, and one broken repository per lint rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from release_tasks.errors import RepositoryError
from release_tasks.repository.config import Rendering, config_message, parse_config, print_config
from release_tasks.repository.lint import lint
from release_tasks.repository.render import render_model
from release_tasks.repository.rules import RULES
from release_tasks.spec import ModelSpec
from tests.unit.samples import SPEC


def _spec(framework: str = "onnx", **more: Any) -> ModelSpec:
    names = ("x__0", "score__0") if framework == "pytorch" else ("x", "score")
    raw = {
        **SPEC["models"][0],
        "framework": framework,
        "inputs": [{"name": names[0], "shape": [4]}],
        "outputs": [{"name": names[1], "shape": [1]}],
        "max_batch_size": 8,
    }
    return ModelSpec.model_validate({**raw, **more})


def _config(model: ModelSpec) -> Any:
    return parse_config(print_config(config_message(Rendering(model, "model.onnx", "shop-1"))))


def test_six_fields_reach_the_config() -> None:
    config = _config(
        _spec(
            config={
                "dynamic_batching": {
                    "preferred_batch_sizes": [4, 8],
                    "max_queue_delay_us": 700,
                    "queue_policy": {"max_queue_size": 9, "timeout_us": 5000},
                },
                "instance_groups": [{"count": 3}],
                "warm_up": {"batch_sizes": [1, 8]},
                "priority": 2,
                "version_policy": {"latest": 2},
            }
        )
    )
    batching = config.dynamic_batching
    assert config.max_batch_size == 8
    assert list(batching.preferred_batch_size) == [4, 8]
    assert batching.max_queue_delay_microseconds == 700
    assert batching.default_queue_policy.max_queue_size == 9
    assert batching.default_queue_policy.default_timeout_microseconds == 5000
    assert batching.default_queue_policy.timeout_action == 0  # REJECT
    assert config.instance_group[0].count == 3
    assert config.instance_group[0].rate_limiter.priority == 2
    assert [w.batch_size for w in config.model_warmup] == [1, 8]
    assert config.version_policy.latest.num_versions == 2
    assert config.parameters["release_id"].string_value == "shop-1"
    assert list(config.input[0].dims) == [4]


def test_sequence_batching_replaces_dynamic_batching() -> None:
    config = _config(_spec(config={"dynamic_batching": None, "sequence_batching": {"start_input": "BEGIN"}}))
    assert config.WhichOneof("scheduling_choice") == "sequence_batching"
    assert [c.name for c in config.sequence_batching.control_input] == ["BEGIN", "READY"]


def test_signature_of_tensorflow_is_a_parameter() -> None:
    config = _config(_spec("tensorflow", export={"signature": 'em"bed'}))
    assert config.parameters["TF_SIGNATURE_DEF"].string_value == 'em"bed'


def test_broken_template_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "config.pbtxt.j2").write_text("dynamic_batching { max_batch_size: 32 }")
    with pytest.raises(RepositoryError, match="max_batch_size"):
        config_message(Rendering(_spec(), "model.onnx", "r"), tmp_path)


def _repository(root: Path, model: ModelSpec, file_name: str = "model.onnx") -> Path:
    exported = root / "exported" / file_name
    exported.parent.mkdir(parents=True)
    if file_name == "model.savedmodel":
        (exported / "variables").mkdir(parents=True)
        (exported / "saved_model.pb").write_bytes(b"x")
    else:
        exported.write_bytes(b"x")
    row = {t.name: np.ones((1, *t.shape), np.float32) for t in model.inputs}
    rendering = Rendering(model, file_name, "shop-1", {name: array.shape[1:] for name, array in row.items()})
    render_model(root / "repository" / "ranker", rendering, exported, row)
    return root / "repository"


@pytest.mark.parametrize(
    ("framework", "file_name"),
    [("onnx", "model.onnx"), ("pytorch", "model.pt"), ("tensorflow", "model.savedmodel")],
)
def test_rendered_repository_is_clean(tmp_path: Path, framework: str, file_name: str) -> None:
    assert lint(_repository(tmp_path, _spec(framework), file_name), sla_ms={"ranker": 100}) == []


def _text(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.pbtxt"
        text = path.read_text()
        made = re.sub(old, new, text, flags=re.DOTALL)
        assert made != text
        path.write_text(made)

    return change


def _move(old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: (folder / old).rename(folder / new) and None


def _touch(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")

    return change


def _ensemble(text: str) -> Callable[[Path], None]:
    body = (
        'name: "ranker" platform: "ensemble" max_batch_size: 8 '
        'input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "score" data_type: TYPE_FP32 dims: 1 } '
    )
    step = 'step { model_name: "a" model_version: -1 output_map { key: "o" value: "score" } } '
    return lambda folder: (folder / "config.pbtxt").write_text(body + text.replace("STEP", step)) and None


BROKEN: list[tuple[str, Callable[[Path], None]]] = [
    ("L001", lambda f: (f / "config.pbtxt").unlink()),
    ("L002", _touch("1/config.pbtxt")),
    ("L003", _move("1", "initial_state")),
    ("L004", _touch("1.bak/model.onnx")),
    ("L004", _touch("02/model.onnx")),
    ("L005", _move("1/model.onnx", "1/weights.onnx")),
    ("L005", lambda f: (f / "1/model.onnx").write_bytes(b"") and None),
    ("L006", _touch("1/model.pt")),
    ("L008", _touch("notes.md")),
    ("C001", _text(r"dynamic_batching \{", "dynamic_batching {\n  max_batch_size: 32")),
    ("C001", _text(r"$", "\npriority: 10\n")),
    ("C001", _text(r"$", "\nsequence_batching { }\n")),
    ("C002", _text(r'name: "ranker"', 'name: "other"')),
    ("C003", _text(r'platform: "\w+"|backend: "\w+"', "")),
    ("C004", _text(r"output \{.*?\n\}\n", "")),
    ("C005", _text(r"dims: 4", "dims: 0")),
    ("C006", _text(r"(output \{.*?\n\}\n)", r"\1\1")),
    ("C008", _text(r"max_batch_size: 8", "max_batch_size: -1")),
    ("C009", _text(r"(input \{.*?)dims: 4", r"\1dims: -1\n  dims: 4")),
    ("C010", _text(r"max_batch_size: 8", "max_batch_size: 0")),
    ("C011", _text(r"dynamic_batching \{", "dynamic_batching {\n  preferred_batch_size: 9")),
    ("C013", _text(r"dynamic_batching \{.*?\n\}\n", "sequence_batching { max_sequence_idle_microseconds: 1 }\n")),
    ("C014", _ensemble("ensemble_scheduling { STEP } instance_group { count: 1 }")),
    ("C015", _ensemble("ensemble_scheduling { STEP STEP }")),
    ("C016", lambda f: (f / "warmup" / "x").unlink()),
    ("C017", _text(r"(model_warmup \{.*?)batch_size: 1", r"\1batch_size: 99")),
    ("H001", lambda f: f.rename(f.parent / "Ranker-2") and None),
    ("H002", _text(r"dynamic_batching \{", "dynamic_batching {\n  default_queue_policy { max_queue_size: 9 }")),
    ("H003", _text("release_id", "other")),
    ("H004", _text(r"max_queue_delay_microseconds: \d+", "max_queue_delay_microseconds: 20000")),
    ("H005", _text(r"instance_group \{.*?\n\}\n", "")),
]


@pytest.mark.parametrize(("code", "change"), BROKEN, ids=[f"{c}-{i}" for i, (c, _) in enumerate(BROKEN)])
def test_broken_rule_is_found(tmp_path: Path, code: str, change: Callable[[Path], None]) -> None:
    repository = _repository(tmp_path, _spec())
    change(repository / "ranker")
    found = {f.code for f in lint(repository, sla_ms={"ranker": 100})}
    assert code in found


def test_pytorch_names_and_savedmodel_layout(tmp_path: Path) -> None:
    torch = _repository(tmp_path / "a", _spec("pytorch"), "model.pt")
    _text("x__0", "x")(torch / "ranker")
    assert "C007" in {f.code for f in lint(torch)}
    flat = _repository(tmp_path / "b", _spec("tensorflow"), "model.savedmodel")
    for path in (flat / "ranker/1/model.savedmodel").iterdir():
        path.rename(flat / "ranker/1" / path.name)
    assert [f.code for f in lint(flat)] == ["L007"]


def test_the_queue_has_no_limits_unless_the_spec_sets_them() -> None:
    assert not _config(_spec()).dynamic_batching.HasField("default_queue_policy")


def test_every_rule_has_a_breach_above_and_a_remedy() -> None:
    assert set(RULES) == {code for code, _ in BROKEN} | {"C007", "L007"}
    assert all(rule.summary and rule.remedy for rule in RULES.values())
