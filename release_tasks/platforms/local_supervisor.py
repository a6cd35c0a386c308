"""Start and stop the servers of the slots through supervisord's XML-RPC interface on its Unix socket."""

from __future__ import annotations

import http.client
import socket
import xmlrpc.client
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from release_tasks.errors import ComponentDown

_TIMEOUT_S = 30.0
_NOT_RUNNING = 70  # supervisord's fault code


@dataclass(frozen=True)
class ProcessInfo:
    """What supervisord says of a program."""

    state: str
    pid: int
    description: str

    @property
    def ended(self) -> bool:
        """Whether it ended by itself: supervisord starts it again, or has given up."""
        return self.state in ("EXITED", "FATAL", "BACKOFF", "UNKNOWN")


class Supervisor:
    """The programs of one stack."""

    def __init__(self, socket_path: Path) -> None:
        self._path = socket_path

    def info(self, program: str) -> ProcessInfo:
        """What the program does now.

        Raises:
            ComponentDown: supervisord does not answer.
        """
        found = self._call("getProcessInfo", program)
        return ProcessInfo(str(found["statename"]), int(found["pid"]), str(found["description"]))

    def start(self, program: str) -> None:
        """Start the program, without waiting for anything."""
        self._call("startProcess", program, False)

    def stop(self, program: str) -> None:
        """Stop the program and wait until it is gone; one that does not run is fine."""
        try:
            self._call("stopProcess", program)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != _NOT_RUNNING:
                raise

    def _call(self, method: str, *arguments: object) -> Any:
        proxy = xmlrpc.client.ServerProxy("http://localhost/RPC2", transport=_UnixTransport(self._path))
        try:
            return getattr(proxy.supervisor, method)(*arguments)
        except xmlrpc.client.Fault:
            raise
        except (OSError, http.client.HTTPException, xmlrpc.client.Error) as error:
            raise ComponentDown(
                f"supervisord does not answer on {self._path}: {error}",
                remedy="the stack is not running: `make down up`",
            ) from error


class _UnixTransport(xmlrpc.client.Transport):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._made = _UnixConnection(path)

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        return self._made

    def request(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().request(*arguments, **options)
        finally:
            self._made.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
