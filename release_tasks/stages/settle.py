"""Whatever way a promotion ended: find the release promoted, or roll it back. Never promotes."""

from __future__ import annotations

import time

from release_tasks import recovery
from release_tasks.canary_watch import evidence_path, load_evidence
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import RolledBack
from release_tasks.ledger import Place, read_outcome
from release_tasks.outcome import StageReport, Verdict
from release_tasks.platforms.state import ServingState
from release_tasks.production import Production, place_of


def run(context: StageContext) -> StageReport:
    """Read the live state and end the promotion. Running it again changes nothing.

    Raises:
        RolledBack: the release is not live; the rollback is proved.
        RollbackFailed: a person must act.
    """
    place = place_of(context)
    production = Production.of(context)
    draft = context.draft("settle", place.release)
    return _settled(context, production, draft, place)


def _settled(context: StageContext, production: Production, draft: ReportDraft, place: Place) -> StageReport:
    state = production.platform.state()
    candidate = state.candidate.release if state.candidate else None
    if state.stable is not None and state.stable.release == place.release:
        return _promoted(production, draft, place, state)
    if candidate == place.release:
        return _candidate(context, production, draft, place, state)
    return _gone(context, production, draft, place, state)


def _promoted(production: Production, draft: ReportDraft, place: Place, state: ServingState) -> StageReport:
    assert state.stable is not None
    # The next promotion may have begun already: then it has its share of the traffic, and stable is asked in its slot.
    moved_on = state.candidate is not None
    seen = (
        recovery.answers_in_slot(production, state.stable)
        if moved_on
        else recovery.prove(production, state.stable).text()
    )
    draft.check("settle.promoted", True, f"{place.release} is stable and answers", detail=seen)
    draft.outputs["outcome"] = production.record(place.uri, "promoted", "every step passed")
    return draft.finish()


def _candidate(
    context: StageContext, production: Production, draft: ReportDraft, place: Place, state: ServingState
) -> StageReport:
    lease, now = state.lease, context.now().timestamp()
    alive = lease is not None and lease.expires > now
    if alive and lease is not None and lease.holder != context.holder:
        draft.check(
            "settle.owner",
            False,
            f"{lease.holder} is promoting {place.release} and its lease runs {lease.expires - now:.0f} s more",
            detail="nothing was touched",
        )
        return draft.finish()
    if alive and _held(context):
        draft.check(
            "settle.held",
            Verdict.inconclusive,
            f"held at {state.weight} % as canary.on_inconclusive says",
            detail="a person decides: run canary again, or roll back",
        )
        return draft.finish()
    why = context.options.get("reason") or _why(context, state)
    proof = recovery.roll_back(production, why, when=lambda s: s.candidate == state.candidate)
    if proof is None:
        # Promoted, or taken back, between the look and the lock. Each look again finds a later state, so this ends.
        return _settled(context, production, draft, place)
    return _rolled_back(context, production, draft, place, (why, proof.text()))


def _gone(
    context: StageContext, production: Production, draft: ReportDraft, place: Place, state: ServingState
) -> StageReport:
    """Neither stable nor candidate: taken back before, replaced since, or never begun."""
    ending = read_outcome(production.store, place)
    if ending is not None and ending.outcome == "promoted":
        draft.check("settle.promoted", True, f"{place.release} was promoted at {ending.when} and replaced since")
        return draft.finish()
    if ending is None and not _took_part(context, place):
        draft.check("settle.begun", False, f"the promotion of {place.release} never began", detail=_why(context, state))
        return draft.finish()
    why = ending.reason if ending else state.last_event
    seen = "another promotion is under way; nothing was touched"
    if state.candidate is None and state.stable is not None:
        seen = recovery.prove_or_fail(production, state.stable, time.monotonic()).text()
    return _rolled_back(context, production, draft, place, (why, seen))


def _rolled_back(
    context: StageContext, production: Production, draft: ReportDraft, place: Place, told: tuple[str, str]
) -> StageReport:
    """Record it, keep the report, and raise: a run in which a rollback happened ends failed."""
    why, seen = told
    draft.outputs["outcome"] = production.record(place.uri, "rolled_back", why)
    state = production.platform.state()
    stable = state.stable.release if state.stable else "none"
    draft.check("settle.rolled_back", False, f"{place.release} was rolled back; stable is {stable}", detail=why)
    draft.check("settle.proof", True, seen)
    context.workspace.save_report(draft.finish())
    raise RolledBack(
        f"{place.release} was rolled back: {why}. Stable is {stable}: {seen}",
        remedy="the rollback itself succeeded; mend the candidate and release it again",
    )


def _took_part(context: StageContext, place: Place) -> bool:
    """Whether this run began the promotion: canary leaves an evidence file when it takes the lock."""
    path = evidence_path(context)
    return path.exists() and place.release in path.read_text(encoding="utf-8")


def _held(context: StageContext) -> bool:
    report = context.workspace.report("canary")
    return report is not None and report.verdict is Verdict.inconclusive and bool(report.details.get("held"))


def _why(context: StageContext, state: ServingState) -> str:
    report = context.workspace.report("canary")
    if report is not None and report.verdict is not Verdict.passed:
        return report.reason()
    passed = load_evidence(context, report.release if report else "").passed if report else ()
    return f"the promotion did not end by itself after step {len(passed)} ({state.last_event or 'nothing happened'})"
