"""Follows one candidate through its DAG runs: training, release, promotion."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from local.demo_client import OVER, Airflow
from local.demo_story import ASKED, END, LOADED, PROMOTION, Row

TRAINING, RELEASE, PROMOTE = "recsys_training", "model_release", "model_promotion"
QUIET = ("none", "scheduled", "queued", "removed")
FAILED = ("failed", "upstream_failed")


@dataclass
class Watch:
    """One candidate on its way.

    Attributes:
        recipe: which.
        airflow: session that looks.
        say: prints a line.
        count_failed: requests of users that failed so far.
        stable: name of the candidate that users get now.
        run_ids: DAG id → run id, as they come up.
        reached: milestones.
    """

    recipe: str
    airflow: Airflow
    say: Callable[[str], None]
    count_failed: Callable[[], int]
    stable: Callable[[], str]
    run_ids: dict[str, str] = field(default_factory=dict)
    reached: set[str] = field(default_factory=set)
    release: str = ""
    _states: dict[str, dict[str, str]] = field(default_factory=dict)
    _over: dict[str, str] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _failed_before: int = 0

    def begin(self, run_id: str) -> None:
        """Trigger the training."""
        self.run_ids[TRAINING] = run_id
        self.airflow.trigger(TRAINING, run_id, {"recipe": self.recipe})
        self.say(f"{self.recipe}: training triggered")

    def look(self) -> Row | None:
        """Bring everything up to date; the row once the candidate's story is over."""
        for dag, run_id in list(self.run_ids.items()):
            if dag not in self._over:
                self._follow(dag, run_id)
        self._milestones()
        row = self._ending()
        if row is not None:
            self.reached.update({LOADED, ASKED, PROMOTION, END})
            self.say(f"{self.recipe}: {row.verdict} at {row.stage}: {row.reason}")
        return row

    def state(self, dag: str, task: str) -> str:
        """State of a task; `none` while it has none."""
        return self._states.get(dag, {}).get(task, "none")

    def _follow(self, dag: str, run_id: str) -> None:
        seen = self._states.setdefault(dag, {})
        for name, state, _ in self.airflow.changes(dag, run_id, seen):
            if state not in QUIET:
                self.say(f"{self.recipe:<16} {dag:<16} {name:<16} {state}")
        state = self.airflow.run(dag, run_id)["state"]
        if state in OVER:
            self._over[dag] = state

    def _milestones(self) -> None:
        if self.state(RELEASE, "load_test") == "success":
            self.reached.add(LOADED)
        if self.state(RELEASE, "regression") == "success":
            self.reached.add(ASKED)
        if self.state(RELEASE, "upload") == "success" and not self.release:
            self.release = self.airflow.xcom(RELEASE, self.run_ids[RELEASE], "upload")["release"]
        if self.state(RELEASE, "promote_now") == "success" and PROMOTE not in self.run_ids:
            self._failed_before = self.count_failed()
            self.run_ids[PROMOTE] = f"release__{self.release}"
            self.reached.add(PROMOTION)

    def _ending(self) -> Row | None:
        for dag in (TRAINING, RELEASE, PROMOTE):
            if self._over.get(dag) == "failed":
                return self._stopped(dag)
        if self._over.get(PROMOTE) == "success":
            return self._row("promoted", "promote", "every step passed")
        return None

    def _stopped(self, dag: str) -> Row:
        """From the first task that failed by itself; the ones after it only follow."""
        failed = [ti for ti in self.airflow.tasks(dag, self.run_ids[dag]) if ti["state"] == "failed"]
        first = min(failed, key=lambda ti: ti["end_date"] or "", default=None)
        stage = first["task_id"] if first else dag
        reason = self._reason(dag, first) if first else "no task failed by itself"
        if dag == PROMOTE:
            rolled_back = self._reason(dag, {"task_id": "settle", "map_index": -1})
            verdict = "rolled back" if "rolled back" in rolled_back else "stopped"
        else:
            verdict = "rejected" if stage == "approve" else "stopped"
        return self._row(verdict, stage, reason)

    def _reason(self, dag: str, ti: dict[str, Any]) -> str:
        found = self.airflow.xcom(dag, self.run_ids[dag], ti["task_id"], "failure", ti["map_index"])
        return str(found["reason"]) if found else f"{ti['task_id']} failed; see its log"

    def _row(self, verdict: str, stage: str, reason: str) -> Row:
        moved = PROMOTE in self.run_ids
        failed = self.count_failed() - self._failed_before if moved else 0
        seconds = round(time.monotonic() - self._began, 1)
        return Row(self.recipe, verdict, stage, reason, self.stable(), failed, seconds)
