"""Decisions of the wiring: whose turn staging is, which candidate, how a promotion run ends."""

from __future__ import annotations

from typing import Any

import pytest

RELEASE = "gs://b/recsys/releases/recsys-1"


@pytest.mark.parametrize(
    ("states", "taken"),
    [
        ({}, []),
        ({"me": {"staging_turn": "running"}}, []),
        ({"other": {"staging_turn": "success", "regression": "running"}}, ["other"]),
        ({"other": {"staging_turn": "success", "regression": None}}, ["other"]),
        ({"other": {"staging_turn": "success"}}, ["other"]),
        ({"other": {"staging_turn": "running", "regression": None}}, []),
        ({"other": {"staging_turn": "success", "regression": "success"}}, []),
        ({"other": {"staging_turn": "success", "regression": "upstream_failed"}}, []),
        ({"other": {"staging_turn": "success", "regression": "up_for_retry"}}, ["other"]),
    ],
)
def test_staging_is_taken_until_regression_is_over(states: dict[str, Any], taken: list[str]) -> None:
    from plugins.staging import occupants

    assert occupants(states, "me") == taken


class Event:
    def __init__(self, candidate: str | None) -> None:
        self.extra = {"candidate": candidate} if candidate else {}


def context(*candidates: str | None, told: str | None = None) -> dict[str, Any]:
    return {
        "params": {"candidate": told},
        "run_id": "run-1",
        "triggering_asset_events": {"asset": [Event(c) for c in candidates]},
    }


def test_one_event_gives_one_candidate() -> None:
    from plugins.candidates import resolve

    assert resolve(context("/c/good")) == {"uri": "/c/good", "spec": "/c/good/release.yaml", "others": []}


def test_batched_events_start_one_run_each_with_stable_names() -> None:
    from plugins.candidates import resolve

    first, again = resolve(context("/c/a", "/c/b", "/c/a", "/c/c")), resolve(context("/c/a", "/c/b", "/c/a", "/c/c"))
    assert first == again, "clearing the task must not start other runs"
    assert [other["conf"]["candidate"] for other in first["others"]] == ["/c/b", "/c/c"]
    assert len({other["trigger_run_id"] for other in first["others"]}) == 2


def test_the_parameter_goes_before_the_events() -> None:
    from plugins.candidates import resolve

    assert resolve(context("/c/a", told="gs://b/c"))["spec"] == "gs://b/c/release.yaml"


def test_no_candidate_fails() -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from plugins.candidates import resolve

    with pytest.raises(AirflowFailException, match="no candidate"):
        resolve(context(None))


def test_a_promotion_without_a_release_is_skipped() -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    from plugins.promotion import choose

    with pytest.raises(AirflowSkipException):
        choose({"name": "recsys", "release": None}, {"release": None, "spec": None})


def test_told_goes_before_picked() -> None:
    from plugins.promotion import choose

    other = {"release": "gs://b/recsys/releases/other"}
    assert choose({"release": RELEASE}, other) == {"release": RELEASE, "spec": f"{RELEASE}/release.yaml"}
    assert choose({"release": None}, other)["release"] == other["release"]


GREEN = {"pick": "success", "choose": "success", "promote": "success", "settle": "success"}


@pytest.mark.parametrize(
    "states",
    [
        GREEN,
        {**GREEN, "pick": "skipped"},
        {"pick": "success", "choose": "skipped", "promote": "skipped", "settle": "skipped"},
    ],
)
def test_a_run_that_promoted_or_had_nothing_to_do_ends_well(states: dict[str, str | None]) -> None:
    from plugins.promotion import judge_run

    judge_run(states, {})


@pytest.mark.parametrize(
    "changes",
    [
        {"settle": "failed"},
        {"promote": "failed"},
        {"promote": "skipped"},
        {"promote": "upstream_failed", "settle": "success"},
        {"settle": "skipped"},
        {"pick": "failed", "choose": "upstream_failed", "promote": "upstream_failed", "settle": "skipped"},
        {"choose": "skipped", "pick": "skipped", "promote": "skipped", "settle": "skipped"},
    ],
)
def test_every_other_ending_fails(changes: dict[str, str]) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from plugins.promotion import judge_run

    with pytest.raises(AirflowFailException, match="not promoted: the reason"):
        judge_run({**GREEN, **changes}, {"canary_1": "the reason"})
