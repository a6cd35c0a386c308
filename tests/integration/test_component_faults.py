"""A component that dies while a stage needs it: the error has its name and the last lines of its log."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from release_tasks.cli import run_stage
from release_tasks.context import StageContext
from release_tasks.errors import ReleaseError, StorageError
from release_tasks.outcome import Verdict
from release_tasks.settings import load_settings
from tests import build_samples as samples
from tests.integration.conftest import run_local


def _kill(url: str) -> None:
    port = int(url.rsplit(":", 1)[1])
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            assert connection.pid is not None
            os.kill(connection.pid, signal.SIGSTOP)  # a stopped process answers nobody and is not restarted
            return
    raise AssertionError(f"nobody listens at {url}")


def test_storage_that_stops_answering_fails_the_stage_with_its_name_and_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stack of its own: the shared one must keep its store.
    run_dir = tmp_path / "run"
    started = run_local("up", "--without", "airflow", "--without", "guard", run_dir=run_dir)
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        settings = load_settings(run_dir / "settings.json")
        root = tmp_path / "candidate"
        spec = samples.write_candidate(root, samples.onnx_model(root))
        context = samples.context_for(spec, tmp_path / "ws" / "one")
        context = StageContext(**{**vars(context), "settings": settings})
        for stage in ("validate", "export", "parity", "repository"):
            assert run_stage(stage, context).verdict is Verdict.passed
        monkeypatch.setattr("release_tasks.clients.storage.TIMEOUT_S", 2.0)
        assert settings.storage.endpoint is not None
        _kill(settings.storage.endpoint)
        with pytest.raises(StorageError) as caught:
            run_stage("upload", context)
        assert settings.storage.endpoint in caught.value.message
        assert "(fake-gcs-server, " in caught.value.log_tail
        report = json.loads(context.workspace.report_path("upload").read_text())
        assert report["verdict"] == "error"
    finally:
        stopped = run_local("down", run_dir=run_dir)
        assert stopped.returncode == 0, stopped.stdout + stopped.stderr


def test_errors_of_other_kinds_are_left_alone() -> None:
    from release_tasks.diagnosis import explain

    error = ReleaseError("x")
    explain(error, None)
    assert error.log_tail == ""
