"""Releases through the whole stack. The tests run in this order: each leaves the stable release that the next needs."""

from __future__ import annotations

import time

import pytest

from local.demo_watch import PROMOTE, RELEASE
from tests.e2e.conftest import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]


def test_a_swapped_model_stops_at_parity(with_stable: Stage) -> None:
    before = with_stable.stable()
    row = with_stable.when_it_ends(with_stable.given_a_candidate("swapped_weights"))
    assert (row.verdict, row.stage) == ("stopped", "parity"), row
    assert "limit" in row.reason
    assert with_stable.stable() == before


def test_a_better_release_is_signed_and_promoted_without_a_failed_request(with_stable: Stage) -> None:
    watch = with_stable.given_a_candidate("better")
    row = with_stable.when_it_ends(watch)
    assert row.verdict == "promoted", row
    states = {step: watch.state(PROMOTE, f"canary_{step}") for step in (1, 2, 3)}
    assert set(states.values()) == {"success"}
    assert row.user_requests_failed == 0
    assert with_stable.stable() == watch.release
    assert sorted(with_stable.weights().values()) == [0, 100]


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


def test_a_release_that_fails_for_users_is_rolled_back(with_stable: Stage) -> None:
    before = with_stable.stable()
    row = with_stable.when_it_ends(with_stable.given_a_candidate("erring"))
    assert row.verdict == "rolled back" and row.stage.startswith("canary"), row
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
