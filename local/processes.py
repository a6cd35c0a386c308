"""Processes and shared memory that a stack left behind, found by its mark and by nothing else."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from local.paths import RUN_DIR_VARIABLE

SHARED_MEMORY = Path("/dev/shm")


def of_run(run: Path) -> list[int]:
    """Pids of living processes whose environment carries this run folder's mark, without our own ancestors."""
    mark = f"{RUN_DIR_VARIABLE}={run}".encode()
    spared = _ancestors()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) in spared:
            continue
        try:
            marked = mark in (folder / "environ").read_bytes().split(b"\0")
            dead = (folder / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
        except OSError:  # gone meanwhile, or of another user
            continue
        if marked and not dead:
            found.append(int(folder.name))
    return found


def end(run: Path, patience_s: float = 6) -> int:
    """End every process of this run folder, at first politely. Returns how many there were."""
    first = of_run(run)
    _signal(first, signal.SIGTERM)
    limit = time.monotonic() + patience_s
    while of_run(run) and time.monotonic() < limit:
        time.sleep(0.1)
    limit = time.monotonic() + patience_s
    # A process may still be forking: look again until none is left.
    while (left := of_run(run)) and time.monotonic() < limit:
        _signal(left, signal.SIGKILL)
        time.sleep(0.1)
    return len(first)


def remove_shared_memory(prefix: str) -> int:
    """Remove the shared-memory files whose names begin so. Returns how many there were."""
    if not SHARED_MEMORY.is_dir():
        return 0
    files = [file for file in SHARED_MEMORY.iterdir() if file.name.startswith(prefix)]
    for file in files:
        file.unlink(missing_ok=True)
    return len(files)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _ancestors() -> set[int]:
    """Our own pid and those above it: `down` may be called from a process that carries the mark."""
    pid, found = os.getpid(), set[int]()
    while pid > 1:
        found.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return found
