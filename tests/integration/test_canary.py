"""Promotions on the real stack: tritonserver, Envoy, Prometheus and object storage, under users' traffic."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from release_tasks.cli import run_stage
from release_tasks.clients.prometheus import Prometheus
from release_tasks.errors import Fenced, LockHeld, MetricsError, NotSigned, RolledBack, StageOrderError
from release_tasks.judge.evidence import Evidence, Role
from release_tasks.outcome import Verdict
from release_tasks.pick import pick
from release_tasks.platforms import state as serving
from release_tasks.platforms.base import Platform
from release_tasks.platforms.state import LiveModel
from release_tasks.settings import Settings
from release_tasks.telemetry import Telemetry
from tests.integration.canary_support import Story, Users, spec_text
from tests.integration.conftest import ROOT, wait_until


@pytest.fixture
def story(serving_stack: Settings, platform: Platform, tmp_path: Path) -> Story:
    return Story(serving_stack, platform, tmp_path)


def test_first_release_then_a_good_candidate_is_promoted_without_a_failed_request(story: Story) -> None:
    first = story.release("first", "blue", factor=2)
    story.sign(first)
    for step in (1, 2, 3):
        assert run_stage("canary", story.context(first, step)).verdict is Verdict.passed
    assert run_stage("promote", story.context(first)).verdict is Verdict.passed
    assert run_stage("settle", story.context(first)).verdict is Verdict.passed
    assert story.served() == 2

    better = story.release("better", "green", factor=3)
    story.sign(better)
    assert pick("tiny").release == better.uri
    with Users(story.settings) as users:
        for step, weight in ((1, 10), (2, 50), (3, 100)):
            report = run_stage("canary", story.context(better, step))
            assert report.verdict is Verdict.passed, report.reason()
            assert story.platform.weights() == {"blue": 100 - weight, "green": weight}
            assert isinstance(report.numbers["errors.canary"], float)
            assert report.numbers["errors.canary"] >= 88
        assert run_stage("promote", story.context(better)).verdict is Verdict.passed
        assert run_stage("promote", story.context(better)).verdict is Verdict.passed
        assert run_stage("settle", story.context(better)).verdict is Verdict.passed
    print(f"{sum(users.answers.values())} requests, {users.failed} failed, by slot {dict(users.answers)}")
    assert users.failures == {}
    assert story.served() == 3
    assert story.outcome(better) == "promoted"
    state = story.platform.state()
    assert state.previous == first
    assert story.platform.status("blue").release == first.release
    assert pick("tiny").release is None


def test_failing_candidate_is_rolled_back_and_stays_back(story: Story) -> None:
    stable = story.stable(story.release("stable", "blue", factor=2))
    erring = story.release("erring", "green", factor=3, kind="failing")
    story.sign(erring)
    with Users(story.settings) as users:
        began = time.monotonic()
        report = run_stage("canary", story.context(erring))
        took = time.monotonic() - began
        assert report.verdict is Verdict.failed
        assert "errors is" in report.reason()
        assert story.platform.weights() == {"blue": 100, "green": 0}
        failed = users.failed
        with pytest.raises(RolledBack, match="erring"):
            run_stage("settle", story.context(erring))
        time.sleep(1)
        assert users.failed == failed
    print(f"rolled back {took:.1f} s after the start of the stage; {users.failed} requests failed; {report.reason()}")
    assert set(users.failures) == {"green 500"}
    assert users.failed < 30
    assert story.served() == 2
    assert story.platform.state().stable == stable
    assert story.outcome(erring) == "rolled_back"
    settled = story.context(erring).workspace.report("settle")
    assert settled is not None
    assert "answered a golden row" in settled.checks[-1].measured
    with pytest.raises(RolledBack, match="was rolled back at"):
        run_stage("canary", story.context(erring))
    with pytest.raises(RolledBack):
        run_stage("settle", story.context(erring))


def test_nothing_moves_without_a_valid_signature(story: Story) -> None:
    story.stable(story.release("stable", "blue"))
    unsigned = story.release("unsigned", "green", factor=3)
    before = story.platform.state()

    def refused(match: str) -> None:
        for stage in ("canary", "promote"):
            with pytest.raises(NotSigned, match=match):
                run_stage(stage, story.context(unsigned))

    refused("nobody has answered")
    story.sign(unsigned, approved=False, reason="no")
    refused("alice rejected it")
    story.sign(unsigned, approver="mallory")
    refused("mallory may not sign")
    story.sign(unsigned, digest="0" * 64)
    refused("void")
    assert story.platform.state() == before
    assert pick("tiny").release is None
    report = run_stage("settle", story.context(unsigned))
    assert report.verdict is Verdict.failed
    assert "never began" in report.reason()
    assert story.outcome(unsigned) is None


def test_lock_and_order_and_fence(story: Story) -> None:
    story.stable(story.release("stable", "blue"))
    one, two = story.release("one", "green"), story.release("two", "green")
    story.sign(one)
    story.sign(two)
    fence = story.in_flight(one, 10, holder="run-1")
    with pytest.raises(LockHeld, match="run-1"):
        run_stage("canary", story.context(two, holder="run-2"))
    assert run_stage("settle", story.context(two, holder="run-2")).verdict is Verdict.failed
    assert run_stage("settle", story.context(one, holder="run-2")).verdict is Verdict.failed
    assert story.platform.weights() == {"blue": 90, "green": 10}
    with pytest.raises(StageOrderError, match="needs step 1 passed"):
        run_stage("canary", story.context(one, 2))
    with pytest.raises(StageOrderError, match="cannot be promoted"):
        run_stage("promote", story.context(one))

    with pytest.raises(RolledBack):
        run_stage("settle", story.context(one))
    with pytest.raises(Fenced, match="rolled back"):
        story.platform.apply(lambda s: serving.shift(s, fence, 50, time.time(), 60))
    assert story.platform.weights() == {"blue": 100, "green": 0}


def test_without_eyes_or_traffic_nothing_passes(story: Story) -> None:
    story.stable(story.release("stable", "blue"))
    quiet = story.release("quiet", "green", factor=3)
    story.sign(quiet)
    blind = story.settings.model_copy(update={"prometheus": "http://127.0.0.1:9"})
    with pytest.raises(MetricsError, match=r"Prometheus at http://127\.0\.0\.1:9 does not answer"):
        run_stage("canary", replace(story.context(quiet), settings=blind))
    assert story.platform.weights() == {"blue": 100, "green": 0}

    held = run_stage("canary", story.context(quiet, deadline_s=2, on_inconclusive="hold"))
    assert held.verdict is Verdict.inconclusive
    assert "not decided within 2 s" in held.reason()
    assert run_stage("settle", story.context(quiet)).verdict is Verdict.inconclusive
    assert story.platform.weights() == {"blue": 90, "green": 10}

    with pytest.raises(StageOrderError):
        run_stage("promote", story.context(quiet))
    assert run_stage("canary", story.context(quiet, deadline_s=2)).verdict is Verdict.inconclusive
    with pytest.raises(RolledBack, match="not decided"):
        run_stage("settle", story.context(quiet))
    assert story.served() == 2


def test_prometheus_that_dies_is_a_look_without_evidence(story: Story) -> None:
    telemetry = Telemetry(
        prometheus=Prometheus("http://127.0.0.1:9"),
        models=(LiveModel(name="tiny", sla_ms=250),),
        stable_models=frozenset({"tiny"}),
        slots={"blue": Role.stable, "green": Role.canary},
        scrape_interval_s=1,
    )
    evidence = Evidence(release="r").observe(telemetry.look(), 0)
    assert evidence.intervals == ()
    assert "does not answer" in next(iter(evidence.discarded))


def test_killed_gate_is_settled_from_live_state(story: Story) -> None:
    story.stable(story.release("stable", "blue"))
    candidate = story.release("killed", "green", factor=3)
    story.sign(candidate)
    spec = story.folder / "release.yaml"
    spec.write_text(spec_text(min_bake_s=50))
    command = [
        *(sys.executable, "-m", "release_tasks", "canary", "--spec", str(spec), "--release", candidate.uri),
        *("--workspace", str(story.context(candidate).workspace.root), "--holder", "run-1", "--step", "1"),
    ]
    with Users(story.settings) as users:
        gate = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        try:
            wait_until(lambda: story.platform.weights()["green"] == 10, timeout=60)
        finally:
            gate.send_signal(signal.SIGKILL)
            gate.wait(timeout=10)
        with pytest.raises(RolledBack, match="did not end by itself"):
            run_stage("settle", story.context(candidate))
        assert story.platform.weights() == {"blue": 100, "green": 0}
    assert users.failures == {}
    assert story.outcome(candidate) == "rolled_back"
