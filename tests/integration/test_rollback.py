"""Rollback by a person: a candidate in flight, the last promotion, and a warm slot that was reused meanwhile."""

from pathlib import Path

import pytest

from release_tasks.cli import run_stage
from release_tasks.errors import InvalidInput, ServingError
from release_tasks.outcome import Verdict
from release_tasks.platforms.base import Platform
from release_tasks.platforms.local import LocalPlatform
from release_tasks.settings import Settings
from tests.integration.canary_support import Story, Users


@pytest.fixture
def story(serving_stack: Settings, platform: Platform, tmp_path: Path) -> Story:
    return Story(serving_stack, platform, tmp_path)


def test_candidate_in_flight_then_the_last_promotion_from_the_warm_slot(story: Story) -> None:
    first = story.stable(story.release("first", "blue", factor=2))
    second = story.stable(story.release("second", "green", factor=3))
    assert story.served() == 3
    with Users(story.settings) as users:
        report = run_stage("rollback", story.context(second))
        assert report.verdict is Verdict.passed
    assert users.failures == {}
    assert report.numbers["rollback_s"] is not None
    assert float(report.numbers["rollback_s"]) < 5
    assert story.platform.state().stable == first
    assert story.served() == 2
    assert story.outcome(second) == "rolled_back"
    # A retry, or a cleared task, takes back nothing else.
    assert run_stage("rollback", story.context(second)).verdict is Verdict.passed
    assert story.platform.state().stable == first
    with pytest.raises(InvalidInput, match="no earlier good release"):
        run_stage("rollback", story.context(first))


def test_a_retry_after_a_candidate_was_taken_back_leaves_stable_alone(story: Story) -> None:
    story.stable(story.release("first", "blue", factor=2))
    second = story.stable(story.release("second", "green", factor=3))
    third = story.release("third", "blue", factor=4)
    story.in_flight(third, 50)
    for _ in range(2):
        assert run_stage("rollback", story.context(third)).verdict is Verdict.passed
        assert story.platform.state().stable == second
    assert story.served() == 3


def test_a_restore_that_could_not_deploy_is_taken_up_again(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    first = story.stable(story.release("first", "blue", factor=2))
    second = story.stable(story.release("second", "green", factor=3))
    story.platform.remove("blue")

    def refuse(self: LocalPlatform, *_: object, **__: object) -> None:
        raise ServingError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(LocalPlatform, "deploy", refuse)
        with pytest.raises(ServingError, match="no memory"):
            run_stage("rollback", story.context(second))
    assert story.platform.state().candidate is None
    assert story.outcome(first) != "rolled_back"
    assert run_stage("rollback", story.context(second)).verdict is Verdict.passed
    state = story.platform.state()
    assert state.stable is not None
    assert state.stable.release == first.release
    assert story.served() == 2


def test_warm_slot_that_was_reused_is_deployed_again(story: Story) -> None:
    first = story.stable(story.release("first", "blue", factor=2))
    second = story.stable(story.release("second", "green", factor=3))
    third = story.release("third", "blue", factor=4)
    story.in_flight(third, 50)
    assert run_stage("rollback", story.context(third)).verdict is Verdict.passed
    assert story.platform.state().stable == second
    assert story.served() == 3
    assert story.outcome(third) == "rolled_back"
    assert story.platform.status("blue").release == third.release

    with Users(story.settings) as users:
        assert run_stage("rollback", story.context(second)).verdict is Verdict.passed
    assert users.failures == {}
    assert story.served() == 2
    assert story.platform.state().stable is not None
    assert story.platform.state().stable.release == first.release


def test_nothing_live_is_said_clearly(story: Story) -> None:
    never = story.release("never", "blue")
    with pytest.raises(InvalidInput, match="no release is live"):
        run_stage("rollback", story.context(never))
