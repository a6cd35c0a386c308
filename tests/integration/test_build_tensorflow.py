"""TensorFlow sources: a .keras file becomes a SavedModel with the spec's names; broken ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from release_tasks.errors import CandidateError, ExportError
from release_tasks.exporters import exporter_for
from release_tasks.outcome import Verdict
from release_tasks.spec import Framework, ModelSpec
from release_tasks.stages import export, parity, validate
from tests import build_samples as samples


def test_keras_file_becomes_a_savedmodel_with_the_specs_signature(tmp_path: Path) -> None:
    root = tmp_path / "candidate"
    spec = samples.write_candidate(root, samples.tensorflow_model(root, keras_file=True), samples.onnx_model(root))
    context = samples.context_for(spec, tmp_path / "run")
    for stage in (validate, export, parity):
        report = stage.run(context)
        assert report.verdict is Verdict.passed, report.reason()
    assert (context.workspace.exported / "tower" / "model.savedmodel" / "saved_model.pb").is_file()


def test_broken_savedmodels_are_refused(tmp_path: Path) -> None:
    raw = samples.tensorflow_model(tmp_path)
    model, source = ModelSpec.model_validate(raw), tmp_path / raw["source"]
    exporter = exporter_for(Framework.tensorflow)
    (tmp_path / "out").mkdir()
    other = model.model_copy(update={"export": model.export.model_copy(update={"signature": "serve_all"})})
    with pytest.raises(ExportError, match=r"no signature 'serve_all'[\s\S]*embed"):
        exporter.export(other, source, tmp_path / "out")
    renamed = ModelSpec.model_validate({**raw, "outputs": [{"name": "vector", "shape": [4]}]})
    (tmp_path / "out2").mkdir()
    with pytest.raises(ExportError, match="signature 'embed' has"):
        exporter.export(renamed, source, tmp_path / "out2")
    (source / "variables" / "variables.index").unlink()
    with pytest.raises(CandidateError, match="variables"):
        exporter.looks_right(model, source)
    graph = source / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:-300])
    with pytest.raises(CandidateError, match="truncated"):
        exporter.looks_right(model, source)
    graph.unlink()
    with pytest.raises(CandidateError, match=r"no saved_model\.pb"):
        exporter.looks_right(model, source)
