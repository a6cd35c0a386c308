"""Run one command in its own process group, follow its output, and end the whole group."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

TAIL_LINES = 40
POLL_S = 0.1
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Finished:
    """How a command ended.

    Attributes:
        exit_code: as the shell knows it; negative is the number of the signal that killed it.
        result: the JSON object of the last line of standard output, or None.
        tail: the last lines of standard error.
    """

    exit_code: int
    result: dict[str, Any] | None
    tail: list[str]


@dataclass
class Command:
    """A command that can be stopped from a signal handler.

    Attributes:
        arguments: program and its arguments.
        cwd: folder it runs in.
        say: gets every line it prints.
        niceness: how much it yields to other processes, 0 to 19.
    """

    arguments: list[str]
    cwd: str
    say: Callable[[str], None]
    niceness: int = 0
    _process: subprocess.Popen[str] | None = None
    _last: str = ""
    _tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))

    def run(self) -> Finished:
        """Start it and wait. Whatever ends the wait (a time-out among them), no process of the group is left."""
        self._process = subprocess.Popen(
            self.arguments,
            cwd=self.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=self._before,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        readers = [
            threading.Thread(target=self._follow_output, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._follow_errors, args=(self._process.stderr,), daemon=True),
        ]
        for reader in readers:
            reader.start()
        try:
            while (code := self._process.poll()) is None:
                time.sleep(POLL_S)
        finally:
            self.stop()
        for reader in readers:
            reader.join(timeout=5)
        return Finished(code, _json(self._last), list(self._tail))

    def stop(self, grace_s: float = 3.0) -> None:
        """SIGTERM to the group, SIGKILL after the grace period. Nothing left to stop is fine."""
        # Only poll() is called: this may run in a signal handler above run(), where Popen.wait() would wait for ever
        # for the lock that the interrupted frame holds.
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGTERM)
            until = time.monotonic() + grace_s
            while process.poll() is None and time.monotonic() < until:
                time.sleep(POLL_S)
        _signal_group(process.pid, signal.SIGKILL)

    def _before(self) -> None:
        """In the child: a worker that is killed outright must not leave a stage behind that renews the lease."""
        os.nice(self.niceness)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

    def _follow_output(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                if line.strip():
                    self._last = line.strip()
                    self.say(line.rstrip())

    def _follow_errors(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._tail.append(line.rstrip())
                self.say(line.rstrip())


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _json(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
