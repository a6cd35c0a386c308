"""Programs that no Python package carries."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from local.paths import TOOLS
from release_tasks.errors import DependencyMissing

_UNPACKED = TOOLS / "prometheus"


def prometheus_binary() -> Path:
    """Prometheus on the PATH, or the distribution's package, downloaded once and unpacked without root.

    Raises:
        DependencyMissing: neither works.
    """
    found = shutil.which("prometheus")
    if found:
        return Path(found)
    unpacked = _UNPACKED / "usr" / "bin" / "prometheus"
    TOOLS.mkdir(parents=True, exist_ok=True)
    with (TOOLS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not unpacked.exists():
            _fetch()
    return unpacked


def _fetch() -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise _missing(f"there is no {tool} to fetch it with")
    print("  prometheus: downloading the distribution's package", file=sys.stderr, flush=True)
    part = TOOLS / "prometheus.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    if _run(["apt-get", "download", "prometheus"], part).returncode != 0:
        # The package lists may be absent or older than the mirror.
        _run(["apt-get", "update"], part)
        again = _run(["apt-get", "download", "prometheus"], part)
        if again.returncode != 0:
            raise _missing(f"`apt-get download prometheus` said: {again.stderr.strip()[-300:]}")
    archive = next(part.glob("prometheus_*.deb"))
    unpack = _run(["dpkg-deb", "-x", str(archive), str(part / "root")], part)
    if unpack.returncode != 0:
        raise _missing(f"`dpkg-deb -x` said: {unpack.stderr.strip()[-300:]}")
    shutil.rmtree(_UNPACKED, ignore_errors=True)
    (part / "root").rename(_UNPACKED)
    shutil.rmtree(part)


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def _missing(why: str) -> DependencyMissing:
    return DependencyMissing(
        f"Prometheus is not on the PATH and could not be fetched: {why}",
        remedy="install Prometheus 2.40 or later (Debian, Ubuntu: `apt-get install prometheus`; others: the release "
        "archive of prometheus.io) so that `prometheus` is on the PATH, then run `make up` again",
    )
