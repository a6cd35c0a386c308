"""Exporters: what is refused, what is kept, and the branch a float32 row takes."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from release_tasks.errors import CandidateError, ExportError
from release_tasks.exporters import exporter_for, lightgbm_onnx
from release_tasks.exporters.lightgbm_trees import round_down
from release_tasks.judge.tensors import compare
from release_tasks.spec import ModelSpec
from tests import build_samples as samples


def _model(raw: dict[str, Any], **more: Any) -> ModelSpec:
    return ModelSpec.model_validate({**raw, **more})


def _export(root: Path, model: ModelSpec) -> Path:
    target = root / "exported"
    target.mkdir()
    exporter = exporter_for(model.framework)
    exporter.looks_right(model, root / model.source)
    return target / exporter.export(model, root / model.source, target).file_name


def test_scripted_module_is_taken_over_byte_for_byte(tmp_path: Path) -> None:
    model = _model(samples.torch_model(tmp_path))
    assert _export(tmp_path, model).read_bytes() == (tmp_path / model.source).read_bytes()


@pytest.mark.parametrize("how", ["trace", "part_traced"])
def test_traced_module_is_refused_unless_allowed(tmp_path: Path, how: str) -> None:
    raw = samples.torch_model(tmp_path, how)
    with pytest.raises(ExportError, match="was traced"):
        _export(tmp_path, _model(raw))
    (tmp_path / "exported").rmdir()
    assert _export(tmp_path, _model(raw, export={"allow_traced": True})).exists()


def test_traced_module_without_its_example_inputs_is_still_seen(tmp_path: Path) -> None:
    raw = samples.torch_model(tmp_path, "trace")
    path = tmp_path / raw["source"]
    with zipfile.ZipFile(path) as old:
        kept = {n: old.read(n) for n in old.namelist() if "traced_inputs" not in n}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        for name, data in kept.items():
            new.writestr(name, data)
    with pytest.raises(ExportError, match=r"recorded at \S+\.py:\d+"):
        _export(tmp_path, _model(raw))


def test_training_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"training mode[\s\S]*module.eval"):
        _export(tmp_path, _model(samples.torch_model(tmp_path, "training")))


def test_pickle_is_no_torchscript(tmp_path: Path) -> None:
    import torch

    raw = samples.torch_model(tmp_path)
    torch.save({"weights": torch.ones(2)}, tmp_path / raw["source"])
    with pytest.raises(CandidateError, match="no TorchScript code"):
        _export(tmp_path, _model(raw))


@pytest.mark.parametrize("write", [samples.torch_model, samples.lightgbm_model, samples.onnx_model])
@pytest.mark.parametrize("damage", ["truncated", "empty", "other framework"])
def test_damaged_source_is_refused_without_the_framework(tmp_path: Path, write: Any, damage: str) -> None:
    model = _model(write(tmp_path))
    path = tmp_path / model.source
    data = path.read_bytes()
    path.write_bytes({"truncated": data[: len(data) * 2 // 3], "empty": b"", "other framework": b"\x89HDF\r\n"}[damage])
    with pytest.raises(CandidateError) as caught:
        exporter_for(model.framework).looks_right(model, path)
    assert caught.value.field == f"models.{model.name}.source"
    assert caught.value.remedy


def _worst(root: Path, model: ModelSpec, exported: Path) -> dict[str, bool]:
    exporter = exporter_for(model.framework)
    with np.load(root / model.golden) as golden:
        rows = {t.name: golden[f"in:{t.name}"] for t in model.inputs}
    source, served = exporter.load_source(model, root / model.source), exporter.load_exported(model, exported)
    (output,) = model.outputs
    asked = {"golden": rows, "probes": exporter.probes(model, root / model.source, rows)}
    assert len(asked["probes"]["features"]) > 300
    return {
        kind: compare(source(q)[output.name], served(q)[output.name], output.tolerance).equal_within
        for kind, q in asked.items()
    }


@pytest.mark.parametrize(("objective", "shape"), [("binary", 1), ("binary", 2), ("regression", 1), ("multiclass", 3)])
def test_lightgbm_takes_the_same_branch_at_every_split(tmp_path: Path, objective: str, shape: int) -> None:
    model = _model(samples.lightgbm_model(tmp_path, objective, shape))
    assert _worst(tmp_path, model, _export(tmp_path, model)) == {"golden": True, "probes": True}


def test_split_probes_fail_without_the_threshold_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lightgbm_onnx, "with_float32_thresholds", lambda text: (text, 0))
    model = _model(samples.lightgbm_model(tmp_path))
    assert _worst(tmp_path, model, _export(tmp_path, model)) == {"golden": True, "probes": False}


def test_round_down_is_the_largest_float32_not_above() -> None:
    doubles = np.array([0.1, -0.1, 1.0, 1 / 3, 1e-35, -1e-46, 1e-46, 3.5e38, -3.5e38, 0.0])
    down = round_down(doubles)
    assert down.dtype == np.float32
    assert (down.astype(np.float64) <= doubles).all()
    above = np.nextafter(down, np.float32(np.inf)).astype(np.float64)
    assert (above > doubles).all()


def test_lightgbm_with_another_feature_count_is_refused(tmp_path: Path) -> None:
    raw = samples.lightgbm_model(tmp_path)
    with pytest.raises(ExportError, match="the booster has 5 features"):
        _export(tmp_path, _model(raw, inputs=[{"name": "features", "shape": [7]}]))


def test_onnx_with_other_names_is_refused(tmp_path: Path) -> None:
    raw = samples.onnx_model(tmp_path)
    with pytest.raises(ExportError, match="the ONNX file has"):
        _export(tmp_path, _model(raw, outputs=[{"name": "answer", "shape": [1]}]))


def test_onnx_with_right_head_and_broken_graph_is_refused(tmp_path: Path) -> None:
    model = _model(samples.onnx_model(tmp_path))
    path = tmp_path / model.source
    path.write_bytes(path.read_bytes().replace(b"ReduceSum", b"ReduceSun"))
    with pytest.raises(ExportError):
        _export(tmp_path, model)
