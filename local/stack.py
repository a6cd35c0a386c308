"""Start, stop and look at the whole stack."""

from __future__ import annotations

import fcntl
import http.client
import json
import shutil
import sys
import time
import xmlrpc.client
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from local import airflow, gcs, plan, processes, supervisor, triton
from local.component import Component
from local.paths import Paths
from release_tasks.errors import ComponentDown, ReleaseError

_ATTEMPTS = 3  # a port may be taken between choosing and binding it
_STOP_S = 20
_WORD_S = 20  # between two words about a component that takes long
_STOP_ORDER = ("traffic", "guard", "airflow", "envoy")  # users first, then the rest


def up(run: Path, without: frozenset[str] = frozenset()) -> None:
    """Start everything and wait until it is healthy. A stack that runs already is left as it is.

    Raises:
        ComponentDown: a component did not become healthy; nothing is left running.
        DependencyMissing: a program or package is not installed.
    """
    paths = Paths(run.resolve())
    paths.make()
    with _locked(paths):
        if supervisor.running(paths) and not _unhealthy(paths):
            print(f"already running: {paths.settings}")
            return
        for attempt in range(1, _ATTEMPTS + 1):
            _stop(paths)
            try:
                _start(paths, without)
                return
            except ReleaseError as error:
                _stop(paths)
                if attempt == _ATTEMPTS or "in use" not in error.log_tail.lower():
                    raise
                _say("  a port was taken meanwhile, starting again with others")
            except BaseException:
                _stop(paths)
                raise


def down(run: Path) -> None:
    """Stop everything, in order, and leave no process, port, socket or shared-memory file."""
    paths = Paths(run.resolve())
    if not paths.run.exists():
        print("not running")
        return
    with _locked(paths):
        print("stopped" if _stop(paths) else "not running")


def status(run: Path) -> int:
    """Print what runs. Returns 0 when everything that should run does."""
    paths = Paths(run.resolve())
    if not supervisor.running(paths):
        left = processes.of_run(paths.run)
        print(f"not running{f', but {len(left)} processes are left: `make down` ends them' if left else ''}")
        return 1
    for info in supervisor.connect(paths).supervisor.getAllProcessInfo():
        print(f"  {info['name']:<22} {info['statename']:<9} {info['description']}")
    print(f"settings: {paths.settings}")
    return 1 if _unhealthy(paths) else 0


def _start(paths: Paths, without: frozenset[str]) -> None:
    began = time.monotonic()
    _keep_old_logs(paths)
    prepared = plan.prepare(paths, without)
    triton.assemble_backends(paths.backends)
    supervisor.launch(paths, supervisor.write_configuration(paths, prepared.components))
    for group in prepared.groups():
        for component in group:
            supervisor.connect(paths).supervisor.startProcess(component.name, False)
        started = time.monotonic()
        for component in group:
            _wait(paths, component, started)
        if group[0].name == "fake-gcs-server":
            gcs.create_bucket(prepared.ports)
        if group[0].name == "postgres":
            started = time.monotonic()
            airflow.migrate(paths, prepared.ports)
            _say(f"  {'airflow db migrate':<22} done after {time.monotonic() - started:.1f} s")
    record = {"components": [c.name for c in prepared.components if c.start]}
    (paths.run / "expected.json").write_text(json.dumps(record), encoding="utf-8")
    _say(f"up in {time.monotonic() - began:.0f} s: {paths.settings}")


def _keep_old_logs(paths: Paths) -> None:
    """Every start has logs of its own, so that a tail shows this start; those of the one before are kept."""
    before = paths.run / "logs.before"
    shutil.rmtree(before, ignore_errors=True)
    paths.logs.rename(before)
    paths.logs.mkdir()


def _wait(paths: Paths, component: Component, began: float) -> None:
    """Wait until a component is healthy, telling a person.

    Raises:
        ComponentDown: it ended, or was not healthy in time.
    """
    rpc = supervisor.connect(paths).supervisor
    next_word = time.monotonic() + _WORD_S
    while True:
        waited = time.monotonic() - began
        if time.monotonic() > next_word:
            next_word += _WORD_S
            _say(f"  {component.name:<22} not ready yet after {waited:.0f} s")
        state = rpc.getProcessInfo(component.name)["statename"]
        if state == "RUNNING" and (component.healthy is None or component.healthy()):
            _say(f"  {component.name:<22} ready after {waited:.1f} s")
            return
        if state in ("FATAL", "EXITED", "BACKOFF") or waited > component.deadline_s:
            why = f"ended ({state})" if waited <= component.deadline_s else f"was not healthy after {waited:.0f} s"
            raise ComponentDown(
                f"{component.name} {why}",
                remedy=f"the whole log: {paths.log(component.name)}",
                log_tail=supervisor.tail(paths.log(component.name)),
            )
        time.sleep(0.1)


def _unhealthy(paths: Paths) -> list[str]:
    """Names of the components that should run and do not."""
    try:
        expected = json.loads((paths.run / "expected.json").read_text(encoding="utf-8"))["components"]
        infos = supervisor.connect(paths).supervisor.getAllProcessInfo()
    except (OSError, ValueError, KeyError, xmlrpc.client.Error, http.client.HTTPException):
        return ["supervisord"]
    running = {info["name"] for info in infos if info["statename"] in ("RUNNING", "STARTING")}
    return [name for name in expected if name not in running]


def _stop(paths: Paths) -> bool:
    """Stop whatever of this run folder runs. Returns whether anything did."""
    was_running = supervisor.running(paths)
    if was_running:
        _stop_in_order(paths)
    left = processes.end(paths.run)
    for slot in triton.SLOTS:
        processes.remove_shared_memory(paths.shared_memory_prefix(slot))
    for file in (paths.supervisor_socket, paths.run / "supervisord.pid", paths.run / "expected.json"):
        file.unlink(missing_ok=True)
    shutil.rmtree(paths.backends, ignore_errors=True)
    return was_running or left > 0


def _stop_in_order(paths: Paths) -> None:
    try:
        rpc = supervisor.connect(paths).supervisor
        names = [info["name"] for info in rpc.getAllProcessInfo() if info["statename"] in ("RUNNING", "STARTING")]
        for wave in _waves(names):
            _stop_wave(rpc, wave)
        rpc.shutdown()
    except (OSError, xmlrpc.client.Error, http.client.HTTPException):
        return  # it died meanwhile; the leftovers are ended by their mark
    limit = time.monotonic() + 10
    while supervisor.running(paths) and time.monotonic() < limit:
        time.sleep(0.05)


def _stop_wave(rpc: Any, names: list[str]) -> None:
    """Tell all of them to stop, then wait until they have; supervisord kills those that take too long."""
    for name in names:
        with suppress(xmlrpc.client.Fault):  # it ended by itself meanwhile
            rpc.stopProcess(name, False)
    limit = time.monotonic() + _STOP_S
    while any(rpc.getProcessInfo(name)["statename"] == "STOPPING" for name in names) and time.monotonic() < limit:
        time.sleep(0.05)


def _waves(names: list[str]) -> Iterator[list[str]]:
    """Names in the order in which they are stopped; those of one wave end together."""
    left = list(names)
    for prefix in _STOP_ORDER:
        wave = [name for name in left if name.startswith(prefix)]
        left = [name for name in left if name not in wave]
        if wave:
            yield wave
    if left:
        yield left


@contextmanager
def _locked(paths: Paths) -> Iterator[None]:
    """One `up` or `down` at a time."""
    paths.run.mkdir(parents=True, exist_ok=True)
    with (paths.run / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
