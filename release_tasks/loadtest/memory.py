"""Memory of a server on this machine while it is under load."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

import psutil

MIB = 2**20


def server_process(http: str) -> psutil.Process | None:
    """The process that listens at a loopback address of this machine; None where it is elsewhere."""
    address = urlsplit(http)
    if address.hostname not in ("127.0.0.1", "localhost", "::1"):
        return None
    for connection in psutil.net_connections(kind="tcp"):
        here = connection.laddr and connection.laddr.port == address.port
        if connection.status == psutil.CONN_LISTEN and here and connection.pid:
            return psutil.Process(connection.pid)
    return None


class MemorySampler:
    """Samples the resident memory of a process and its children, MiB, until it is left."""

    def __init__(self, process: psutil.Process, every_s: float = 0.5) -> None:
        self.samples: list[tuple[float, float]] = []
        self._process, self._every = process, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def last(self, seconds: float) -> list[float]:
        """The samples of the last that many seconds."""
        if not self.samples:
            return []
        newest = self.samples[-1][0]
        return [value for at, value in self.samples if newest - at <= seconds]

    def _loop(self) -> None:
        elapsed = 0.0
        while not self._stop.is_set():
            try:
                family = [self._process, *self._process.children(recursive=True)]
                self.samples.append((elapsed, sum(p.memory_info().rss for p in family) / MIB))
            except psutil.NoSuchProcess:
                return  # the server died: too few samples make the check inconclusive
            self._stop.wait(self._every)
            elapsed += self._every
