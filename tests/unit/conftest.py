"""Unit tests reach neither a process nor the network: what tries to fails here, so that the layer stays one."""

from __future__ import annotations

import socket
import subprocess
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _no_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"a unit test reached outside the process: {args!r}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
