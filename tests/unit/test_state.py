"""Transitions of the serving state: lock, lease, fence, rollback."""

import pytest

from release_tasks.errors import Fenced, LockHeld
from release_tasks.platforms.state import (
    Fence,
    LiveModel,
    LiveRelease,
    ServingState,
    begin,
    lease_ran_out,
    promote,
    renew,
    restore_previous,
    resume,
    roll_back,
    shift,
)


def release(name: str, slot: str) -> LiveRelease:
    return LiveRelease(
        release=name, uri=f"gs://b/shop/releases/{name}", slot=slot, models=(LiveModel(name="ranker", sla_ms=100),)
    )


STABLE = ServingState(epoch=4, stable=release("one", "blue"))
NEW = release("two", "green")


def begun(now: float = 100.0) -> tuple[ServingState, Fence]:
    state = begin(STABLE, "run-1", NEW, now, 20)
    return state, Fence(holder="run-1", epoch=state.epoch)


def test_begin_takes_the_lock_and_moves_no_traffic() -> None:
    state, fence = begun()
    assert state.slot_weights() == {"blue": 100, "green": 0}
    assert fence.epoch == 5
    assert state.idle_slot() == "green"


def test_living_lease_locks_others_out_and_a_dead_one_does_not() -> None:
    state, _ = begun(now=100)
    with pytest.raises(LockHeld, match="its lease runs 10 s more"):
        begin(state, "run-2", release("three", "green"), 110, 20)
    taken = begin(state, "run-2", release("three", "green"), 120, 20)
    assert taken.candidate == release("three", "green")
    assert taken.epoch == 6


def test_begin_again_by_the_same_holder_goes_on_where_it_was() -> None:
    state, fence = begun()
    at_five = shift(state, fence, 5, 101, 20)
    again = begin(at_five, "run-1", NEW, 105, 20)
    assert again.weight == 5
    assert again.lease is not None
    assert again.lease.expires == 125
    with pytest.raises(Fenced):  # an earlier try of the same run that is still alive
        shift(again, fence, 50, 106, 20)


def test_the_lock_holds_for_another_release_of_the_same_holder_too() -> None:
    state, _ = begun()
    with pytest.raises(LockHeld, match="promotion of two by run-1"):
        begin(state, "run-1", release("three", "green"), 105, 20)


def test_going_on_fences_out_the_step_before() -> None:
    state, fence = begun()
    resumed = resume(state, "run-1", 105, 20)
    assert (resumed.weight, resumed.candidate) == (state.weight, state.candidate)
    with pytest.raises(Fenced):
        renew(resumed, fence, 106, 20)
    for holder, now in (("run-2", 105), ("run-1", 500)):
        with pytest.raises(Fenced):
            resume(state, holder, now, 20)


def test_taking_over_from_a_dead_holder_starts_at_no_traffic() -> None:
    state, fence = begun()
    at_fifty = shift(state, fence, 50, 101, 20)
    taken = begin(at_fifty, "run-2", release("three", "green"), 200, 20)
    assert taken.slot_weights() == {"blue": 100, "green": 0}
    with pytest.raises(Fenced, match="belongs to run-2"):
        shift(taken, fence, 100, 201, 20)


def test_orphan_can_no_longer_write_after_a_rollback() -> None:
    state, fence = begun()
    back = roll_back(shift(state, fence, 5, 101, 20), "worse")
    assert back.slot_weights() == {"blue": 100, "green": 0}
    for write in (
        lambda: shift(back, fence, 50, 102, 20),
        lambda: renew(back, fence, 102, 20),
        lambda: promote(back, fence, 102),
    ):
        with pytest.raises(Fenced, match="rolled back: worse"):
            write()


def test_expired_lease_refuses_its_own_holder() -> None:
    state, fence = begun(now=100)
    with pytest.raises(Fenced, match="ran out 5 s ago"):
        shift(state, fence, 5, 125, 20)


def test_same_holder_of_an_older_epoch_is_refused() -> None:
    state, old = begun()
    again = begin(roll_back(state, "first try failed"), "run-1", NEW, 105, 20)
    with pytest.raises(Fenced):
        shift(again, old, 50, 106, 20)


def test_promotion_keeps_the_last_good_release_and_frees_the_lock() -> None:
    state, fence = begun()
    done = promote(shift(state, fence, 100, 101, 20), fence, 102)
    assert (done.stable, done.previous, done.candidate, done.lease) == (NEW, STABLE.stable, None, None)
    assert done.slot_weights() == {"blue": 0, "green": 100}
    assert done.idle_slot() == "blue"


def test_two_bad_canaries_in_a_row_never_bring_an_older_release_back() -> None:
    state, fence = begun()
    live = promote(shift(state, fence, 100, 101, 20), fence, 102)
    for name in ("three", "four"):
        live = roll_back(begin(live, name, release(name, "blue"), 110, 20), "worse")
        assert live.stable == NEW
    assert roll_back(live, "again") == live


def test_restoring_the_previous_release_happens_once() -> None:
    state, fence = begun()
    live = promote(shift(state, fence, 100, 101, 20), fence, 102)
    restored = restore_previous(live, "complaints")
    assert restored.stable == STABLE.stable
    assert restored.previous is None
    assert restore_previous(restored, "again") == restored


def test_lease_ran_out_only_with_a_candidate() -> None:
    state, _ = begun(now=100)
    assert not lease_ran_out(state, 119.9)
    assert lease_ran_out(state, 120)
    assert not lease_ran_out(STABLE, 1e9)


def test_first_release_has_all_traffic_or_none() -> None:
    first = begin(ServingState(), "run-1", release("one", "blue"), 0, 20)
    assert first.slot_weights() == {"blue": 0, "green": 0}
    fence = Fence(holder="run-1", epoch=first.epoch)
    assert shift(first, fence, 100, 1, 20).slot_weights() == {"blue": 100, "green": 0}
    assert roll_back(first, "bad").slot_weights() == {"blue": 0, "green": 0}
