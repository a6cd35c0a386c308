"""Trains the example's models and announces the candidate."""

from __future__ import annotations

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Param

from plugins.candidates import RELEASE_CANDIDATES, announce
from plugins.commands import MACROS
from plugins.notify import on_failure
from plugins.stage_operator import module_task

RECIPES = (
    "good", "better", "baby_regression", "slow", "erring", "oversized", "swapped_weights", "traced", "wrong_dims",
)  # fmt: skip
OUT = "{{ workspace_root() }}/candidates/{{ slug(run_id) }}"


def _announce(uri: str, recipe: str, **context: object) -> str:
    return announce(context, uri, recipe)


with DAG(
    dag_id="recsys_training",
    schedule=None,
    max_active_runs=1,
    catchup=False,
    tags=["release-gate", "example"],
    params={"recipe": Param("good", type="string", enum=list(RECIPES), description="Which candidate to train.")},
    default_args={"on_failure_callback": on_failure},
    user_defined_macros=MACROS,
    doc_md="""
    ### Example training
    Trains retriever, coarse ranker and ranker on the purchases, records golden data in the source frameworks and
    writes a candidate folder. Its address goes out with the asset `release_candidates`, which starts `model_release`.
    """,
) as dag:
    train = module_task(
        "train",
        ["examples.recsys.train", "--recipe={{ params.recipe }}", f"--out={OUT}"],
        build=True,
        doc_md="train one recipe and write its candidate folder",
    )
    tell = PythonOperator(
        task_id="announce",
        python_callable=_announce,
        op_kwargs={"uri": OUT, "recipe": "{{ params.recipe }}"},
        outlets=[RELEASE_CANDIDATES],
        doc_md="announce the candidate to whoever releases it",
    )
    train >> tell
