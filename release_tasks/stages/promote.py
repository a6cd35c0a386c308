"""Make the candidate stable."""

from __future__ import annotations

from release_tasks import recovery
from release_tasks.canary_watch import load_evidence
from release_tasks.context import StageContext
from release_tasks.errors import StageOrderError
from release_tasks.ledger import Place, check_signed
from release_tasks.outcome import StageReport
from release_tasks.platforms import state as serving
from release_tasks.platforms.state import Fence, ServingState
from release_tasks.production import Production, place_of


def run(context: StageContext) -> StageReport:
    """Promote a candidate that has all traffic, every step passed, and a valid signature. The old slot stays warm.

    Raises:
        StageOrderError: it has not come that far.
        NotSigned: no valid approval of exactly this release.
        Fenced: the lease is no longer this holder's.
    """
    place = place_of(context)
    production = Production.of(context)
    draft = context.draft("promote", place.release)
    state = production.platform.state()
    if state.stable is None or state.stable.release != place.release:
        check_signed(production.store, place, context.spec, production.settings)
        _ready(context, state, place)
        fence = Fence(holder=context.holder, epoch=state.epoch)
        state = production.platform.apply(lambda s: serving.promote(s, fence, context.now().timestamp()))
    assert state.stable is not None
    proof = recovery.prove(production, state.stable)
    draft.check("promote.stable", True, f"{place.release} is stable in slot {state.stable.slot}", detail=proof.text())
    if state.previous:
        draft.check("promote.warm", True, f"{state.previous.release} stays warm in slot {state.previous.slot}")
    draft.outputs["outcome"] = production.record(place.uri, "promoted", "every step passed")
    draft.numbers["epoch"] = state.epoch
    return draft.finish()


def _ready(context: StageContext, state: ServingState, place: Place) -> None:
    candidate = state.candidate.release if state.candidate else None
    passed = load_evidence(context, place.release).passed
    missing = [k + 1 for k in range(len(context.spec.canary.weights)) if k not in passed]
    if candidate != place.release or state.weight != 100 or missing:
        raise StageOrderError(
            f"{place.release} cannot be promoted: live is candidate {candidate or 'none'} at {state.weight} %, "
            f"steps not passed: {missing or 'none'}; {state.last_event}",
            remedy="run every canary step in this workspace first",
        )
