"""Stages 1 to 12: from a candidate to a signed release."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, BaseOperator, Param, TaskGroup, task_group
from airflow.sdk.exceptions import AirflowSkipException

from plugins.approval import ReleaseApproval, approve_options
from plugins.candidates import RELEASE_CANDIDATES, URI_PATTERN, describe, resolve
from plugins.commands import MACROS, WORKSPACE, StageCall
from plugins.notify import on_failure
from plugins.stage_operator import stage_task
from plugins.staging import StagingTurn, ensure_turn

CANDIDATE_SPEC = "{{ ti.xcom_pull(task_ids='candidate', key='spec') }}"
# After `validate` everything reads the checked copy, so that a candidate that changes meanwhile changes nothing.
CHECKED_SPEC = f"{WORKSPACE}/candidate/release.yaml"
MODEL = "{{ ti.xcom_pull(task_ids='list_models')[ti.map_index] }}"
ON_STAGING = ("deploy_staging", "smoke", "load_test", "served_parity", "checklist", "regression")


def _stage(name: str, **kwargs: Any) -> BaseOperator:
    return stage_task(StageCall(name, spec=CHECKED_SPEC), **kwargs)


def _resolve(**context: object) -> dict[str, object]:
    return resolve(context)


def _only_immediately(promote: str) -> None:
    if promote != "immediately":
        raise AirflowSkipException("the spec leaves the promotion to the nightly run")


with DAG(
    dag_id="model_release",
    schedule=[RELEASE_CANDIDATES],
    # Builds overlap; the staging server is passed on by `staging_turn`.
    max_active_runs=4,
    catchup=False,
    tags=["release-gate"],
    params={
        "candidate": Param(
            None,
            type=["null", "string"],
            pattern=URI_PATTERN,
            description="Candidate folder: gs://…, file:///… or an absolute path. Empty for runs started by the asset.",
        )
    },
    default_args={"on_failure_callback": on_failure},
    user_defined_macros=MACROS,
    doc_md="""
    ### From a candidate to a signed release
    Started by the asset `release_candidates`, or by hand with `{"candidate": "gs://…"}`. Any stage that does not pass
    ends the run failed, with the reason in its log and in its XCom `failure`. To rerun a stage on staging, clear
    `staging_turn`, which queues for the staging server. Nothing here touches users' traffic.
    """,
) as dag:
    candidate = PythonOperator(
        task_id="candidate", python_callable=_resolve, multiple_outputs=True, doc_md="which candidate this run releases"
    )
    others = PythonOperator(
        task_id="batched",
        python_callable=list,
        op_args=[candidate.output["others"]],
        doc_md="further candidates that came in the same event",
    )
    TriggerDagRunOperator.partial(
        task_id="release_others",
        trigger_dag_id="model_release",
        skip_when_already_exists=True,
        doc_md="one run more for each of them",
    ).expand_kwargs(others.output)
    validate = stage_task(StageCall("validate", spec=CANDIDATE_SPEC))
    spec = PythonOperator(
        task_id="describe",
        python_callable=describe,
        op_kwargs={"workspace": WORKSPACE},
        multiple_outputs=True,
        doc_md="read models, approvers and time-out from the checked spec",
    )

    names = PythonOperator(
        task_id="list_models",
        python_callable=list,
        op_args=[spec.output["models"]],
        doc_md="one export and one parity check for each",
    )

    @task_group(group_id="models", prefix_group_id=False)  # type: ignore[untyped-decorator]  # Airflow is not type-checked
    def each_model(model: str) -> None:
        """Export and parity of one model."""
        export, parity = (
            stage_task(StageCall(name, spec=CHECKED_SPEC, model=MODEL), map_index_template=MODEL)
            for name in ("export", "parity")
        )
        export >> parity

    models = each_model.expand(model=names.output)
    size_gate, repository, upload = _stage("size_gate"), _stage("repository"), _stage("upload")
    with TaskGroup("staging", prefix_group_id=False):
        turn = StagingTurn(
            task_id="staging_turn",
            poke_interval=5,
            timeout=timedelta(hours=24),
            retries=2,
            retry_delay=timedelta(seconds=5),
            doc_md="wait until no other run is on the staging server",
        )
        on_staging = [_stage(name, pre_execute=ensure_turn) for name in ON_STAGING]
    approval = ReleaseApproval(
        task_id="approval",
        subject="Release {{ ti.xcom_pull(task_ids='regression')['release'] }}?",
        report="{{ ti.xcom_pull(task_ids='regression')['report'] }}",
        approvers=spec.output["approvers"],
        timeout_s=spec.output["timeout_s"],
        # An answer within a second of the question can fail the task; it asks again.
        retries=2,
        retry_delay=timedelta(seconds=2),
        doc_md="a business owner signs, or not",
    )
    approve = stage_task(StageCall("approve", spec=CHECKED_SPEC, options=approve_options()))
    when = PythonOperator(
        task_id="promote_when",
        python_callable=_only_immediately,
        op_kwargs={"promote": spec.output["promote"]},
        doc_md="go on only where the spec says `promote: immediately`",
    )
    now = TriggerDagRunOperator(
        task_id="promote_now",
        trigger_dag_id="model_promotion",
        trigger_run_id="release__{{ ti.xcom_pull(task_ids='upload')['release'] }}",
        conf={
            "name": "{{ ti.xcom_pull(task_ids='describe', key='name') }}",
            "release": "{{ ti.xcom_pull(task_ids='upload')['uri'] }}",
        },
        skip_when_already_exists=True,
        doc_md="start the promotion of this release",
    )
    candidate >> validate >> spec >> names >> models >> size_gate >> repository >> upload >> turn >> on_staging[0]
    for before, after in pairwise(on_staging):
        before >> after
    on_staging[-1] >> approval >> approve >> when >> now
