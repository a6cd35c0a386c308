"""Airflow's four components on PostgreSQL, with a local executor and password logins for four roles."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from local import postgres
from local.component import Component
from local.http import answers, get_json
from local.paths import ROOT, RUN_DIR_VARIABLE, Paths
from local.secrets import make_secret, write_private
from local.supervisor import tail
from release_tasks.errors import ComponentDown
from release_tasks.settings import SETTINGS_VARIABLE

USERS = {"admin": "admin", "alice": "op", "bob": "user", "vic": "viewer"}
PARALLELISM = 6  # every slot is a process of 31 MB, busy or not

_HEALTHY_S = 600  # 20 s on an idle machine; imports crawl on a loaded one
_MIGRATE_S = 600

# Option of the command, and the name under which the health page reports it. No component serves logs on a port of its
# own: all of them write to one folder, and the api-server reads them there.
_COMPONENTS = {
    "api-server": ([], ""),
    "scheduler": (["--skip-serve-logs"], "scheduler"),
    "dag-processor": ([], "dag_processor"),
    "triggerer": (["--skip-serve-logs"], "triggerer"),
}


def components(paths: Paths, ports: dict[str, int]) -> list[Component]:
    """Make keys and logins, and describe the four processes."""
    variables = environment(paths, ports)
    (paths.run / "airflow").mkdir(exist_ok=True)
    logins = _logins(paths)
    write_private(paths.airflow, json.dumps({"url": _url(ports), "users": logins}, indent=1))
    return [
        Component(
            name=f"airflow-{name}",
            command=[*_airflow(), name, *options],
            environment=variables,
            healthy=_health(ports, reported),
            deadline_s=_HEALTHY_S,
        )
        for name, (options, reported) in _COMPONENTS.items()
    ]


def migrate(paths: Paths, ports: dict[str, int]) -> None:
    """Bring the database to this Airflow's schema.

    Raises:
        ComponentDown: it failed.
    """
    log = paths.log("airflow-migrate")
    variables = {**environment(paths, ports), RUN_DIR_VARIABLE: str(paths.run)}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    with log.open("w") as out:
        done = subprocess.run(
            [*_airflow(), "db", "migrate"],
            env={**inherited, **variables},
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=_MIGRATE_S,
            check=False,
        )
    if done.returncode != 0:
        raise ComponentDown("airflow: `airflow db migrate` failed", remedy=f"see {log}", log_tail=tail(log))


def environment(paths: Paths, ports: dict[str, int]) -> dict[str, str]:
    """Airflow's configuration as variables, which also every task inherits."""
    home = paths.run / "airflow"
    options = {
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": str(PARALLELISM),
        "CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__FERNET_KEY": _fernet_key(paths),
        "CORE__EXECUTION_API_SERVER_URL": f"{_url(ports)}/execution/",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(paths.secrets / "airflow-passwords.json"),
        "DATABASE__SQL_ALCHEMY_CONN": postgres.url(paths, ports),
        "DATABASE__SQL_ALCHEMY_POOL_SIZE": "4",
        "API__HOST": "127.0.0.1",
        "API__PORT": str(ports["airflow"]),
        "API__BASE_URL": _url(ports),
        "API__WORKERS": "1",
        "API__SECRET_KEY": make_secret(paths.secrets / "airflow-secret.key"),
        "API_AUTH__JWT_SECRET": make_secret(paths.secrets / "airflow-jwt.key"),
        "DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
        # How often unanswered approvals are looked at; the default of 15 s makes short time-outs late.
        "SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "3",
        "LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    variables = {f"AIRFLOW__{name}": value for name, value in options.items()}
    return {
        **variables,
        "AIRFLOW_HOME": str(home),
        SETTINGS_VARIABLE: str(paths.settings),
        "RELEASE_PROFILE": "local",
        "PYTHONPATH": str(ROOT),
        # Requests between the components must not go to a proxy of the environment.
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def _logins(paths: Paths) -> dict[str, str]:
    file = paths.secrets / "airflow-passwords.json"
    if not file.exists():
        write_private(file, json.dumps({name: secrets.token_urlsafe(12) for name in USERS}))
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _fernet_key(paths: Paths) -> str:
    return base64.urlsafe_b64encode(bytes.fromhex(make_secret(paths.secrets / "airflow-fernet.key", 32))).decode()


def _health(ports: dict[str, int], reported: str) -> Callable[[], bool]:
    page = f"{_url(ports)}/api/v2/monitor/health"
    if not reported:
        return lambda: answers(page)

    def healthy() -> bool:
        try:
            return bool(get_json(page)[reported]["status"] == "healthy")
        except (OSError, ValueError, KeyError):
            return False

    return healthy


def _airflow() -> list[str]:
    return [str(Path(sys.executable).parent / "airflow")]


def _url(ports: dict[str, int]) -> str:
    return f"http://127.0.0.1:{ports['airflow']}"
