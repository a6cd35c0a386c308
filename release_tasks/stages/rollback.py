"""Go back to the last good release, for a person's reason, and prove it."""

from __future__ import annotations

import time

from release_tasks import recovery
from release_tasks.context import StageContext
from release_tasks.errors import InvalidInput
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
    leaving = state.candidate or state.stable
    if leaving is None:
        raise InvalidInput(
            field="rollback", value="(nothing live)", rule="no release is live", remedy="promote a release first"
        )
    draft = context.draft("rollback", leaving.release)
    proof = recovery.roll_back(production, why) if state.candidate else _restore(context, production, state, why)
    draft.check(
        "rollback.proof", True, f"{leaving.release} is out; {proof.release or 'nothing'} is live", detail=proof.text()
    )
    draft.numbers["rollback_s"] = round(proof.seconds, 2)
    draft.outputs["stable"] = proof.release or ""
    draft.outputs["outcome"] = production.record(leaving.uri, "rolled_back", why)
    return draft.finish()


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
    after = production.platform.apply(lambda s: serving.restore_previous(s, why) if s.previous else s)
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
    with LeaseKeeper(platform, fence, policy.lease_s):
        platform.deploy(target, deadline_s=context.spec.serving.ready_deadline_s, fence=fence)
