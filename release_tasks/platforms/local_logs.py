"""Last lines of a component's log, for error messages."""

from __future__ import annotations

import re
from pathlib import Path

_READ = 100_000  # bytes
_WIDTH = 600  # characters of a line that are shown

# tritonserver prints its reasons long before its last lines, and tables around them.
_REASON = re.compile(r"^E\d{4} |^error:|failed to load|UNAVAILABLE|Traceback|Error:|Exception")
_NOISE = re.compile(r"^\+-|^\|.*UNAVAILABLE|CudaDriverHelper|gpu_metrics|pinned_memory|^\| [a-z_]+ +\|")


def log_tail(path: Path, lines: int = 12, since: int = 0) -> str:
    """Last lines of a log written after byte ``since``; empty where there is none."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            # A log that was rotated meanwhile is shorter than `since`.
            file.seek(max(since if since <= size else 0, size - _READ))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line[:_WIDTH] for line in text.splitlines()[-lines:])


def server_log_tail(path: Path, since: int = 0) -> str:
    """What a model server said of its end: its reasons first, then its last lines; both after byte ``since``."""
    lines = [line for line in log_tail(path, 400, since).splitlines() if not _NOISE.search(line)]
    last = lines[-6:]
    reasons = [line for line in lines[:-6] if _REASON.search(line)]
    return "\n".join([*reasons[-10:], *last])
