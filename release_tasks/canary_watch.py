"""Watch one canary step: look, renew the lease, judge, print a line; until the judge has decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from release_tasks.clients.prometheus import Prometheus
from release_tasks.context import StageContext
from release_tasks.errors import Fenced, TrafficError
from release_tasks.judge.decision import Decision, Question, Ruling, decide, show
from release_tasks.judge.evidence import Evidence, Role, Scrape
from release_tasks.judge.sequential import requests_needed
from release_tasks.platforms import state as serving
from release_tasks.platforms.state import Fence
from release_tasks.production import Production
from release_tasks.telemetry import Telemetry
from release_tasks.workspace import write_atomic

# What the orchestrator gets to start the next task; without it the guard would end a promotion between two steps.
HANDOVER_S = 30.0
BLIND_LOOKS = 5  # looks in a row without an answer from the traffic layer, after which it is down


def evidence_path(context: StageContext) -> Path:
    """Where the evidence of this run lies."""
    return context.workspace.root / "evidence.json"


def load_evidence(context: StageContext, release: str) -> Evidence:
    """What was seen of the release so far in this workspace."""
    path = evidence_path(context)
    if path.exists():
        found = Evidence.model_validate_json(path.read_text(encoding="utf-8"))
        if found.release == release:
            return found.restarted()
    return Evidence(release=release)


def save_evidence(context: StageContext, evidence: Evidence) -> None:
    """Keep it, so that a rerun and the next step go on from here."""
    write_atomic(evidence_path(context), evidence.model_dump_json())


@dataclass
class StepWatch:
    """The watch over one step."""

    context: StageContext
    production: Production
    fence: Fence
    telemetry: Telemetry
    evidence: Evidence
    blind: int = 0

    @classmethod
    def open(cls, context: StageContext, production: Production, fence: Fence, release: str) -> StepWatch:
        """Point the telemetry at the two slots.

        Raises:
            Fenced: the candidacy has ended.
            MetricsError: Prometheus does not answer; no step starts without eyes.
        """
        state = production.platform.state()
        if state.candidate is None or state.stable is None:
            raise Fenced(f"the candidacy of {release} has ended: {state.last_event}", remedy="nothing was written")
        prometheus = Prometheus(production.settings.prometheus)
        prometheus.query("vector(1)")
        telemetry = Telemetry(
            prometheus=prometheus,
            models=state.candidate.models,
            stable_models=frozenset(m.name for m in state.stable.models),
            slots={state.candidate.slot: Role.canary, state.stable.slot: Role.stable},
            scrape_interval_s=production.settings.scrape_interval_s,
        )
        return cls(context, production, fence, telemetry, load_evidence(context, release))

    def run(self) -> tuple[Decision, Evidence]:
        """Shift the weight and watch.

        Raises:
            Fenced: the lease is no longer this holder's.
            TrafficError: the traffic layer does not answer.
        """
        spec, step = self.context.spec, self.context.step
        self._observe()
        weight = spec.canary.weights[step]
        self._apply(lambda s: serving.shift(s, self.fence, weight, self._now(), spec.canary.lease_s))
        self.context.say(self._forecast(weight))
        began = self.context.monotonic()
        while True:
            self.context.sleep(spec.canary.poll_s)
            self.renew()
            self._observe()
            elapsed = self.context.monotonic() - began
            question = Question(spec.canary, tuple(m.name for m in spec.models), step, elapsed)
            decision = decide(question, self.evidence)
            self.context.say(_line(decision, elapsed, weight))
            if decision.ruling is not Ruling.wait:
                return decision, self.evidence

    def renew(self, more_s: float = 0.0) -> None:
        """Extend the lease, and by how much beyond the policy's.

        Raises:
            Fenced: it is no longer this holder's.
        """
        lease_s = self.context.spec.canary.lease_s + more_s
        self._apply(lambda s: serving.renew(s, self.fence, self._now(), lease_s))

    def _observe(self) -> None:
        scrape = self.telemetry.look()
        fault = self._weights_fault()
        if fault:
            scrape = Scrape(at=scrape.at, fault=fault)
        self.evidence = self.evidence.observe(scrape, self.context.step)
        save_evidence(self.context, self.evidence)

    def _weights_fault(self) -> str:
        """Why what the traffic layer does is not what was commanded; empty when it is."""
        try:
            live = self.production.platform.weights()
        except TrafficError as error:
            self.blind += 1
            if self.blind >= BLIND_LOOKS:
                raise
            return f"traffic layer: {error.message}"
        self.blind = 0
        commanded = self.production.platform.state().slot_weights()
        return "" if live == commanded else f"live weights {live} are not the commanded {commanded}"

    def _apply(self, change: Callable[[serving.ServingState], serving.ServingState]) -> None:
        self.production.platform.apply(change)

    def _now(self) -> float:
        return self.context.now().timestamp()

    def _forecast(self, weight: int) -> str:
        policy = self.context.spec.canary
        errors = requests_needed(0, policy.max_error_share, policy.beta)
        slow = requests_needed(0, policy.max_slow_share, policy.beta)
        return (
            f"  {weight} % to the candidate. Without a bad request the step needs {errors} requests in all, "
            f"{slow} per model, and {policy.min_bake_s:.0f} s; it ends after {policy.deadline_s:.0f} s"
        )


def _line(decision: Decision, elapsed: float, weight: int) -> str:
    parts = []
    for view in decision.views:
        c = view.counts
        needed = f", needs {view.needed}" if view.limit is not None else ""
        parts.append(
            f"{view.metric} {c.canary_bad:.0f}/{c.canary:.0f} (stable {c.stable_bad:.0f}/{c.stable:.0f}{needed})"
        )
    left = "" if decision.minutes_left is None else f", about {decision.minutes_left:.1f} min left"
    return (
        f"  {elapsed:6.1f} s  {weight:>3} %  {'; '.join(parts)}  "
        f"e {show(decision.evidence)} of {show(decision.bound)}{left}  {decision.ruling.value}"
    )
