"""One click back to the last good release."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from plugins.commands import HOLDER, MACROS, WORKSPACE
from plugins.notify import on_failure
from plugins.stage_operator import module_task
from release_tasks.stages import STAGES

with DAG(
    dag_id="model_rollback",
    schedule=None,
    max_active_runs=1,
    catchup=False,
    tags=["release-gate"],
    params={
        "reason": Param(
            "started by hand", type="string", minLength=3, maxLength=300, description="Why, for the record."
        )
    },
    default_args={"on_failure_callback": on_failure},
    user_defined_macros=MACROS,
    doc_md="""
    ### Rollback
    Takes back a promotion that is under way, or else undoes the last one. It ends well only when the weights are back,
    the server says that it serves the last good release, and an inference was answered on the users' path. A promotion
    that was under way loses its right to write and ends failed.
    """,
) as dag:
    module_task(
        "rollback",
        [
            "release_tasks",
            "rollback",
            f"--workspace={WORKSPACE}",
            f"--holder={HOLDER}",
            "--reason={{ params.reason }}",
        ],
        doc_md=STAGES["rollback"],
    )
