"""Stages upload to checklist, one after the other, on the real store and a real staging server."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import psutil
import pytest

from release_tasks.artifacts import PublishedRelease
from release_tasks.cli import run_stage
from release_tasks.clients.storage import open_store
from release_tasks.context import StageContext
from release_tasks.errors import ComponentDown, ReleaseConflict, StageOrderError
from release_tasks.loadtest.memory import server_process
from release_tasks.outcome import StageReport, Verdict
from release_tasks.settings import STAGING, Settings
from release_tasks.spec import parse_spec
from release_tasks.workspace import Workspace
from tests import build_samples as samples
from tests.integration.conftest import wait_until

BUILD = ("validate", "export", "parity", "size_gate", "repository")
SERVE = ("upload", "deploy_staging", "smoke", "load_test", "served_parity", "checklist")
LOAD = {"users": 3, "requests_per_user_s": 10, "baseline_s": 1, "ramp_s": 1, "soak_s": 4}


@pytest.fixture(scope="module")
def released(serving_stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> StageContext:
    """A tiny release that is published and answers on staging, every stage passed."""
    root = tmp_path_factory.mktemp("candidate")
    # A wide SLA: what is tested here is the gate, not the speed of a machine that others may be using.
    spec = samples.write_candidate(root, samples.onnx_model(root) | {"sla_ms": 5000})
    spec.write_text(spec.read_text() + f"load_test: {LOAD}\n")
    context = samples.context_for(spec, tmp_path_factory.mktemp("serve") / "run")
    for stage in BUILD + SERVE:
        report = run_stage(stage, context)
        assert report.verdict is Verdict.passed, f"{stage}: {report.reason()}"
    return context


def _report(context: StageContext, stage: str) -> StageReport:
    report = context.workspace.report(stage)
    assert report is not None
    return report


def _copy(context: StageContext, tmp_path: Path, **changes: object) -> StageContext:
    """The same run in a copy of its workspace, with parts of the spec changed."""
    folder = tmp_path / "run"
    shutil.copytree(context.workspace.root, folder)
    raw = context.spec.model_dump(mode="json")
    raw.update(changes)
    return StageContext(
        spec=type(context.spec).model_validate(raw),
        spec_uri=context.spec_uri,
        workspace=Workspace(folder),
        say=lambda text: None,
    )


def test_the_manifest_is_the_last_object_and_names_every_other(released: StageContext) -> None:
    published = released.workspace.load(PublishedRelease)
    objects = open_store().list(published.uri)
    newest = max(objects, key=lambda o: o.updated)
    assert newest.uri == f"{published.uri}/release.json"
    names = {o.uri.removeprefix(f"{published.uri}/") for o in objects}
    assert {"release.yaml", "cases.json", "golden/plain.npz", "repository/plain/config.pbtxt"} <= names


def test_uploading_twice_writes_nothing(released: StageContext) -> None:
    published = released.workspace.load(PublishedRelease)
    before = {o.uri: o.generation for o in open_store().list(published.uri)}
    assert run_stage("upload", released).verdict is Verdict.passed
    assert {o.uri: o.generation for o in open_store().list(published.uri)} == before
    assert released.workspace.load(PublishedRelease) == published


def test_other_bytes_under_the_same_release_are_refused(released: StageContext, tmp_path: Path) -> None:
    context = _copy(released, tmp_path)
    (context.workspace.candidate / "cases.json").write_text("{}")
    with pytest.raises(ReleaseConflict, match=r"cases\.json"):
        run_stage("upload", context)


def test_a_repository_that_was_changed_after_the_linter_is_refused(released: StageContext, tmp_path: Path) -> None:
    context = _copy(released, tmp_path)
    (context.workspace.repository / "plain" / "config.pbtxt").write_text("name: 'plain'")
    with pytest.raises(StageOrderError, match="not what `repository` wrote"):
        run_stage("upload", context)


def test_load_test_reports_every_phase(released: StageContext) -> None:
    report = _report(released, "load_test")
    assert set(report.details) == {"baseline.plain", "ramp.plain", "soak.plain"}
    soak = report.details["soak.plain"]
    assert 60 <= soak["answered"] <= LOAD["users"] * LOAD["requests_per_user_s"] * LOAD["soak_s"] * 1.2
    assert report.numbers["memory.peak_mb"] > 0


def test_a_limit_that_is_passed_fails_the_load_test(released: StageContext, tmp_path: Path) -> None:
    models = released.spec.model_dump(mode="json")["models"]
    models[0]["sla_ms"] = 1
    context = _copy(released, tmp_path, models=models)
    report = run_stage("load_test", context)
    assert report.verdict is Verdict.failed
    assert "p95 1 ms" in report.reason()


def test_answers_that_differ_fail_served_parity(released: StageContext, tmp_path: Path) -> None:
    context = _copy(released, tmp_path)
    samples.change_golden(context.workspace.candidate, "plain", "out:score", lambda a: a + np.float32(1e-3))
    report = run_stage("served_parity", context)
    assert report.verdict is Verdict.failed
    assert {c.verdict for c in report.checks} == {Verdict.failed}


def test_an_output_the_spec_does_not_list_fails_the_smoke_test(released: StageContext, tmp_path: Path) -> None:
    models = released.spec.model_dump(mode="json")["models"]
    models[0]["outputs"][0]["name"] = "rating"
    context = _copy(released, tmp_path, models=models)
    golden = context.workspace.candidate / "golden" / "plain.npz"
    with np.load(golden) as data:
        np.savez(golden, **{name.replace("score", "rating"): data[name] for name in data.files})
    report = run_stage("smoke", context)
    failed = {c.name: c.detail for c in report.checks if c.verdict is Verdict.failed}
    assert "clients must not see it: ['score']" in failed["plain.outputs"]


def test_a_required_gpu_that_is_absent_fails_the_smoke_test(released: StageContext, tmp_path: Path) -> None:
    serving = released.spec.model_dump(mode="json")["serving"]
    serving |= {"gpu_required": True}
    serving["resources"]["gpus"] = 1
    report = run_stage("smoke", _copy(released, tmp_path, serving=serving))
    assert [c.name for c in report.checks if c.verdict is Verdict.failed] == ["gpu"]


@pytest.mark.parametrize("stage", ["validate", "load_test", "smoke"])
def test_a_missing_report_makes_its_point_red(released: StageContext, tmp_path: Path, stage: str) -> None:
    context = _copy(released, tmp_path)
    context.workspace.report_path(stage).unlink()
    report = run_stage("checklist", context)
    assert report.verdict is Verdict.failed
    assert f"{stage} has not run" in report.reason()


def test_a_report_of_another_release_makes_its_point_red(released: StageContext, tmp_path: Path) -> None:
    context = _copy(released, tmp_path)
    other = _report(context, "parity").model_copy(update={"release": "tiny-other"})
    context.workspace.save_report(other)
    report = run_stage("checklist", context)
    assert "parity is about tiny-other" in report.reason()


def test_staging_that_runs_another_release_is_named(released: StageContext, tmp_path: Path) -> None:
    context = _copy(released, tmp_path)
    published = context.workspace.load(PublishedRelease)
    context.workspace.save(published.model_copy(update={"release": "tiny-other"}))
    with pytest.raises(StageOrderError, match=f"staging runs {published.release}"):
        run_stage("smoke", context)


def test_a_staging_server_that_dies_is_named_with_its_log(released: StageContext, serving_stack: Settings) -> None:
    process = server_process(serving_stack.slots[STAGING].http)
    assert process is not None
    process.kill()
    wait_until(lambda: not psutil.pid_exists(process.pid) or process.status() == psutil.STATUS_ZOMBIE)
    try:
        with pytest.raises(ComponentDown, match="staging tritonserver"):
            run_stage("smoke", released)
        report = _report(released, "smoke")
        assert report.verdict is Verdict.error
    finally:
        assert run_stage("deploy_staging", released).verdict is Verdict.passed
    assert run_stage("smoke", released).verdict is Verdict.passed


def test_spec_text_survives_the_round_trip(released: StageContext) -> None:
    published = released.workspace.load(PublishedRelease)
    assert parse_spec(open_store().read_text(f"{published.uri}/release.yaml")) == released.spec
