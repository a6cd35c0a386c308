"""Build stages against a running stack: a candidate in object storage, growth against the live release."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from release_tasks.artifacts import CandidateRecord
from release_tasks.clients.storage import open_store
from release_tasks.context import StageContext
from release_tasks.errors import CandidateError, StorageError
from release_tasks.outcome import Verdict
from release_tasks.platforms.local import LocalPlatform
from release_tasks.platforms.state import Fence, begin, promote, shift
from release_tasks.settings import Settings
from release_tasks.sources import open_spec
from release_tasks.stages import export, size_gate, validate
from release_tasks.workspace import Workspace
from tests import build_samples as samples
from tests.integration.conftest import READY_S, ROOT, Publish


def _context(spec_uri: str, workspace: Path) -> StageContext:
    return StageContext(
        spec=open_spec(spec_uri), spec_uri=spec_uri, workspace=Workspace(workspace), say=lambda text: None
    )


def test_candidate_in_object_storage_gets_the_same_identity_as_on_disk(serving_stack: Settings, tmp_path: Path) -> None:
    root = tmp_path / "candidate"
    spec = samples.write_candidate(root, samples.onnx_model(root))
    prefix = f"gs://{serving_stack.storage.bucket}/candidates/one"
    store = open_store(serving_stack)
    for path in root.rglob("*"):
        if path.is_file():
            store.write(f"{prefix}/{path.relative_to(root).as_posix()}", path.read_bytes())
    remote, local = _context(f"{prefix}/release.yaml", tmp_path / "r/run"), _context(str(spec), tmp_path / "l/run")
    assert validate.run(remote).verdict is Verdict.passed
    assert validate.run(local).verdict is Verdict.passed
    assert remote.workspace.load(CandidateRecord).release == local.workspace.load(CandidateRecord).release
    assert remote.workspace.load(CandidateRecord).uri == prefix


def test_candidate_that_is_not_there_is_refused(serving_stack: Settings, tmp_path: Path) -> None:
    root = tmp_path / "candidate"
    spec = samples.write_candidate(root, samples.onnx_model(root))
    context = replace(
        _context(str(spec), tmp_path / "run"), spec_uri=f"gs://{serving_stack.storage.bucket}/none/release.yaml"
    )
    with pytest.raises((CandidateError, StorageError)):
        validate.run(context)
    assert list((tmp_path / "run").iterdir()) == []


def test_growth_is_measured_against_the_live_release(
    platform: LocalPlatform, publish: Publish, serving_stack: Settings, tmp_path: Path
) -> None:
    root = tmp_path / "candidate"
    context = _context(str(samples.write_candidate(root, samples.onnx_model(root))), tmp_path / "run")
    validate.run(context)
    export.run(context)
    assert size_gate.run(context).checks[1].measured == "no live release"
    live = publish("r1", slot="blue", model="plain")
    first = Fence("test", platform.apply(lambda state: begin(state, "test", live, time.time(), 600)).epoch)
    platform.deploy(live, deadline_s=READY_S, fence=first)
    platform.apply(lambda state: shift(state, first, 100, time.time(), 600))
    platform.apply(lambda state: promote(state, first, time.time()))
    report = size_gate.run(context)
    assert report.verdict is Verdict.passed
    assert "against r1" in report.checks[1].measured
    model = context.workspace.exported / "plain" / "model.onnx"
    before = tmp_path / "r1" / "repository" / "plain" / "1" / "model.onnx"
    assert report.numbers["plain.growth"] == round(model.stat().st_size / before.stat().st_size - 1, 4)


@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        ("models/plain/model.onnx", 11, "models.plain.source"),
        ("golden/plain.npz", 12, "models.plain.golden"),
        ("release.yaml", 11, "--spec"),
    ],
)
def test_command_line_names_the_fault_without_a_traceback(tmp_path: Path, damage: str, code: int, words: str) -> None:
    root = tmp_path / "candidate"
    spec = samples.write_candidate(root, samples.onnx_model(root))
    (root / damage).unlink()
    command = [sys.executable, "-m", "release_tasks", "validate", "--spec", str(spec), "--workspace"]
    ended = subprocess.run([*command, str(tmp_path / "run")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    assert words in ended.stderr
    assert "remedy:" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_over_budget_is_stopped_at_the_size_gate(tmp_path: Path) -> None:
    root = tmp_path / "candidate"
    raw = {**samples.onnx_model(root), "size_budget_mb": 0.0001}
    context = _context(str(samples.write_candidate(root, raw)), tmp_path / "run")
    validate.run(context)
    export.run(context)
    report = size_gate.run(context)
    assert report.verdict is Verdict.failed
    assert "over the model's size_budget_mb" in report.checks[0].detail
