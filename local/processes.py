"""Processes and shared memory that a stack left behind, found by its mark and by nothing else."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from local.paths import RUN_DIR_VARIABLE

SHARED_MEMORY = Path("/dev/shm")


def of_run(run: Path) -> list[int]:
    """Pids of living processes whose environment carries this run folder's mark, and of all their descendants.

    Descendants count because a process that sets its title, as Airflow's workers do, overwrites its environment.
    Our own ancestors do not count.
    """
    mark = f"{RUN_DIR_VARIABLE}={run}".encode()
    parents = {pid: stat[0] for pid, stat in _living().items()}
    marked = {pid for pid in parents if _carries(pid, mark)}
    return sorted(pid for pid in parents if marked & _line(pid, parents) and pid not in _line(os.getpid(), parents))


def end(run: Path, patience_s: float = 6) -> int:
    """End every process of this run folder, at first politely. Returns how many there were."""
    # With their start times: a descendant whose parent has ended is known by nothing else, and pids are given again.
    born = _born(of_run(run))
    first = len(born)
    _signal(list(born), signal.SIGTERM)
    limit = time.monotonic() + patience_s
    while (left := _left(run, born)) and time.monotonic() < limit:
        time.sleep(0.1)
    limit = time.monotonic() + patience_s
    # A process may still be forking: look again until none is left.
    while (left := _left(run, born)) and time.monotonic() < limit:
        _signal(left, signal.SIGKILL)
        time.sleep(0.1)
    return first


def _left(run: Path, born: dict[int, str]) -> list[int]:
    """Which of the processes seen so far still live; new ones are added to what was seen."""
    living = _living()
    born.update({pid: start for pid, start in _born(of_run(run)).items() if pid not in born})
    return [pid for pid, start in born.items() if pid in living and living[pid][1] == start]


def _born(pids: list[int]) -> dict[int, str]:
    living = _living()
    return {pid: living[pid][1] for pid in pids if pid in living}


def _living() -> dict[int, tuple[int, str]]:
    """Pid → parent and start time of every process that is no zombie."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # gone meanwhile
                continue
            if fields[0] not in ("Z", "X"):
                found[int(folder.name)] = (int(fields[1]), fields[19])
    return found


def _carries(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone meanwhile, or of another user
        return False


def _line(pid: int, parents: dict[int, int]) -> set[int]:
    """A process and its ancestors."""
    found: set[int] = set()
    while pid > 1 and pid not in found:
        found.add(pid)
        pid = parents.get(pid, 0)
    return found


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
