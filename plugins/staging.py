"""One staging server, several releases on their way: who is next.

A run takes the turn by a successful `staging_turn` and gives it back when `regression` is over, however it ended. Only
one `staging_turn` runs at a time in the whole DAG, so two runs cannot see the server free at the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowFailException

FIRST, LAST = "staging_turn", "regression"
OVER = frozenset({"success", "failed", "upstream_failed", "skipped", "removed"})


def occupants(states: Mapping[str, Mapping[str, str | None]], me: str) -> list[str]:
    """Other runs that hold the turn.

    Args:
        states: run id → task id → state, of ``FIRST`` and ``LAST``; a task without a state may be absent.
        me: the run that asks.
    """
    return [
        run
        for run, tasks in states.items()
        if run != me and tasks.get(FIRST) == "success" and tasks.get(LAST) not in OVER
    ]


class StagingTurn(BaseSensorOperator):  # type: ignore[misc]  # Airflow is not type-checked
    """Waits until no other run is on the staging server.

    It pokes in one process instead of being rescheduled: a task that is queued again before the executor has reported
    its last end is failed by the scheduler. As only one waits at a time, this takes one worker at most.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(mode="poke", max_active_tis_per_dag=1, **kwargs)

    def poke(self, context: Context) -> bool:
        """Whether the staging server is free."""
        others = _others(context)
        if others:
            self.log.info("staging is taken by %s", ", ".join(others))
        return not others


def ensure_turn(context: Context) -> None:
    """Called before every stage on staging: a stage that was cleared alone must not disturb another run.

    Raises:
        AirflowFailException: another run is on the staging server.
    """
    others = _others(context)
    if others:
        raise AirflowFailException(
            f"staging is taken by {', '.join(others)}; clear `{FIRST}` of this run to queue for it"
        )


def _others(context: Context) -> list[str]:
    ti = context["ti"]
    return occupants(ti.get_task_states(dag_id=ti.dag_id, task_ids=[FIRST, LAST]), ti.run_id)
