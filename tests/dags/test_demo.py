"""What the demo decides by itself: the approver's answer, and whether the story ended as it should."""

from __future__ import annotations

from dataclasses import replace

import pytest

from local.demo import story_of
from local.demo_approver import decide
from local.demo_story import STORY, Row, faults, table


def ended(**changes: Row) -> dict[str, Row]:
    rows, stable = {}, "none"
    for chapter in STORY:
        stable = chapter.recipe if chapter.verdict in ("stable", "promoted") else stable
        rows[chapter.recipe] = Row(chapter.recipe, chapter.verdict, chapter.stage, "why", stable, 0, 60.0)
    return {**rows, **changes}


def test_the_approver_signs_a_page_without_warnings() -> None:
    assert decide("## Release\n\nNo case and no group drops by more than 20%.")[0] == "Approve"


def test_the_approver_rejects_what_the_page_warns_of() -> None:
    option, words = decide("## Release\n\n- ⚠ **baby: −40 %** over 3 cases\n- ⚠ Family: −50 %")
    assert option == "Reject"
    assert "baby: −40 %" in words and "Family" in words and "*" not in words


def test_a_story_that_ends_as_told_has_no_faults() -> None:
    assert faults(ended()) == []


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("good", {"verdict": "stopped"}),
        ("better", {"user_requests_failed": 1}),
        ("baby_regression", {"verdict": "promoted", "stage": "promote"}),
        ("swapped_weights", {"stage": "size_gate"}),
        ("slow", {"stable_after": "slow"}),
        ("erring", {"stable_after": "good"}),
    ],
)
def test_every_other_ending_is_a_fault(recipe: str, changes: dict[str, object]) -> None:
    row = replace(ended()[recipe], **changes)  # type: ignore[arg-type]
    found = faults(ended(**{recipe: row}))
    assert len(found) == 1 and found[0].startswith(recipe)


def test_a_candidate_that_never_ended_is_a_fault() -> None:
    rows = ended()
    del rows["erring"]
    assert faults(rows) == ["erring: did not end"]


def test_requests_that_a_bad_candidate_fails_are_shown_and_no_fault() -> None:
    row = replace(ended()["erring"], user_requests_failed=12)
    assert faults(ended(erring=row)) == []
    assert "12" in table([row])


def test_a_part_of_the_story_is_told_one_after_the_other() -> None:
    assert [(c.recipe, c.after) for c in story_of("better,good")] == [("good", None), ("better", ("good", "end"))]
