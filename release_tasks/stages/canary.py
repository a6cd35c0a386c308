"""Move traffic to the candidate, one step of the policy, while the judge watches."""

from __future__ import annotations

from dataclasses import dataclass

from release_tasks import recovery
from release_tasks.canary_watch import HANDOVER_S, StepWatch, load_evidence, save_evidence
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import RolledBack, StageOrderError
from release_tasks.judge.decision import Decision, Question, Ruling, failures_to_roll_back
from release_tasks.judge.evidence import ERRORS, Evidence
from release_tasks.lease import LeaseKeeper
from release_tasks.ledger import Place, check_signed, read_outcome
from release_tasks.outcome import StageReport, Verdict
from release_tasks.platforms import state as serving
from release_tasks.platforms.state import Fence, ServingState
from release_tasks.production import Production, live_release, place_of

# After an undecided step under `on_inconclusive: hold`, the weight is held this long for a person; then the guard acts.
HOLD_S = 3600.0


@dataclass(frozen=True)
class Step:
    """One step of one promotion."""

    context: StageContext
    production: Production
    place: Place
    draft: ReportDraft

    @property
    def weight(self) -> int:
        """Percent of traffic in this step."""
        return self.context.spec.canary.weights[self.context.step]

    def now(self) -> float:
        """Unix seconds."""
        return self.context.now().timestamp()


def run(context: StageContext) -> StageReport:
    """Begin or go on with a promotion and take it through one step.

    Raises:
        NotSigned: no valid approval of exactly this release.
        LockHeld: another promotion is under way.
        RolledBack: this release was taken back before.
        StageOrderError: the step before has not passed.
        Fenced: the lease or epoch is no longer this holder's.
    """
    place = place_of(context)
    draft = context.draft("canary", place.release)
    draft.numbers["step"] = context.step + 1
    if context.step >= len(context.spec.canary.weights):
        draft.check("canary.step", True, f"the policy has {len(context.spec.canary.weights)} steps; no such step")
        return draft.finish()
    step = Step(context, Production.of(context), place, draft)
    state = step.production.platform.state()
    if state.stable is not None and state.stable.release == place.release:
        draft.check("canary.step", True, f"{place.release} is stable already; nothing to do")
        return draft.finish()
    _signed(step)
    fence = _begin(step) if context.step == 0 else _go_on(step, state)
    if context.step == 0:
        _deploy(step, fence)
    if step.production.platform.state().stable is None:
        return _first_release(step, fence)
    return _judged(step, fence)


def _signed(step: Step) -> None:
    ending = read_outcome(step.production.store, step.place)
    if ending is not None and ending.outcome == "rolled_back":
        raise RolledBack(
            f"{step.place.release} was rolled back at {ending.when:%Y-%m-%d %H:%M:%S} UTC: {ending.reason}",
            remedy=f"release it again in a new run; or, to try the very same release, delete {step.place.outcome}",
        )
    approval = check_signed(step.production.store, step.place, step.context.spec, step.production.settings)
    step.draft.check(
        "canary.approval",
        True,
        f"signed by {approval.approver} at {approval.decided:%Y-%m-%d %H:%M:%S} UTC for {approval.digest[:12]}",
    )


def _begin(step: Step) -> Fence:
    """Take the lock; the evidence file marks from here on that this release took part."""
    platform, policy = step.production.platform, step.context.spec.canary

    def change(state: ServingState) -> ServingState:
        candidate = live_release(step.place, step.context.spec, state.idle_slot())
        return serving.begin(state, step.context.holder, candidate, step.now(), policy.lease_s)

    before = platform.state().candidate
    state = platform.apply(change)
    goes_on = before is not None and before.release == step.place.release
    # What was seen in an earlier candidacy, which ended, says nothing about this one.
    seen = load_evidence(step.context, step.place.release) if goes_on else Evidence(release=step.place.release)
    save_evidence(step.context, seen)
    return Fence(holder=step.context.holder, epoch=state.epoch)


def _go_on(step: Step, state: ServingState) -> Fence:
    weights, at = step.context.spec.canary.weights, step.context.step
    candidate = state.candidate.release if state.candidate else None
    passed = load_evidence(step.context, step.place.release).passed
    in_place = candidate == step.place.release and state.weight in (weights[at - 1], weights[at])
    if state.stable is None:
        in_place = candidate == step.place.release and state.weight == 100
    if not in_place or at - 1 not in passed:
        raise StageOrderError(
            f"step {at + 1} of {step.place.release} needs step {at} passed and its weight of {weights[at - 1]} % in "
            f"force; live is candidate {candidate or 'none'} at {state.weight} %, passed are "
            f"{[p + 1 for p in passed]}: {state.last_event}",
            remedy="run the steps in order in one workspace, or let settle end this promotion",
        )
    holder, lease_s = step.context.holder, step.context.spec.canary.lease_s
    resumed = step.production.platform.apply(lambda s: serving.resume(s, holder, step.now(), lease_s))
    return Fence(holder=holder, epoch=resumed.epoch)


def _deploy(step: Step, fence: Fence) -> None:
    """Start the candidate beside stable; loading takes longer than the lease, so that is kept alive meanwhile."""
    platform, spec = step.production.platform, step.context.spec
    candidate = platform.state().candidate
    assert candidate is not None  # begin() has just put it there
    step.context.say(f"  deploying {candidate.release} to slot {candidate.slot}, no traffic yet")
    with LeaseKeeper(platform, fence, spec.canary.lease_s):
        status = platform.deploy(candidate, deadline_s=spec.serving.ready_deadline_s, fence=fence)
        recovery.answers_in_slot(step.production, candidate)
    step.draft.check("canary.deployed", True, f"slot {status.slot} answers for every model")


def _first_release(step: Step, fence: Fence) -> StageReport:
    """With no stable release there is nobody to harm and nothing to compare with: all traffic at once, then proof."""
    platform, lease_s = step.production.platform, step.context.spec.canary.lease_s
    state = platform.apply(lambda s: serving.shift(s, fence, 100, step.now(), lease_s + HANDOVER_S))
    assert state.candidate is not None
    proof = recovery.prove(step.production, state.candidate)
    step.draft.check(
        "canary.first_release", True, "no stable release to compare with; 100 % at once", detail=proof.text()
    )
    step.draft.numbers["weight"] = 100
    evidence = load_evidence(step.context, step.place.release).with_passed(step.context.step)
    save_evidence(step.context, evidence)
    return step.draft.finish()


def _judged(step: Step, fence: Fence) -> StageReport:
    watch = StepWatch.open(step.context, step.production, fence, step.place.release)
    decision, evidence = watch.run()
    _report(step, decision, evidence)
    if decision.ruling is Ruling.go_on:
        watch.renew(HANDOVER_S)
        save_evidence(step.context, evidence.with_passed(step.context.step))
    elif decision.ruling is Ruling.roll_back:
        # Users are harmed now; the orchestrator may take its time to schedule settle.
        why = f"step {step.context.step + 1}: {decision.reason}"
        proof = recovery.roll_back(step.production, why, when=lambda s: s.epoch == fence.epoch)
        step.draft.details["rollback"] = proof.text() if proof else "somebody else had ended the candidacy already"
        step.draft.numbers["rollback_s"] = round(proof.seconds, 2) if proof else None
    elif step.context.spec.canary.on_inconclusive == "hold":
        watch.renew(HOLD_S)
        step.draft.details["held"] = True
        step.context.say(
            f"  held at {step.weight} % for {HOLD_S / 60:.0f} min: a person decides, then the guard goes back"
        )
    report = step.draft.finish()
    step.context.workspace.save_report(report.model_copy(update={"model": f"step-{step.context.step + 1}"}))
    return report


VERDICTS = {Ruling.go_on: Verdict.passed, Ruling.roll_back: Verdict.failed}


def _report(step: Step, decision: Decision, evidence: Evidence) -> None:
    draft, spec = step.draft, step.context.spec
    question = Question(spec.canary, tuple(m.name for m in spec.models), step.context.step, 0)
    draft.numbers.update(decision.numbers)
    draft.numbers["failures_to_roll_back"] = failures_to_roll_back(question, evidence, ERRORS)
    verdict = VERDICTS.get(decision.ruling, Verdict.inconclusive)
    draft.check("canary.judge", verdict, f"{decision.ruling.value} at {step.weight} %", detail=decision.reason)
    draft.details["metrics"] = [view.text() for view in decision.views]
    draft.details["discarded"] = dict(evidence.discarded)
