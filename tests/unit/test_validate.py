"""What `validate` refuses, and that a refused candidate leaves nothing behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from release_tasks.artifacts import CandidateRecord
from release_tasks.errors import CandidateError, GoldenDataError, ReleaseError, RuntimeMismatch
from release_tasks.expectations import check_golden
from release_tasks.golden import Golden
from release_tasks.outcome import Verdict
from release_tasks.stages import export, validate
from tests import build_samples as samples


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    root = tmp_path / "candidate"
    samples.write_candidate(root, samples.onnx_model(root))
    return root


def _validate(candidate: Path) -> Verdict:
    context = samples.context_for(candidate / "release.yaml", candidate.parent / "run")
    return validate.run(context).verdict


def _golden(key: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    return lambda root: samples.change_golden(root, "plain", key, change)


def _with(array: np.ndarray, value: float) -> np.ndarray:
    array = array.copy()
    array[3, 0] = value
    return array


def _case(key: str, value: object) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        book = json.loads((root / "cases.json").read_text())
        book["cases"][0][key] = value
        (root / "cases.json").write_text(json.dumps(book))

    return change


def _spec(change: Callable[[dict], None]) -> Callable[[Path], None]:  # type: ignore[type-arg]
    def apply(root: Path) -> None:
        raw = yaml.safe_load((root / "release.yaml").read_text())
        change(raw)
        (root / "release.yaml").write_text(yaml.safe_dump(raw))

    return apply


def _pickled(root: Path) -> None:
    array = np.array([{"a": 1}, None], dtype=object)
    np.savez(root / "golden/plain.npz", **{"in:x": array, "out:score": array})


BAD: list[tuple[str, Callable[[Path], None], type[ReleaseError], str]] = [
    ("source missing", lambda r: (r / "models/plain/model.onnx").unlink(), CandidateError, "no such file"),
    ("source truncated", lambda r: _cut(r / "models/plain/model.onnx"), CandidateError, "no complete ONNX"),
    ("source outside", _spec(lambda s: s["models"][0].update(source="../x")), CandidateError, "inside the candidate"),
    ("link", lambda r: (r / "link").symlink_to("/etc/hostname"), CandidateError, "plain files only"),
    ("golden missing", lambda r: (r / "golden/plain.npz").unlink(), GoldenDataError, "does not exist"),
    ("golden truncated", lambda r: _cut(r / "golden/plain.npz"), GoldenDataError, "intact .npz"),
    ("golden pickled", _pickled, GoldenDataError, "intact .npz"),
    ("golden NaN", _golden("in:x", lambda a: _with(a, np.nan)), GoldenDataError, "nan in row 3"),
    ("golden Inf", _golden("out:score", lambda a: _with(a, np.inf)), GoldenDataError, "inf in row 3"),
    ("golden width", _golden("in:x", lambda a: a[:, :3]), GoldenDataError, r"\(rows, 4\)"),
    ("golden type", _golden("in:x", lambda a: a.astype(np.float64)), GoldenDataError, "float32"),
    ("golden one row", _golden("in:x", lambda a: a[:1]), GoldenDataError, "at least 2"),
    ("golden rows", _golden("in:x", lambda a: a[:5]), GoldenDataError, "same number of rows"),
    ("golden names", _spec(lambda s: s["models"][0]["inputs"][0].update(name="y")), GoldenDataError, "in:y"),
    ("no cases", lambda r: (r / "cases.json").unlink(), CandidateError, "no such file"),
    ("case model", _case("model", "other"), CandidateError, r"models are \['plain'\]"),
    ("case inputs", _case("inputs", {"z": [1, 2, 3]}), CandidateError, "inputs of plain"),
    ("case shape", _case("inputs", {"x": [[1], [2], [3]]}), CandidateError, "shape"),
    ("case type", _case("inputs", {"x": [["a"] * 4] * 3}), CandidateError, "must be FP32"),
    ("case output", _case("output", "other"), CandidateError, "one value per row"),
    ("runtime", _spec(lambda s: s["serving"].update(triton_release="19.01")), RuntimeMismatch, "version matrix"),
]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(("change", "kind", "words"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_candidate_is_refused_and_leaves_nothing(
    candidate: Path, change: Callable[[Path], None], kind: type[ReleaseError], words: str
) -> None:
    change(candidate)
    with pytest.raises(kind, match=words) as caught:
        _validate(candidate)
    assert type(caught.value) is kind
    assert caught.value.remedy
    assert list((candidate.parent / "run").iterdir()) == []


def test_a_good_candidate_is_copied_with_its_digest_and_a_rerun_changes_nothing(candidate: Path) -> None:
    assert _validate(candidate) is Verdict.passed
    context = samples.context_for(candidate / "release.yaml", candidate.parent / "run")
    first = context.workspace.load(CandidateRecord)
    assert first.release.startswith(f"tiny-{first.digest[:8]}-")
    assert {f.path for f in first.files} >= {"release.yaml", "cases.json", "models/plain/model.onnx"}
    export.run(context)
    assert _validate(candidate) is Verdict.passed
    assert context.workspace.load(CandidateRecord) == first
    assert (context.workspace.exported / "plain" / "model.onnx").exists()
    assert sorted(p.name for p in context.workspace.root.iterdir()) == ["candidate", "exported", "records"]


def test_a_changed_candidate_replaces_the_old_one_and_its_results(candidate: Path) -> None:
    _validate(candidate)
    context = samples.context_for(candidate / "release.yaml", candidate.parent / "run")
    before = context.workspace.load(CandidateRecord)
    export.run(context)
    shutil.rmtree(candidate / "models")
    samples.onnx_model(candidate, factor=3.0)
    assert _validate(candidate) is Verdict.passed
    assert context.workspace.load(CandidateRecord).digest != before.digest
    assert not context.workspace.exported.exists()


def test_a_refused_candidate_also_ends_the_earlier_one(candidate: Path) -> None:
    _validate(candidate)
    (candidate / "models/plain/model.onnx").unlink()
    with pytest.raises(CandidateError):
        _validate(candidate)
    context = samples.context_for(candidate / "release.yaml", candidate.parent / "run")
    assert context.workspace.find(CandidateRecord) is None


def test_expectations_see_nulls_and_ranges() -> None:
    x = np.array([[1.0], [np.nan], [np.inf]], np.float32)
    (result,) = check_golden({"plain": Golden({"x": x}, {"score": np.ones((3, 1), np.float32)})})
    assert len(result.unmet) == 2
    assert "not_be_null" in result.unmet[0]
    assert "between" in result.unmet[1]
