"""supervisord: its configuration, its start, and talking to it."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import sys
import time
import xmlrpc.client
from pathlib import Path
from typing import Any

from local.component import Component
from local.paths import ROOT, RUN_DIR_VARIABLE, Paths
from release_tasks.errors import ComponentDown
from release_tasks.settings import SETTINGS_VARIABLE


def write_configuration(paths: Paths, components: list[Component]) -> Path:
    """Write supervisord.conf. Nothing starts by itself: `up` starts and checks one component after the other."""
    common = [
        "[unix_http_server]",
        f"file = {paths.supervisor_socket}",
        "chmod = 0600",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface",
        "[supervisord]",
        f"logfile = {paths.log('supervisord')}",
        f"pidfile = {paths.run / 'supervisord.pid'}",
        f"childlogdir = {paths.logs}",
        *(["user = root"] if os.geteuid() == 0 else []),
        "",
    ]
    file = paths.config / "supervisord.conf"
    text = "\n".join(common) + "".join(_program(paths, component) for component in components)
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
    return file


def _program(paths: Paths, component: Component) -> str:
    lines = {
        "command": " ".join(_quoted(word) for word in (*_dies_with_supervisord(), *component.command)),
        "directory": component.directory,
        "autostart": "false",
        "autorestart": "true",
        "startsecs": 1,
        "startretries": 3,
        "stopsignal": component.stop_signal,
        "stopwaitsecs": component.stop_wait_s,
        # Model servers and Airflow have children of their own: what is left of the group after a stop is killed.
        "killasgroup": "true",
        "redirect_stderr": "true",
        "stdout_logfile": paths.log(component.name),
        "stdout_logfile_maxbytes": "20MB",
        "stdout_logfile_backups": 1,
    }
    if component.user:
        lines["user"] = component.user
    if component.environment:
        pairs = (f'{name}="{_escaped(value)}"' for name, value in component.environment.items())
        lines["environment"] = ",".join(pairs)
    body = "\n".join(f"{key} = {value}" for key, value in lines.items())
    return f"\n[program:{component.name}]\n{body}\n"


def _dies_with_supervisord() -> list[str]:
    """Where the kernel and util-linux can: end the component when supervisord is killed. Elsewhere `down` does."""
    return ["setpriv", "--pdeathsig=TERM"] if shutil.which("setpriv") else []


def _escaped(value: str) -> str:
    return value.replace("%", "%%").replace('"', '\\"')


def _quoted(word: str) -> str:
    if not word or any(char in word for char in " \"';\\#$"):
        return "'" + word.replace("%", "%%") + "'"
    return word.replace("%", "%%")


def launch(paths: Paths, configuration: Path) -> None:
    """Start supervisord as a daemon that carries this run folder's mark.

    Raises:
        ComponentDown: it does not answer.
    """
    environment = {
        **os.environ,
        RUN_DIR_VARIABLE: str(paths.run),
        SETTINGS_VARIABLE: str(paths.settings),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(configuration)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    limit = time.monotonic() + 15
    while done.returncode == 0 and time.monotonic() < limit:
        if running(paths):
            return
        time.sleep(0.05)
    raise ComponentDown(
        "supervisord did not start", log_tail=(done.stdout + done.stderr)[-1500:] or tail(paths.log("supervisord"))
    )


def running(paths: Paths) -> bool:
    """Whether supervisord of this run folder answers."""
    try:
        return bool(connect(paths).supervisor.getState())
    except (OSError, xmlrpc.client.Error, http.client.HTTPException):
        return False


def connect(paths: Paths, timeout_s: float = 60) -> Any:
    """A proxy for supervisord's XML-RPC interface."""
    transport = _UnixTransport(str(paths.supervisor_socket), timeout_s)
    return xmlrpc.client.ServerProxy("http://localhost/RPC2", transport=transport)


def tail(log: Path, lines: int = 15) -> str:
    """Last lines of a log; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


class _UnixTransport(xmlrpc.client.Transport):
    """XML-RPC over a Unix socket, with a time-out."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__()
        self._made = _UnixConnection(path, timeout_s)

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        return self._made

    def request(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().request(*arguments, **options)
        finally:
            self._made.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
