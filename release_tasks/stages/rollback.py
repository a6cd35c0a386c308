"""Go back to the last good release, for a person's reason, and prove it."""

from __future__ import annotations

import time

from release_tasks import recovery
from release_tasks.artifacts import RollbackRecord
from release_tasks.context import StageContext
from release_tasks.errors import InvalidInput, ReleaseError
from release_tasks.lease import LeaseKeeper
from release_tasks.outcome import StageReport
from release_tasks.platforms import state as serving
from release_tasks.platforms.base import SlotPhase
from release_tasks.platforms.state import Fence, LiveRelease, ServingState
from release_tasks.production import Production


def run(context: StageContext) -> StageReport:
    """Take back the candidate in flight; without one, undo the last promotion.

    Raises:
        InvalidInput: there is no earlier release.
        RollbackFailed: a person must act.
    """
    production = Production.of(context)
    state = production.platform.state()
    why = f"{context.holder}: {context.options.get('reason') or 'no reason given'}"
    leaving = _leaving(context, state)
    draft = context.draft("rollback", leaving.release)
    proof = _take_back(context, production, leaving.release, why)
    draft.check(
        "rollback.proof", True, f"{leaving.release} is out; {proof.release or 'nothing'} is live", detail=proof.text()
    )
    draft.numbers["rollback_s"] = round(proof.seconds, 2)
    draft.outputs["stable"] = proof.release or ""
    production.record_if_possible(leaving.uri, "rolled_back", why)
    return draft.finish()


def _leaving(context: StageContext, state: ServingState) -> RollbackRecord:
    """What this run takes back: written down before anything is changed, and read again by a rerun."""
    kept = context.workspace.find(RollbackRecord)
    if kept is not None:
        return kept
    # The last good release is a candidate only while a rollback, which did not end, was bringing it back.
    restoring = state.candidate and state.previous and state.candidate.release == state.previous.release
    leaving = state.stable if restoring or not state.candidate else state.candidate
    if leaving is None:
        raise InvalidInput(
            field="rollback", value="(nothing live)", rule="no release is live", remedy="promote a release first"
        )
    record = RollbackRecord(release=leaving.release, uri=leaving.uri)
    context.workspace.save(record)
    return record


def _take_back(context: StageContext, production: Production, leaving: str, why: str) -> recovery.Proof:
    state = production.platform.state()
    if state.candidate and state.candidate.release == leaving:
        proof = recovery.roll_back(production, why, when=lambda s: s.candidate == state.candidate)
        # None: it ended, promoted or taken back, between the look and the lock.
        return proof or _take_back(context, production, leaving, why)
    if state.stable and state.stable.release == leaving:
        return _restore(context, production, state, why)
    context.say(f"  {leaving} is out already; use a new --workspace to take back another release")
    if state.stable is None:
        return recovery.Proof(release=None, slot=None, seconds=0.0, lines=("no release is live",))
    return recovery.prove_or_fail(production, state.stable, time.monotonic())


def _restore(context: StageContext, production: Production, state: ServingState, why: str) -> recovery.Proof:
    began = time.monotonic()
    if state.previous is None or state.stable is None:
        live = state.stable.release if state.stable else "none"
        raise InvalidInput(
            field="rollback",
            value=live,
            rule="there is no earlier good release to go back to",
            remedy="it was the first, or was itself restored: promote another release, or stop the slot by hand",
        )
    target = state.previous
    if not _serves(production, target):
        _redeploy(context, production, target)
    after = production.platform.apply(lambda s: serving.restore_previous(s, why) if s.stable == state.stable else s)
    assert after.stable is not None
    return recovery.prove_or_fail(production, after.stable, began)


def _serves(production: Production, target: LiveRelease) -> bool:
    status = production.platform.status(target.slot)
    return status.phase is SlotPhase.ready and status.release == target.release


def _redeploy(context: StageContext, production: Production, target: LiveRelease) -> None:
    """The warm slot was reused: bring the release back there, under a lock like any other deployment."""
    platform, policy = production.platform, context.spec.canary
    holder = f"rollback by {context.holder}"
    context.say(f"  slot {target.slot} no longer serves {target.release}; deploying it again")
    state = platform.apply(lambda s: serving.begin(s, holder, target, context.now().timestamp(), policy.lease_s))
    fence = Fence(holder=holder, epoch=state.epoch)
    try:
        with LeaseKeeper(platform, fence, policy.lease_s):
            platform.deploy(target, deadline_s=context.spec.serving.ready_deadline_s, fence=fence)
    except ReleaseError as error:
        why = f"{target.release} could not be brought back: {error.message}"
        platform.apply(lambda s: serving.roll_back(s, why) if s.epoch == fence.epoch else s)
        raise
