"""Becomes the tritonserver of one slot (`python -m local.slot blue`), so that supervisord owns the server's pid."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from local import triton
from local.paths import RUN_DIR_VARIABLE, Paths
from local.processes import remove_shared_memory
from release_tasks.errors import ReleaseError
from release_tasks.settings import load_settings


def main(slot: str) -> int:
    """Clear what a killed predecessor left, then become the server."""
    paths = Paths(Path(os.environ[RUN_DIR_VARIABLE]))
    if not (paths.slots / slot / "repository").exists():
        print(f"slot {slot} has no model repository; deploy a release first", file=sys.stderr)
        return 1
    endpoints = load_settings(paths.settings).slots[slot]
    ports = {
        "http": urlsplit(endpoints.http).port or 0,
        "grpc": int(endpoints.grpc.rpartition(":")[2]),
        "metrics": urlsplit(endpoints.metrics).port or 0,
    }
    remove_shared_memory(paths.shared_memory_prefix(slot))
    command = triton.command(paths, slot, ports)
    os.execve(command[0], command, triton.environment())


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except ReleaseError as error:
        sys.exit(str(error))
