"""What the DAGs look like, and what parsing them costs."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

import pytest

from release_tasks.stages import STAGES
from tests.dags.conftest import run_python

DAGS = {"recsys_training", "model_release", "model_promotion", "model_rollback"}
HEAVY = (
    "torch",
    "tensorflow",
    "lightgbm",
    "onnxruntime",
    "great_expectations",
    "google.cloud.storage",
    "locust",
    "kubernetes",
)


def order(dag: Any) -> list[str]:
    return [task.task_id for task in dag.topological_sort()]


def test_dags_load_without_errors(bag: Any) -> None:
    assert bag.import_errors == {}
    assert set(bag.dags) == DAGS


@pytest.mark.parametrize("dag_id", sorted(DAGS))
def test_every_dag_and_task_is_documented_and_tagged(bag: Any, dag_id: str) -> None:
    dag = bag.dags[dag_id]
    assert dag.doc_md and "release-gate" in dag.tags
    assert [task.task_id for task in dag.tasks if not task.doc_md and task.task_id != "approval"] == []


def test_stages_stand_in_their_one_order(bag: Any) -> None:
    found = [t for t in order(bag.dags["model_release"]) if t in STAGES]
    found += [t.partition("_")[0] if t.startswith("canary") else t for t in order(bag.dags["model_promotion"])]
    stages = list(dict.fromkeys(t for t in found if t in STAGES))
    assert stages == [stage for stage in STAGES if stage != "rollback"]


def test_every_stage_waits_for_the_one_before(bag: Any) -> None:
    dag = bag.dags["model_release"]
    names = [stage for stage in STAGES if stage in dag.task_ids]
    for before, after in pairwise(names):
        assert before in {t.task_id for t in dag.get_task(after).get_flat_relatives(upstream=True)}, (before, after)


def test_export_and_parity_are_mapped_per_model(bag: Any) -> None:
    dag = bag.dags["model_release"]
    groups = {stage: dag.get_task(stage).get_closest_mapped_task_group() for stage in ("export", "parity")}
    assert groups["export"] is groups["parity"] is not None


def test_a_release_that_fails_anywhere_fails_the_run(bag: Any) -> None:
    """Every leaf needs all that is above it, so none can succeed over a failed stage."""
    dag = bag.dags["model_release"]
    rules = {task.task_id: task.trigger_rule.value for task in dag.tasks}
    assert set(rules.values()) == {"all_success"}, rules
    assert "approve" in {t.task_id for t in dag.get_task("promote_now").get_flat_relatives(upstream=True)}


def test_settle_and_outcome_run_whatever_the_ending(bag: Any) -> None:
    dag = bag.dags["model_promotion"]
    settle, outcome = dag.get_task("settle"), dag.get_task("outcome")
    assert settle.is_teardown and outcome.is_teardown
    assert outcome.on_failure_fail_dagrun, "the run would turn green after a rollback"
    assert outcome.upstream_task_ids == {"settle"} and not outcome.downstream_task_ids
    assert dag.max_active_runs == 1


@pytest.mark.parametrize(
    ("dag_id", "conf"),
    [
        ("recsys_training", {"recipe": "unknown"}),
        ("model_release", {"candidate": "http://elsewhere"}),
        ("model_release", {"candidate": 3}),
        ("model_promotion", {"release": "gs://bucket/name/elsewhere/id"}),
        ("model_promotion", {"name": "Capitals"}),
        ("model_rollback", {"reason": ""}),
    ],
)
def test_bad_conf_is_refused(bag: Any, dag_id: str, conf: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = copy.deepcopy(bag.dags[dag_id].params)
    params.validate()  # the defaults themselves are fine
    with pytest.raises((ParamValidationError, ValueError)):
        params.update(conf)
        params.validate()


def test_parsing_imports_nothing_heavy() -> None:
    code = (
        "import sys, json, importlib, pathlib\n"
        "for f in sorted(pathlib.Path('dags').glob('[a-z]*.py')): importlib.import_module(f'dags.{f.stem}')\n"
        f"print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    assert json.loads(run_python(code).splitlines()[-1]) == []
