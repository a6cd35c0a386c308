"""Evidence and decisions on hand-made counters, the doubtful ones above all."""

import math
import time

import pytest

from release_tasks.judge.decision import Decision, Question, Ruling, decide, failures_to_roll_back
from release_tasks.judge.evidence import Evidence, Kind, Reading, Role, Scrape
from release_tasks.spec import CanaryPolicy

POLICY = CanaryPolicy(
    weights=(5, 50, 100), min_bake_s=20, deadline_s=120, poll_s=1, lease_s=10, max_error_share=0.02, max_slow_share=0.10
)
Totals = dict[str, float]


def readings(canary: Totals, stable: Totals) -> tuple[Reading, ...]:
    """Counters of one model: keys ok, bad (requests by answer) and slow (of all of them)."""
    found = []
    for role, side in ((Role.canary, canary), (Role.stable, stable)):
        total = side.get("ok", 0) + side.get("bad", 0)
        found += [
            Reading(role=role, metric="errors", kind=Kind.total, series="200", value=side.get("ok", 0)),
            Reading(role=role, metric="errors", kind=Kind.total, series="500", value=side.get("bad", 0)),
            Reading(role=role, metric="errors", kind=Kind.bad, series="500", value=side.get("bad", 0)),
            Reading(role=role, metric="slow.m", kind=Kind.total, series="", value=total),
            Reading(role=role, metric="slow.m", kind=Kind.good, series="", value=total - side.get("slow", 0)),
        ]
    return tuple(found)


def watch(looks: int, canary: Totals, stable: Totals, step: int = 0, start: Evidence | None = None) -> Evidence:
    """Evidence after ``looks`` one-second intervals in which the counters grow by that much each."""
    evidence = (start or Evidence(release="r")).restarted()
    for t in range(looks + 1):
        grown = readings({k: v * t for k, v in canary.items()}, {k: v * t for k, v in stable.items()})
        evidence = evidence.observe(Scrape(at=1000.0 + t, readings=grown), step)
    return evidence


def ask(evidence: Evidence, elapsed: float = 30, step: int = 0, policy: CanaryPolicy = POLICY) -> Decision:
    return decide(Question(policy=policy, models=("m",), step=step, elapsed_s=elapsed), evidence)


def test_good_candidate_goes_on_once_proved_and_baked() -> None:
    early = ask(watch(10, {"ok": 30}, {"ok": 500}), elapsed=10)
    assert early.ruling is Ruling.wait
    assert "baked 10 of 20 s" in early.reason
    assert ask(watch(25, {"ok": 30}, {"ok": 500})).ruling is Ruling.go_on


def test_too_few_requests_wait_then_are_inconclusive_with_the_count_that_was_missing() -> None:
    few = watch(30, {"ok": 2}, {"ok": 38})
    waiting = ask(few, elapsed=30)
    assert waiting.ruling is Ruling.wait
    assert "60 of 224 requests" in waiting.reason
    assert waiting.minutes_left == pytest.approx((224 - 60) / 2 / 60)
    late = ask(few, elapsed=120)
    assert late.ruling is Ruling.inconclusive
    assert "60 of 224" in late.reason


def test_failing_candidate_is_rolled_back_before_the_bake_is_over() -> None:
    decision = ask(watch(4, {"ok": 4, "bad": 1}, {"ok": 95}), elapsed=4)
    assert decision.ruling is Ruling.roll_back
    assert "errors is worse than stable" in decision.reason
    assert "4 of 20" in decision.reason


def test_slow_candidate_is_rolled_back_though_nothing_fails() -> None:
    decision = ask(watch(10, {"ok": 5, "slow": 4}, {"ok": 95, "slow": 1}))
    assert decision.ruling is Ruling.roll_back
    assert decision.reason.startswith("slow.m is worse")


def test_equally_bad_on_both_sides_is_not_the_candidates_fault_but_does_not_pass() -> None:
    both = watch(30, {"ok": 97, "bad": 2}, {"ok": 980, "bad": 20})
    assert ask(both).ruling is Ruling.wait
    assert ask(both, elapsed=200).ruling is Ruling.inconclusive


def test_full_traffic_is_judged_by_objectives_and_the_carried_comparison() -> None:
    before = watch(25, {"ok": 50}, {"ok": 50}, step=1)
    assert ask(watch(25, {"ok": 100}, {}, step=2, start=before), step=2).ruling is Ruling.go_on
    failing = ask(watch(25, {"ok": 88, "bad": 12}, {}, step=2, start=before), step=2)
    assert failing.ruling is Ruling.roll_back
    assert "over the objective" in failing.reason


def test_each_step_needs_its_own_proof() -> None:
    before = watch(100, {"ok": 100}, {"ok": 100}, step=0)
    fresh = watch(2, {"ok": 50}, {"ok": 50}, step=1, start=before)
    assert ask(fresh, step=1).ruling is Ruling.wait


def test_suspicion_from_an_earlier_step_is_carried() -> None:
    bad_start = watch(3, {"ok": 4, "bad": 1}, {"ok": 95}, step=0)
    carried = watch(25, {"ok": 50}, {"ok": 50}, step=1, start=bad_start)
    fresh = watch(25, {"ok": 50}, {"ok": 50}, step=1)
    assert ask(carried, step=1).evidence > ask(fresh, step=1).evidence


def test_stable_without_traffic_is_nothing_to_compare_with() -> None:
    decision = ask(watch(30, {"ok": 50}, {}))
    assert decision.ruling is Ruling.wait
    assert "nothing to compare with" in decision.reason


def test_model_without_requests_cannot_pass() -> None:
    evidence = watch(30, {"ok": 50}, {"ok": 500})
    question = Question(policy=POLICY, models=("m", "quiet"), step=0, elapsed_s=500)
    decision = decide(question, evidence)
    assert decision.ruling is Ruling.inconclusive
    assert "slow.quiet: no request reached the candidate" in decision.reason


FAULTS: dict[str, Scrape] = {
    "Prometheus down": Scrape(at=2000, fault="Prometheus does not answer"),
    "empty vector": Scrape(at=2000),
    "NaN": Scrape(at=2000, readings=readings({"ok": math.nan}, {"ok": 1})),
    "infinite": Scrape(at=2000, readings=readings({"ok": 1}, {"ok": math.inf})),
    "duplicate series": Scrape(at=2000, readings=readings({"ok": 1}, {"ok": 1}) * 2),
    "other weights": Scrape(at=2000, readings=readings({"ok": 9}, {"ok": 9}), fault="live weights are not commanded"),
    "no bucket": Scrape(at=2000, readings=tuple(r for r in readings({"ok": 9}, {"ok": 9}) if r.kind is not Kind.good)),
    "no total": Scrape(at=2000, readings=tuple(r for r in readings({"ok": 9}, {"ok": 9}) if r.kind is Kind.bad)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_doubtful_looks_never_pass(name: str) -> None:
    good = watch(30, {"ok": 50}, {"ok": 500})
    assert ask(good).ruling is Ruling.go_on
    doubtful = good.observe(FAULTS[name], 0)
    assert ask(doubtful).ruling is Ruling.wait
    only_doubt = Evidence(release="r")
    for _ in range(50):
        only_doubt = only_doubt.observe(FAULTS[name], 0)
    late = ask(only_doubt, elapsed=500)
    assert late.ruling is Ruling.inconclusive
    assert "50 looks discarded" in late.reason


def test_clock_that_goes_backwards_is_no_evidence() -> None:
    good = watch(30, {"ok": 50}, {"ok": 500})
    back = good.observe(Scrape(at=500, readings=readings({"ok": 9999}, {"ok": 9999})), 0)
    assert back.intervals == good.intervals
    assert ask(back).ruling is Ruling.wait


def test_counter_reset_counts_from_zero() -> None:
    evidence = Evidence(release="r").observe(Scrape(at=1, readings=readings({"ok": 900}, {"ok": 5000})), 0)
    evidence = evidence.observe(Scrape(at=2, readings=readings({"ok": 7}, {"ok": 5100})), 0)
    counts = evidence.total("errors", 0)
    assert (counts.canary, counts.stable) == (7, 100)


def test_error_series_born_in_between_counts_and_absent_one_is_zero() -> None:
    def without_errors(scrape: tuple[Reading, ...]) -> tuple[Reading, ...]:
        return tuple(r for r in scrape if r.series != "500")

    first = without_errors(readings({"ok": 10}, {"ok": 10}))
    evidence = Evidence(release="r").observe(Scrape(at=1, readings=first), 0)
    evidence = evidence.observe(Scrape(at=2, readings=without_errors(readings({"ok": 20}, {"ok": 20}))), 0)
    assert evidence.total("errors", 0).canary_bad == 0
    evidence = evidence.observe(Scrape(at=3, readings=readings({"ok": 25, "bad": 3}, {"ok": 30})), 0)
    assert evidence.total("errors", 0).row() == (18, 3, 20, 0)


def test_old_counts_of_the_slot_are_no_evidence() -> None:
    old = readings({"ok": 10, "bad": 500}, {"ok": 100_000})
    evidence = Evidence(release="r").observe(Scrape(at=1, readings=old), 0)
    evidence = evidence.observe(Scrape(at=2, readings=old), 0)
    assert evidence.total("errors", 0).row() == (0, 0, 0, 0)


def test_evidence_survives_serialisation_and_a_restart_goes_on_with_the_same_counts() -> None:
    evidence = watch(5, {"ok": 5, "bad": 1}, {"ok": 95}).with_passed(0)
    again = Evidence.model_validate_json(evidence.model_dump_json()).restarted()
    assert again.passed == (0,)
    assert again.total("errors", 0) == evidence.total("errors", 0)
    unwatched = again.observe(Scrape(at=9999, readings=readings({"ok": 0, "bad": 10_000}, {"ok": 1})), 0)
    assert unwatched.total("errors", 0) == evidence.total("errors", 0)


def test_every_number_is_in_the_decision() -> None:
    decision = ask(watch(30, {"ok": 50, "bad": 0}, {"ok": 500}))
    assert decision.numbers["errors.canary"] == 1500
    assert decision.numbers["slow.m.stable"] == 15000
    assert decision.numbers["errors.needed"] == 224
    assert {"e_value", "e_bound", "minutes_left", "errors.e_worse", "errors.e_within"} <= set(decision.numbers)
    text = decision.views[0].text()
    assert "canary 0/1500, stable 0/15000" in text


def test_what_it_would_have_taken_is_a_small_number_of_failures() -> None:
    question = Question(policy=POLICY, models=("m",), step=0, elapsed_s=1)
    needed = failures_to_roll_back(question, watch(10, {"ok": 5}, {"ok": 95}), "errors")
    assert needed is not None
    assert 2 <= needed <= 8


def test_one_decision_on_an_hour_of_scrapes_is_quick() -> None:
    evidence = watch(240, {"ok": 50}, {"ok": 500})
    ask(evidence)
    start = time.process_time()
    for _ in range(5):
        ask(evidence)
    assert (time.process_time() - start) / 5 < 0.1
