"""Stages 13 to 15: users' traffic moves to a signed release, and goes back by itself."""

from __future__ import annotations

import os

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Context, CronTriggerTimetable, Param, TriggerRule, chain

from plugins.commands import MACROS, StageCall
from plugins.notify import on_failure
from plugins.promotion import CHOSEN, choose, judge_run, skip_pick, skip_unless_chosen
from plugins.stage_operator import module_task, stage_task

SERVICE = os.environ.get("RELEASE_SERVICE", "recsys")
STEPS = (1, 2, 3)
STAGES_HERE = [*(f"canary_{step}" for step in STEPS), "promote", "settle"]
# Tolerant: `settle` is rendered in runs that chose nothing, too.
RELEASE = f"{{{{ (ti.xcom_pull(task_ids='{CHOSEN}') or {{}}).get('release', '') }}}}"
SPEC = f"{{{{ (ti.xcom_pull(task_ids='{CHOSEN}') or {{}}).get('spec', '') }}}}"


def _choose(**context: object) -> dict[str, str]:
    ti = context["ti"]
    return choose(context["params"], ti.xcom_pull(task_ids="pick"))  # type: ignore[attr-defined, arg-type]


def _judge(**context: object) -> None:
    outcome(context)


def outcome(context: Context) -> None:
    """Read how the run went and fail unless it promoted or had nothing to do."""
    ti = context["ti"]
    watched = ["pick", CHOSEN, *STAGES_HERE]
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=watched, run_ids=[ti.run_id]).get(ti.run_id, {})
    told = {task: ti.xcom_pull(task_ids=task, key="failure") for task in STAGES_HERE}
    judge_run(states, {task: found["reason"] for task, found in told.items() if found})


with DAG(
    dag_id="model_promotion",
    schedule=CronTriggerTimetable("0 3 * * *", timezone="UTC"),
    max_active_runs=1,
    catchup=False,
    tags=["release-gate"],
    params={
        "name": Param(SERVICE, type="string", pattern=r"^[a-z][a-z0-9-]{0,40}$", description="Name of the service."),
        "release": Param(
            None,
            type=["null", "string"],
            pattern=r"^gs://[^/\s]+/\S+/releases/[^/\s]+/?$",
            description="Release to promote; empty takes the newest signed one.",
        ),
    },
    default_args={"on_failure_callback": on_failure},
    user_defined_macros=MACROS,
    doc_md="""
    ### Promotion
    Nightly, and at once where the spec says so. Moves users' traffic step by step to the newest signed release while
    the judge watches. However the run ends (failure, time-out, killed, task or run marked failed), `settle` reads the
    live weights and either finds the release promoted or puts everything back; `outcome` ends the run failed unless
    the release was promoted. Should neither run, the guard outside Airflow puts the weights back when the lease ends.
    """,
) as dag:
    pick = module_task(
        "pick",
        ["release_tasks", "pick", "--name={{ params.name }}"],
        pre_execute=skip_pick,
        doc_md="find the newest signed release that was not yet promoted or rolled back",
    )
    chosen = PythonOperator(
        task_id=CHOSEN,
        python_callable=_choose,
        trigger_rule=TriggerRule.NONE_FAILED,
        doc_md="the release of this run; skips the rest where none waits",
    )
    canaries = [
        stage_task(StageCall("canary", spec=SPEC, release=RELEASE, step=step), task_id=f"canary_{step}")
        for step in STEPS
    ]
    promote = stage_task(StageCall("promote", spec=SPEC, release=RELEASE))
    # Both are teardowns: the only tasks that still run after somebody marked the whole run failed. `outcome` counts
    # for the state of the run, which would otherwise turn green then.
    settle = stage_task(
        StageCall("settle", spec=SPEC, release=RELEASE),
        pre_execute=skip_unless_chosen,
    ).as_teardown()
    ending = PythonOperator(
        task_id="outcome",
        python_callable=_judge,
        doc_md="end the run failed unless the release was promoted",
    ).as_teardown(on_failure_fail_dagrun=True)
    chain(pick, chosen, *canaries, promote, settle, ending)
