"""The whole stack in a run folder of its own, and releases told as given / when / then."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from local.demo import SUMMARY, session
from local.demo_approver import Approver
from local.demo_client import Airflow
from local.demo_story import Row
from local.demo_traffic import Users, served_release
from local.demo_watch import RELEASE, TRAINING, Watch
from local.paths import ROOT, Paths

PATIENCE_S = 900.0


@dataclass(frozen=True)
class Told:
    """What the demo printed, how it ended, and its rows by candidate."""

    code: int
    output: str
    rows: dict[str, dict[str, Any]]


def python(*arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
    )


@dataclass
class Stage:
    """The running stack with its users and its approver."""

    paths: Paths
    admin: Airflow
    approver: Approver
    users: Users
    watches: dict[str, Watch] = field(default_factory=dict)
    answering: bool = True

    def given_a_candidate(self, recipe: str, name: str = "") -> Watch:
        """Train it; the asset event starts its release."""
        watch = Watch(recipe, self.admin, print, lambda: self.users.count("failed"), self.stable)
        self.watches[name or recipe] = watch
        watch.begin(f"e2e-{time.time_ns()}-{recipe}")
        self.until(lambda: self._found(watch), "its release run")
        return watch

    def when_it_ends(self, watch: Watch) -> Row:
        """Answer the approver's questions until the story is over."""
        rows: list[Row] = []

        def over() -> bool:
            row = watch.look()
            if row is not None:
                rows.append(row)
            return bool(rows)

        self.until(over, f"the end of {watch.recipe}")
        return rows[0]

    def when_task_is(self, watch: Watch, dag: str, task: str, *states: str) -> str:
        """Wait for a state of one task; the run's id."""

        def reached() -> bool:
            watch.look()
            return watch.state(dag, task) in states

        self.until(reached, f"{dag}.{task} to be {states}")
        return watch.run_ids[dag]

    def until(self, true: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < limit, f"waited in vain for {what}"
            if self.answering:
                self.approver.look()
            time.sleep(1)

    def end_of(self, dag: str, run_id: str) -> str:
        """Final state of a run."""
        states: list[str] = []

        def over() -> bool:
            states[:] = [self.admin.run(dag, run_id)["state"]]
            return states[0] in ("success", "failed")

        self.until(over, f"the end of {dag} {run_id}")
        return states[0]

    def stable(self) -> str:
        """Release that users get."""
        return served_release(self.paths, "ranker")

    def weights(self) -> dict[str, int]:
        """Percent of traffic per slot, as Envoy has it in force."""
        from release_tasks.platforms import open_platform
        from release_tasks.settings import load_settings

        return open_platform(load_settings(self.paths.settings)).weights()

    def _found(self, watch: Watch) -> bool:
        if self.admin.run(TRAINING, watch.run_ids[TRAINING])["state"] == "failed":
            raise AssertionError(f"training of {watch.recipe} failed")
        for run in self.admin.runs(RELEASE):
            uri = self.admin.xcom(RELEASE, run["dag_run_id"], "candidate", "uri")
            if uri and str(uri).rstrip("/").endswith(f"/{watch.run_ids[TRAINING]}"):
                watch.run_ids[RELEASE] = run["dag_run_id"]
        return RELEASE in watch.run_ids


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for a stack of its own, which is stopped at the end."""
    folder = tmp_path_factory.mktemp("stack") / "run"
    try:
        yield folder
    finally:
        done = python("local", "down", "--run-dir", str(folder))
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def told(run_dir: Path) -> Told:
    """The demo, as a user runs it: seven candidates through the whole stack."""
    SUMMARY.unlink(missing_ok=True)
    done = python("local", "demo", "--run-dir", str(run_dir), timeout=2400)
    assert SUMMARY.exists(), done.stdout[-4000:] + done.stderr[-2000:]
    rows = {row["candidate"]: row for row in json.loads(SUMMARY.read_text(encoding="utf-8"))}
    return Told(done.returncode, done.stdout, rows)


@pytest.fixture(scope="session")
def with_stable(told: Told, run_dir: Path) -> Stage:
    """The stack that the demo leaves running: a stable release, and users who come."""
    paths = Paths(run_dir.resolve())
    admin = session(paths, "admin")
    stage = Stage(paths, admin, Approver(session(paths, "alice"), print), Users(paths))
    assert stage.stable(), told.output[-3000:]
    return stage
