"""What a promotion run does besides its stages: choose a release, and end failed when it did not end well."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

CHOSEN = "choose"


def skip_pick(context: Context) -> None:
    """Nothing to pick where the run was told which release to promote."""
    if context["params"].get("release"):
        raise AirflowSkipException(f"told to promote {context['params']['release']}")


def choose(params: dict[str, Any], picked: dict[str, Any] | None) -> dict[str, str]:
    """Address of the release and of its spec.

    Raises:
        AirflowSkipException: no signed candidate waits.
    """
    uri = params.get("release") or (picked or {}).get("release")
    if not uri:
        raise AirflowSkipException(f"no signed candidate of {params.get('name')} waits")
    uri = str(uri).rstrip("/")
    return {"release": uri, "spec": f"{uri}/release.yaml"}


def skip_unless_chosen(context: Context) -> None:
    """Before `settle`: a run that chose no release has nothing to settle."""
    if not context["ti"].xcom_pull(task_ids=CHOSEN):
        raise AirflowSkipException("no release was chosen")


def judge_run(states: dict[str, str | None], failures: dict[str, str]) -> None:
    """End the run failed unless it promoted or had nothing to do.

    Args:
        states: state of `pick`, `choose`, `promote` and `settle`.
        failures: task id → reason, of the tasks that gave one.

    Raises:
        AirflowFailException: with the reasons.
    """
    nothing_to_do = states.get(CHOSEN) == "skipped" and states.get("pick") == "success"
    promoted = states.get("promote") == "success" and states.get("settle") == "success"
    if promoted or nothing_to_do:
        return
    told = "; ".join(failures.values()) or ", ".join(f"{task} is {state}" for task, state in sorted(states.items()))
    raise AirflowFailException(f"not promoted: {told}")
