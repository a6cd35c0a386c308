"""The judge's decision after each look, pure: policy, evidence and time in; verdict, numbers and words out.

False rollbacks: every metric gives one relative e-value (canary against stable, over all steps) and one absolute
e-value per step (canary against its objective). Their average is again an e-value, whatever their dependence, so
"average >= 1/alpha" rolls a good release back with a chance of at most alpha over the whole release.

Going on: every objective must be proved with error at most beta, on this step's requests alone, since a fault may
depend on load. All of them must hold, so beta need not be split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from release_tasks.judge.evidence import ATTEMPTS, ERRORS, SLOW, Counts, Evidence
from release_tasks.judge.sequential import (
    log_good_enough,
    log_over_objective,
    log_worse,
    requests_needed,
    worsening_needed,
)
from release_tasks.spec import CanaryPolicy


class Ruling(StrEnum):
    """What to do now."""

    go_on = "go_on"
    roll_back = "roll_back"
    wait = "wait"
    inconclusive = "inconclusive"


@dataclass(frozen=True)
class Question:
    """What is judged, and how long the step has run."""

    policy: CanaryPolicy
    models: tuple[str, ...]
    step: int
    elapsed_s: float

    @property
    def weight(self) -> int:
        """Percent of traffic in this step."""
        return self.policy.weights[self.step]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Failed requests of all models, requests over the SLA per model, and repeated attempts."""
        return (ERRORS, *(f"{SLOW}{name}" for name in self.models), ATTEMPTS)

    def limit(self, metric: str) -> float | None:
        """The objective: largest accepted share of bad requests. Attempts are only compared with stable's."""
        if metric == ATTEMPTS:
            return None
        return self.policy.max_error_share if metric == ERRORS else self.policy.max_slow_share

    def ratio(self, metric: str) -> float:
        """Tolerated ratio. Repeated attempts come in pairs, which is no independent draw: at least 1.5."""
        return max(1.5, self.policy.tolerated_ratio) if metric == ATTEMPTS else self.policy.tolerated_ratio


@dataclass(frozen=True)
class MetricView:
    """One metric as the judge sees it.

    Attributes:
        counts: requests of this step.
        worse, over: log e-values "worse than stable" and "over the objective".
        good: log e-value "within the objective", this step only.
        needed: requests of this step that would prove the objective with the bad ones seen so far.
    """

    metric: str
    limit: float | None
    counts: Counts
    worse: float
    over: float
    good: float
    needed: int | None

    def text(self) -> str:
        """One line with every number."""
        c = self.counts
        if self.limit is None:
            return (
                f"{self.metric}: canary {c.canary_bad:.0f}/{c.canary:.0f}, stable {c.stable_bad:.0f}/{c.stable:.0f}, "
                f"e(worse) {show(self.worse)}"
            )
        return (
            f"{self.metric}: canary {c.canary_bad:.0f}/{c.canary:.0f}, stable {c.stable_bad:.0f}/{c.stable:.0f}, "
            f"e(worse) {show(self.worse)}, e(over {self.limit:.1%}) {show(self.over)}, "
            f"e(within) {show(self.good)}, requests needed {self.needed if self.needed is not None else '-'}"
        )


@dataclass(frozen=True)
class Decision:
    """The ruling with its reason in words and everything it rests on."""

    ruling: Ruling
    reason: str
    evidence: float  # log of the average e-value against the release
    bound: float  # log of 1/alpha
    views: tuple[MetricView, ...] = ()
    minutes_left: float | None = None
    numbers: dict[str, float | int | str | None] = field(default_factory=dict)


def show(log_e: float) -> str:
    """An e-value for people."""
    return f"{math.exp(log_e):.3g}" if log_e < 14 else f"10^{log_e / math.log(10):.0f}"


def decide(question: Question, evidence: Evidence) -> Decision:
    """Rule on the step after a look."""
    views = tuple(_view(question, evidence, metric) for metric in question.metrics)
    against = _average([v.worse for v in views] + [v.over for v in views if v.limit is not None])
    bound = -math.log(question.policy.alpha)
    left = _minutes_left(question, evidence, views)
    ruling, reason = _rule(question, evidence, views, against)
    numbers = _numbers(question, views, against, left)
    return Decision(ruling, reason, against, bound, views, left, numbers)


def _rule(question: Question, evidence: Evidence, views: tuple[MetricView, ...], against: float) -> tuple[Ruling, str]:
    policy = question.policy
    bound = -math.log(policy.alpha)
    if against >= bound:
        return Ruling.roll_back, _accusation(views, against, bound)
    missing = _missing(question, evidence, views, against)
    if not missing:
        return Ruling.go_on, (
            f"every objective is proved at error {policy.beta:g} on this step's requests, and nothing speaks against "
            f"the release (e-value {show(against)}, bound {show(bound)})"
        )
    if question.elapsed_s >= policy.deadline_s:
        return Ruling.inconclusive, (
            f"not decided within {policy.deadline_s:.0f} s: {missing}; {_doubts(evidence)}"
            "send more traffic, or allow the step more time (canary.deadline_s)"
        )
    return Ruling.wait, missing


def _missing(question: Question, evidence: Evidence, views: tuple[MetricView, ...], against: float) -> str:
    """What still keeps the step from going on; empty when nothing does."""
    policy = question.policy
    watched = evidence.watched_s(question.step)
    unproved = [v for v in views if v.good < -math.log(policy.beta)]
    if evidence.baseline is None:
        return "the last look brought no evidence"
    if unproved:
        return "; ".join(_gap(v) for v in unproved)
    if watched < policy.min_bake_s:
        return f"baked {watched:.0f} of {policy.min_bake_s:.0f} s"
    # Not per model: a model that is new in this release has no stable side.
    if question.weight < 100 and all(v.counts.stable <= 0 for v in views if v.metric == ERRORS):
        return "stable answered no request in this step, so there is nothing to compare with"
    if against >= -math.log(policy.beta):
        return f"suspicious: the e-value against the release is {show(against)}"
    return ""


def _gap(view: MetricView) -> str:
    if view.counts.canary <= 0:
        return f"{view.metric}: no request reached the candidate"
    share = view.counts.canary_bad / view.counts.canary
    assert view.limit is not None  # only an objective can be unproved
    if share >= view.limit:
        return f"{view.metric}: {share:.1%} of {view.counts.canary:.0f} are bad, the objective is {view.limit:.1%}"
    return f"{view.metric}: {view.counts.canary:.0f} of {view.needed} requests that prove {view.limit:.1%}"


def _accusation(views: tuple[MetricView, ...], against: float, bound: float) -> str:
    worst = max(views, key=lambda v: max(v.worse, v.over))
    c = worst.counts
    compared = worst.limit is None or worst.worse >= worst.over
    charge = "worse than stable" if compared else f"over the objective of {worst.limit:.1%}"
    return (
        f"{worst.metric} is {charge}: in this step {c.canary_bad:.0f} of {c.canary:.0f} canary requests were bad, "
        f"{c.stable_bad:.0f} of {c.stable:.0f} at stable; e-value {show(against)} reached the bound {show(bound)}"
    )


def _doubts(evidence: Evidence) -> str:
    return "".join(f"{times} looks discarded ({reason}); " for reason, times in evidence.discarded.items())


def _view(question: Question, evidence: Evidence, metric: str) -> MetricView:
    limit = question.limit(metric)
    counts = evidence.total(metric, question.step)
    worse = log_worse(evidence.counted(metric), question.ratio(metric))
    if limit is None:
        return MetricView(metric, None, counts, worse, over=0.0, good=math.inf, needed=0)
    steps = len(question.policy.weights)
    seen = [evidence.total(metric, k) for k in range(steps)]
    return MetricView(
        metric=metric,
        limit=limit,
        counts=counts,
        worse=worse,
        over=_average([log_over_objective(c.canary, c.canary_bad, limit) for c in seen]),
        good=log_good_enough(counts.canary, counts.canary_bad, limit),
        needed=_needed(counts, limit, question.policy.beta),
    )


def _needed(counts: Counts, limit: float, beta: float) -> int | None:
    """Requests that prove the objective with the bad ones so far; more than a million is out of reach."""
    bad = round(counts.canary_bad)
    return requests_needed(bad, limit, beta) if bad < 1e6 * limit else None


def _average(logs: list[float]) -> float:
    top = max(logs)
    return top if math.isinf(top) else top + math.log(sum(math.exp(x - top) for x in logs) / len(logs))


def _minutes_left(question: Question, evidence: Evidence, views: tuple[MetricView, ...]) -> float | None:
    """Minutes until the slowest objective is proved at the step's traffic so far; None without traffic."""
    watched = evidence.watched_s(question.step)
    left = max(0.0, question.policy.min_bake_s - watched) / 60
    for view in (v for v in views if v.limit is not None):
        if view.counts.canary <= 0 or view.needed is None or watched <= 0:
            return None
        left = max(left, (view.needed - view.counts.canary) / view.counts.canary * watched / 60)
    return left


def _numbers(
    question: Question, views: tuple[MetricView, ...], against: float, left: float | None
) -> dict[str, float | int | str | None]:
    found: dict[str, float | int | str | None] = {
        "step": question.step + 1,
        "weight": question.weight,
        "elapsed_s": round(question.elapsed_s, 1),
        "e_value": show(against),
        "e_bound": show(-math.log(question.policy.alpha)),
        "minutes_left": None if left is None else round(left, 2),
    }
    for v in views:
        for name, value in zip(("canary", "canary_bad", "stable", "stable_bad"), v.counts.row(), strict=True):
            found[f"{v.metric}.{name}"] = value
        found[f"{v.metric}.e_worse"] = show(v.worse)
        if v.limit is None:
            continue
        found[f"{v.metric}.e_over"] = show(v.over)
        found[f"{v.metric}.e_within"] = show(v.good)
        found[f"{v.metric}.needed"] = v.needed
    return found


def failures_to_roll_back(question: Question, evidence: Evidence, metric: str) -> int | None:
    """Further bad canary requests of one metric that alone would reach the bound: what it would have taken."""
    e_values = 2 * len(question.metrics) - 1  # attempts have no absolute one
    goal = -math.log(question.policy.alpha) + math.log(e_values)
    return worsening_needed(evidence.counted(metric), question.ratio(metric), goal)
