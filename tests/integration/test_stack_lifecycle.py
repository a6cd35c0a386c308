"""The embedded stack starts, stops and leaves nothing, whatever happens to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import run_local, wait_until, write_repository

from local import plan, processes, stack
from local.http import answers
from local.paths import Paths
from release_tasks.errors import ComponentDown
from release_tasks.platforms.state import LiveModel, LiveRelease, ServingState
from release_tasks.settings import Settings, load_settings

SERVING = ("--without", "airflow", "--without", "guard")


def ports_of(settings: Settings) -> list[int]:
    assert settings.local is not None and settings.storage.endpoint is not None
    urls = [settings.storage.endpoint, settings.prometheus, settings.traffic.http, settings.local.envoy_admin]
    for slot in settings.slots.values():
        urls += [slot.http, f"grpc://{slot.grpc}", slot.metrics]
    return [port for url in urls if (port := urlsplit(url).port)]


def shared_memory(paths: Paths) -> list[str]:
    return [file.name for file in processes.SHARED_MEMORY.iterdir() if paths.tag in file.name]


def assert_nothing_left(run_dir: Path) -> None:
    paths = Paths(run_dir)
    assert processes.of_run(run_dir) == []
    assert shared_memory(paths) == []
    assert not paths.supervisor_socket.exists()
    for port in ports_of(load_settings(paths.settings)):
        with socket.socket() as sock:
            assert sock.connect_ex(("127.0.0.1", port)) != 0, f"somebody still listens on {port}"


def put_live_release(run_dir: Path) -> None:
    """What a stack that went down with a stable release in blue has on disk."""
    write_repository(run_dir / "slots" / "blue" / "r1" / "repository", release="r1", model="tiny", factor=2.0)
    (run_dir / "slots" / "blue" / "repository").symlink_to("r1/repository")
    live = LiveRelease(release="r1", uri="gs://b/r1", slot="blue", models=(LiveModel(name="tiny", sla_ms=50),))
    state = run_dir / "state" / "serving.json"
    state.parent.mkdir(parents=True)
    state.write_text(ServingState(epoch=1, stable=live).model_dump_json())


def test_up_twice_is_one_stack_and_down_leaves_nothing(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    first = run_local("up", *SERVING, run_dir=run_dir)
    try:
        assert first.returncode == 0, first.stderr
        assert "envoy" in first.stderr and "ready after" in first.stderr
        before = sorted(processes.of_run(run_dir))
        again = run_local("up", *SERVING, run_dir=run_dir)
        assert (again.returncode, "already running" in again.stdout) == (0, True)
        assert sorted(processes.of_run(run_dir)) == before
        shown = run_local("status", run_dir=run_dir)
        assert (shown.returncode, "RUNNING" in shown.stdout) == (0, True)
        for secret in (run_dir / "secrets").iterdir():
            assert secret.stat().st_mode & 0o077 == 0
    finally:
        stopped = run_local("down", run_dir=run_dir)
    assert (stopped.returncode, stopped.stdout.strip()) == (0, "stopped")
    assert_nothing_left(run_dir)
    again = run_local("down", run_dir=run_dir)
    assert (again.returncode, again.stdout.strip()) == (0, "not running")
    assert run_local("status", run_dir=run_dir).returncode == 1


def test_live_slots_come_back_and_a_killed_supervisord_leaves_nothing_behind(
    tmp_path: Path, serving_stack: Settings
) -> None:
    run_dir = tmp_path / "run"
    put_live_release(run_dir)
    started = run_local("up", *SERVING, run_dir=run_dir)
    try:
        assert started.returncode == 0, started.stderr
        settings = load_settings(run_dir / "settings.json")
        assert answers(f"{settings.slots['blue'].http}/v2/models/tiny/ready")
        assert shared_memory(Paths(run_dir)), "the server's shared memory does not carry the mark of its stack"
        supervisord = int((run_dir / "supervisord.pid").read_text())
        assert len(processes.of_run(run_dir)) >= 5  # with object storage, Prometheus, Envoy, tritonserver
        os.kill(supervisord, signal.SIGKILL)
        # Even before anybody calls `down`.
        wait_until(lambda: processes.of_run(run_dir) == [], timeout=30)
        assert shared_memory(Paths(run_dir)) == []
        assert run_local("status", run_dir=run_dir).returncode == 1
    finally:
        stopped = run_local("down", run_dir=run_dir)
    assert stopped.returncode == 0, stopped.stderr
    assert_nothing_left(run_dir)
    # Another stack on the same machine did not notice.
    assert answers(f"{serving_stack.prometheus}/-/ready")


def test_a_component_that_cannot_start_is_named_with_its_log_and_nothing_is_left(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "prometheus").write_text("a file where Prometheus wants its folder")
    started = run_local("up", *SERVING, run_dir=run_dir)
    assert started.returncode == ComponentDown.exit_code
    assert "prometheus ended" in started.stderr
    assert "not a directory" in started.stderr  # from its log
    assert "Traceback" not in started.stderr
    assert_nothing_left(run_dir)


def test_an_interrupted_start_leaves_nothing(tmp_path: Path) -> None:
    import subprocess
    import sys

    from local.paths import ROOT

    run_dir = tmp_path / "run"
    command = [sys.executable, "-m", "local", "up", *SERVING, "--run-dir", str(run_dir)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: processes.of_run(run_dir))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 130
    assert_nothing_left(run_dir)


def test_a_port_taken_meanwhile_is_only_a_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = plan.free_ports
    chosen: list[dict[str, int]] = []
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()

        def first_a_taken_one(names: list[str]) -> dict[str, int]:
            ports = choose(names)
            if not chosen:
                ports["prometheus"] = thief.getsockname()[1]
            chosen.append(ports)
            return ports

        monkeypatch.setattr(plan, "free_ports", first_a_taken_one)
        run_dir = tmp_path / "run"
        try:
            stack.up(run_dir, frozenset({"airflow", "guard"}))
            assert len(chosen) == 2
            assert answers(f"{load_settings(run_dir / 'settings.json').prometheus}/-/ready")
        finally:
            stack.down(run_dir)
    assert_nothing_left(run_dir)


def test_only_processes_of_the_same_run_folder_are_found(tmp_path: Path) -> None:
    import subprocess

    environment = {**os.environ, "RELEASE_RUN_DIR": f"{tmp_path}/run-2"}
    other = subprocess.Popen(["sleep", "60"], env=environment)
    try:
        wait_until(lambda: processes.of_run(tmp_path / "run-2") == [other.pid])
        assert processes.end(tmp_path / "run") == 0
        assert other.poll() is None
        began = time.monotonic()
        assert processes.end(tmp_path / "run-2") == 1
        assert time.monotonic() - began < 5
    finally:
        other.kill()
        other.wait()


def test_secrets_and_configuration_are_written_whole(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.make()
    prepared = plan.prepare(paths, frozenset({"airflow"}))
    assert len(set(prepared.ports.values())) == len(prepared.ports)
    json.loads((paths.config / "envoy.json").read_text())
    key = (paths.secrets / "approval.key").read_text()
    assert plan.prepare(paths, frozenset({"airflow"})).ports != prepared.ports
    assert (paths.secrets / "approval.key").read_text() == key


def test_a_child_without_the_mark_is_ended_with_its_parent(tmp_path: Path) -> None:
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    parent = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], env={{}})\n"
        "print(child.pid, flush=True); child.wait()"
    )
    environment = {**os.environ, processes.RUN_DIR_VARIABLE: str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", parent], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        unmarked = int(process.stdout.readline())
        wait_until(lambda: unmarked in processes.of_run(tmp_path))
        # The parent ends at once, so that nothing but its birth ties the child to this run.
        assert processes.end(tmp_path, patience_s=1) == 2
    wait_until(lambda: not Path(f"/proc/{unmarked}").exists() or "Z" in Path(f"/proc/{unmarked}/stat").read_text())
