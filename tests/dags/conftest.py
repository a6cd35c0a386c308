"""Airflow with a database of its own. Its variables are set before Airflow is imported anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_HOME = tempfile.TemporaryDirectory(prefix="release-gate-airflow-")

os.environ.update(
    {
        "AIRFLOW_HOME": _HOME.name,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_HOME.name}/airflow.db",
        "RELEASE_PROFILE": "local",
    }
)


@pytest.fixture(scope="session")
def airflow_db() -> None:
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(scope="session")
def bag(airflow_db: None) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(ROOT / "dags"))


def run_python(code: str, **variables: str) -> str:
    """Run code in a process of its own, so that imports of this one do not count; its standard output."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
