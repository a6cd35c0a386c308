"""Comparing tensors, generated rows, and the parity stage on small models."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from release_tasks.artifacts import ExportRecord
from release_tasks.errors import StageOrderError
from release_tasks.generated import generated_rows
from release_tasks.judge.tensors import compare
from release_tasks.outcome import Verdict
from release_tasks.spec import Tolerance
from release_tasks.stages import export, parity, validate
from tests import build_samples as samples

TIGHT = Tolerance(absolute=1e-5, relative=1e-5)


def _float(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def test_equal_within_the_limit_and_the_limit_grows_with_the_value() -> None:
    assert compare(_float(1, 1000), _float(1.00001, 1000.009), TIGHT).equal_within
    assert not compare(_float(1, 1000), _float(1.00003, 1000), TIGHT).equal_within


def test_worst_element_is_named() -> None:
    expected = np.zeros((3, 2), np.float32) + 1
    got = expected.copy()
    got[0, 0] += 0.01
    got[2, 1] += 0.5
    found = compare(expected, got, TIGHT)
    assert found.worst is not None
    assert (found.worst.row, found.worst.index, found.bad) == (2, (1,), 2)
    assert found.worst.difference == pytest.approx(0.5)
    assert found.worst.limit == pytest.approx(2e-5)
    assert found.worst.ulp == pytest.approx(0.5 / 2**-23)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", ["expected", "got", "both"])
def test_not_finite_never_passes(value: float, side: str) -> None:
    expected, got = _float(1, 2), _float(1, 2)
    if side != "got":
        expected[1] = value
    if side != "expected":
        got[1] = value
    found = compare(expected, got, TIGHT)
    assert not found.equal_within
    assert found.worst is not None
    assert found.worst.row == 1


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (np.ones((2, 2), np.float32), "shape"),
        (np.ones((3, 1), np.float32), "shape"),
        (np.ones((2, 1), np.float64), "type"),
    ],
)
def test_another_shape_or_type_is_a_fault(got: np.ndarray, words: str) -> None:
    found = compare(_float(1, 1), got, TIGHT)
    assert not found.equal_within
    assert words in found.fault


def test_nothing_to_compare_is_no_pass() -> None:
    empty = np.ones((0, 1), np.float32)
    assert not compare(empty, empty, TIGHT).equal_within


def test_integers_must_agree() -> None:
    one, two = np.array([[1], [2]], np.int64), np.array([[1], [3]], np.int64)
    assert compare(one, one, TIGHT).equal_within
    assert not compare(one, two, TIGHT).equal_within


def test_generated_rows_stay_in_the_seen_range_and_touch_its_bounds() -> None:
    inputs = {"ids": np.array([[3, -7], [9, 2]], np.int64), "x": np.array([[0.5], [2.5]], np.float32)}
    made = generated_rows(inputs, rows=50)
    for name, array in inputs.items():
        assert made[name].dtype == array.dtype
        assert made[name].shape == (52, *array.shape[1:])
        assert (made[name].min(axis=0) == array.min(axis=0)).all()
        assert (made[name].max(axis=0) == array.max(axis=0)).all()
    assert len(np.unique(made["x"])) > 10


def test_whole_numbers_stay_whole() -> None:
    made = generated_rows({"x": np.array([[1, 0.5], [6, 0.75]], np.float32)})["x"]
    assert (made[:, 0] == np.rint(made[:, 0])).all()
    assert (made[:, 1] != np.rint(made[:, 1])).any()


def _run(tmp_path: Path, root: Path, spec: Path, until: str = "parity") -> Verdict:
    context = samples.context_for(spec, tmp_path / "run")
    assert validate.run(context).verdict is Verdict.passed
    assert export.run(context).verdict is Verdict.passed
    return parity.run(context).verdict if until == "parity" else Verdict.passed


def test_right_models_pass(tmp_path: Path) -> None:
    root = tmp_path / "candidate"
    spec = samples.write_candidate(
        root, samples.onnx_model(root), samples.lightgbm_model(root), samples.torch_model(root)
    )
    assert _run(tmp_path, root, spec) is Verdict.passed


def test_swapped_weights_are_caught(tmp_path: Path) -> None:
    root, other = tmp_path / "candidate", tmp_path / "other"
    raw = samples.onnx_model(root)
    samples.onnx_model(other, factor=2.01)
    shutil.copy(other / raw["source"], root / raw["source"])
    context = samples.context_for(samples.write_candidate(root, raw), tmp_path / "run")
    validate.run(context)
    export.run(context)
    report = parity.run(context)
    assert report.verdict is Verdict.failed
    bad = [c for c in report.checks if c.verdict is Verdict.failed]
    assert [c.name for c in bad] == [f"parity.plain.score.golden.batch_{n}" for n in (1, 2, 8)]
    assert "row" in bad[0].detail


def test_allowed_trace_that_lost_its_branch_is_caught(tmp_path: Path) -> None:
    root = tmp_path / "candidate"
    raw = {**samples.torch_model(root, "trace"), "export": {"allow_traced": True}}
    assert _run(tmp_path, root, samples.write_candidate(root, raw)) is Verdict.failed


def test_export_that_was_touched_afterwards_is_not_compared(tmp_path: Path) -> None:
    root = tmp_path / "candidate"
    spec = samples.write_candidate(root, samples.onnx_model(root))
    _run(tmp_path, root, spec, until="export")
    context = samples.context_for(spec, tmp_path / "run")
    path = context.workspace.exported / "plain" / "model.onnx"
    path.write_bytes(path.read_bytes() + b"\x00")
    with pytest.raises(StageOrderError, match="is not what `export` wrote"):
        parity.run(context)


def test_intact_export_is_kept_and_damaged_one_made_again(tmp_path: Path) -> None:
    root = tmp_path / "candidate"
    spec = samples.write_candidate(root, samples.onnx_model(root))
    _run(tmp_path, root, spec, until="export")
    context = samples.context_for(spec, tmp_path / "run")
    path = context.workspace.exported / "plain" / "model.onnx"
    before, data = path.stat().st_ino, path.read_bytes()
    assert "kept" in export.run(context).checks[0].detail
    assert path.stat().st_ino == before
    path.write_bytes(b"damaged")
    assert "kept" not in export.run(context).checks[0].detail
    assert path.read_bytes() == data
    assert context.workspace.load(ExportRecord, "plain").file_name == "model.onnx"
    assert [p.name for p in context.workspace.exported.iterdir()] == ["plain"]
