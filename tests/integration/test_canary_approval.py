"""From the business cases on real servers to a signed approval that a rerun voids."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from release_tasks.artifacts import Approval, PublishedRelease
from release_tasks.cli import keep_beside_release, run_stage
from release_tasks.clients.storage import open_store
from release_tasks.context import StageContext
from release_tasks.errors import GateInconclusive, NotSigned, StageOrderError
from release_tasks.ledger import Outcome, Place, check_signed, read_manifest, write_outcome
from release_tasks.outcome import Verdict
from release_tasks.pick import pick
from release_tasks.platforms.base import Platform
from release_tasks.platforms.state import LiveRelease
from release_tasks.settings import Settings
from tests.integration.canary_support import Story


@pytest.fixture
def story(serving_stack: Settings, platform: Platform, tmp_path: Path) -> Story:
    return Story(serving_stack, platform, tmp_path)


def case(name: str, best: int, **changes: Any) -> dict[str, Any]:
    """Three rows with means 0.1, 0.2 and 0.9, of which one is right."""
    return {
        "id": name,
        "title": f"Household {name}",
        "tags": [name],
        "model": "tiny",
        "inputs": {"x": [[0.1] * 4, [0.2] * 4, [0.9] * 4]},
        "output": "score",
        "k": 2,
        "relevant": [best],
        **changes,
    }


def prepared(story: Story, release: LiveRelease, *cases: dict[str, Any]) -> StageContext:
    """The workspace of a run that has come to regression."""
    context = story.context(release)
    context.workspace.candidate.mkdir(parents=True, exist_ok=True)
    (context.workspace.candidate / "cases.json").write_text(json.dumps({"version": 1, "cases": list(cases)}))
    manifest = read_manifest(open_store(story.settings), Place.of(release.uri))
    context.workspace.save(PublishedRelease(release=release.release, uri=release.uri, digest=manifest.digest))
    checklist(context, "11 of 11 green")
    return context


def checklist(context: StageContext, measured: str) -> None:
    draft = context.draft("checklist", context.workspace.load(PublishedRelease).release)
    draft.check("checklist.points", True, measured)
    context.workspace.save_report(draft.finish())


def answered(context: StageContext, digest: str, decision: str = "approve", approver: str = "alice") -> StageContext:
    return replace(
        context, options={"approver": approver, "decision": decision, "digest": digest, "reason": "seen the table"}
    )


def test_cases_are_scored_on_both_and_signed_for_exactly_one_digest(story: Story) -> None:
    story.stable(story.release("stable", "blue", factor=1, kind="ranker"))
    turned = story.release("turned", "staging", factor=-1, kind="ranker")
    story.platform.deploy(turned, deadline_s=120)
    context = prepared(story, turned, case("baby", 2), case("meat", 1, hard=True, min_score=0.5))

    report = run_stage("regression", context)
    assert report.verdict is Verdict.passed
    assert report.numbers["flagged"] == 2
    rows = {row["id"]: row for row in report.details["cases"]}
    assert (rows["baby"]["stable"], rows["baby"]["candidate"], rows["baby"]["finding"]) == (1.0, 0.0, "flagged")
    assert rows["meat"]["change"] == pytest.approx(0.0)
    page = Path(report.outputs["approval_markdown"]).read_text()
    assert "⚠ **baby: −100 %**" in page
    assert "| checklist | passed | 1 of 1 |" in page
    digest = report.outputs["digest"]
    assert digest in page
    assert run_stage("regression", context).outputs["digest"] == digest

    by_nobody = answered(context, digest, approver="")
    for wrong in (answered(context, "0" * 64), answered(context, digest, approver="bob"), by_nobody):
        with pytest.raises(NotSigned):
            run_stage("approve", wrong)
    silence = run_stage("approve", answered(context, "", "reject", approver=""))
    assert "rejected by (nobody)" in silence.reason()
    assert not context.workspace.load(Approval).approved
    assert run_stage("approve", answered(context, digest, "reject")).verdict is Verdict.failed
    assert pick("tiny").release != turned.uri
    assert run_stage("approve", answered(context, digest)).verdict is Verdict.passed
    approval = context.workspace.load(Approval)
    run_stage("approve", answered(context, digest))
    assert context.workspace.load(Approval) == approval
    store, place = open_store(story.settings), Place.of(turned.uri)
    assert check_signed(store, place, context.spec, story.settings) == approval
    assert pick("tiny").release == turned.uri

    red = context.draft("smoke", turned.release)
    red.check("server.ready", False, "not ready")
    keep_beside_release(context, red.finish())
    with pytest.raises(NotSigned, match="void"):
        check_signed(store, place, context.spec, story.settings)
    context.workspace.save_report(red.finish())
    with pytest.raises(StageOrderError, match=r"not green for .*: smoke"):
        run_stage("approve", answered(context, digest))
    context.workspace.report_path("smoke").unlink()

    checklist(context, "10 of 11 green")
    with pytest.raises(NotSigned, match="a stage was run again since regression"):
        run_stage("approve", answered(context, digest))
    assert run_stage("regression", context).outputs["digest"] != digest
    with pytest.raises(NotSigned, match="void"):
        check_signed(store, place, context.spec, story.settings)
    assert pick("tiny").release != turned.uri


def test_hard_case_blocks_and_a_first_release_is_compared_with_nothing(story: Story) -> None:
    turned = story.release("blocked", "staging", factor=-1, kind="ranker")
    story.platform.deploy(turned, deadline_s=120)
    context = prepared(story, turned, case("baby", 2, hard=True, min_score=0.5), case("meat", 1))
    report = run_stage("regression", context)
    assert report.verdict is Verdict.failed
    assert "regression.baby: ndcg_at_k 0.000 (limit at least 0.500)" in report.reason()
    assert report.details["cases"][1]["stable"] is None
    with pytest.raises(StageOrderError, match="only a release that passed"):
        run_stage("approve", answered(context, report.outputs["digest"]))


def test_answer_without_an_order_is_no_score(story: Story) -> None:
    odd = story.release("odd", "staging", factor=float("nan"), kind="ranker")
    story.platform.deploy(odd, deadline_s=120)
    context = prepared(story, odd, case("baby", 2))
    with pytest.raises(GateInconclusive, match="not finite"):
        run_stage("regression", context)


def test_nothing_older_than_what_was_promoted_is_picked(story: Story) -> None:
    older, newer = story.release("older", "blue"), story.release("newer", "green")
    story.sign(older)
    assert pick("tiny").release == older.uri
    story.sign(newer)
    assert pick("tiny").release == newer.uri
    ending = Outcome(release=newer.release, outcome="promoted", when=datetime.now(UTC), reason="every step passed")
    write_outcome(open_store(story.settings), Place.of(newer.uri), ending)
    assert pick("tiny").release is None
