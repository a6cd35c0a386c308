"""Releases through the whole stack: the demo's seven, then what people do by hand. In this order, on one stack."""

from __future__ import annotations

import re
import time

import pytest

from local.demo_story import STORY, Chapter
from local.demo_watch import PROMOTE, RELEASE
from tests.e2e.conftest import Stage, Told

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2700)]


@pytest.mark.parametrize("chapter", STORY, ids=[chapter.recipe for chapter in STORY])
def test_each_candidate_ends_as_it_should(told: Told, chapter: Chapter) -> None:
    row = told.rows[chapter.recipe]
    stage = row["stage"].partition("_")[0]  # canary_1 is a canary
    assert (row["verdict"], stage) == (chapter.verdict, chapter.stage.partition("_")[0]), row
    assert row["reason"]


def test_the_demo_says_that_all_is_as_it_should_be(told: Told) -> None:
    assert told.code == 0, told.output[-3000:]
    assert "answers as alice through the REST API" in told.output
    assert re.search(r"^Airflow: http://127\.0\.0\.1:\d+  login: admin / \S+$", told.output, re.MULTILINE)


def test_no_request_of_a_user_fails_in_a_promotion(told: Told) -> None:
    assert told.rows["better"]["user_requests_failed"] == 0
    # A slow answer is an answer: the rollback itself must cost nobody a request.
    assert told.rows["slow"]["user_requests_failed"] == 0
    assert 0 < told.rows["erring"]["user_requests_failed"] < 60


def test_a_rollback_leaves_the_release_before(told: Told) -> None:
    assert {told.rows[name]["stable_after"] for name in ("better", "slow", "erring")} == {"better"}


def test_an_approval_marked_successful_by_hand_promotes_nothing(with_stable: Stage) -> None:
    before = with_stable.stable()
    with_stable.answering = False
    try:
        watch = with_stable.given_a_candidate("good", "forged")
        run_id = with_stable.when_task_is(watch, RELEASE, "approval", "awaiting_input")
        time.sleep(8)
        with_stable.admin.set_task(RELEASE, run_id, "approval", "success")
        assert with_stable.end_of(RELEASE, run_id) == "failed"
        row = with_stable.when_it_ends(watch)
    finally:
        with_stable.answering = True
    assert row.stage == "approve" and "rejected by (nobody)" in row.reason, row
    # Going round the gate altogether is no better: the promotion itself asks who signed.
    uri = with_stable.admin.xcom(RELEASE, run_id, "upload")["uri"]
    forced = f"e2e-forced-{time.time_ns()}"
    with_stable.admin.trigger(PROMOTE, forced, {"release": uri})
    assert with_stable.end_of(PROMOTE, forced) == "failed"
    told = with_stable.admin.xcom(PROMOTE, forced, "canary_1", "failure")
    assert told and told["exit_code"] == 42, told
    assert with_stable.stable() == before
    assert sorted(with_stable.weights().values()) == [0, 100]


@pytest.mark.parametrize("what", ["task", "run"])
def test_a_promotion_marked_failed_by_hand_ends_with_stable_restored(with_stable: Stage, what: str) -> None:
    before = with_stable.stable()
    watch = with_stable.given_a_candidate("better", f"marked-{what}")
    run_id = with_stable.when_task_is(watch, PROMOTE, "canary_1", "running")
    with_stable.until(lambda: min(with_stable.weights().values()) > 0, "traffic on the canary")
    if what == "task":
        with_stable.admin.set_task(PROMOTE, run_id, "canary_1", "failed")
    else:
        with_stable.admin.set_run(PROMOTE, run_id, "failed")
    with_stable.until(lambda: min(with_stable.weights().values()) == 0, "all traffic back on stable")
    with_stable.when_task_is(watch, PROMOTE, "outcome", "failed")
    assert with_stable.end_of(PROMOTE, run_id) == "failed"
    assert watch.state(PROMOTE, "settle") == "failed", "a run with a rollback ends failed"
    assert with_stable.stable() == before
