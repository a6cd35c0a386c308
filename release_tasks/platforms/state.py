"""Serving state and its transitions, pure.

    (empty) --begin(first)--> candidate@0 --weight--> candidate@100 --promote--> stable
    stable  --begin--> stable + candidate@0 --weight--> @5 --weight--> @50 --weight--> @100 --promote--> new stable
    any of these with a candidate --roll_back--> stable alone

Every transition that ends a candidacy raises the epoch. A writer shows its fence (holder and epoch); a fence of an
older epoch, of another holder or of a lease that has run out is refused, so an orphaned task can no longer write.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from release_tasks.errors import Fenced, LockHeld
from release_tasks.settings import PRODUCTION_SLOTS


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LiveModel(_Frozen):
    """What the traffic layer needs to know of a model."""

    name: str
    sla_ms: int


class LiveRelease(_Frozen):
    """A release in a slot."""

    release: str
    uri: str = Field(description="gs://<bucket>/<name>/releases/<id>")
    slot: str
    models: tuple[LiveModel, ...]


class Lease(_Frozen):
    """Who may write, until when."""

    holder: str
    expires: float = Field(description="Unix seconds.")


class ServingState(_Frozen):
    """What is live, what is on its way, and who may change it."""

    epoch: int = 0
    stable: LiveRelease | None = None
    previous: LiveRelease | None = Field(default=None, description="Last good release before the stable one.")
    candidate: LiveRelease | None = None
    weight: int = Field(default=0, ge=0, le=100, description="Commanded percent of traffic for the candidate.")
    lease: Lease | None = None
    last_event: str = ""

    def slot_weights(self) -> dict[str, int]:
        """Commanded percent of traffic per production slot; all zero while nothing is stable and nothing shifted."""
        weights = dict.fromkeys(PRODUCTION_SLOTS, 0)
        if self.candidate:
            weights[self.candidate.slot] = self.weight
        if self.stable:
            weights[self.stable.slot] = 100 - self.weight
        return weights

    def idle_slot(self) -> str:
        """The production slot that is not stable."""
        taken = self.stable.slot if self.stable else None
        return next(slot for slot in PRODUCTION_SLOTS if slot != taken)


@dataclass(frozen=True)
class Fence:
    """What a writer shows."""

    holder: str
    epoch: int


def begin(state: ServingState, holder: str, candidate: LiveRelease, now: float, lease_s: float) -> ServingState:
    """Take the release lock for a candidate. The same holder with the same release goes on where it was.

    Raises:
        LockHeld: somebody else's lease is still running.
    """
    lease = state.lease
    same = bool(state.candidate and state.candidate.release == candidate.release and lease and lease.holder == holder)
    if lease and lease.expires > now and not same:
        raise LockHeld(
            f"promotion of {state.candidate.release if state.candidate else '?'} by {lease.holder} is under way, "
            f"its lease runs {lease.expires - now:.0f} s more",
            remedy="wait for it to end, or roll it back first",
        )
    renewed = Lease(holder=holder, expires=now + lease_s)
    if same:
        # A new epoch all the same: an earlier try of the same run may still be alive, and must not write any more.
        return state.model_copy(update={"epoch": state.epoch + 1, "lease": renewed})
    return state.model_copy(
        update={
            "epoch": state.epoch + 1,
            "candidate": candidate,
            "weight": 0,
            "lease": renewed,
            "last_event": f"{holder} began {candidate.release}",
        }
    )


def check_fence(state: ServingState, fence: Fence, now: float) -> None:
    """Refuse a writer whose time is over.

    Raises:
        Fenced: other holder, other epoch, or lease run out.
    """
    lease = state.lease
    if lease is None or lease.holder != fence.holder or state.epoch != fence.epoch:
        owner = f"{lease.holder} at epoch {state.epoch}" if lease else f"nobody (epoch {state.epoch})"
        raise Fenced(
            f"{fence.holder} at epoch {fence.epoch} may no longer change the serving state; it belongs to {owner}: "
            f"{state.last_event}",
            remedy="nothing was written; start a new promotion if the release is still wanted",
        )
    if lease.expires <= now:
        raise Fenced(
            f"the lease of {fence.holder} ran out {now - lease.expires:.0f} s ago",
            remedy="nothing was written; the guard puts the weights back",
        )


def resume(state: ServingState, holder: str, now: float, lease_s: float) -> ServingState:
    """Go on with this holder's own candidacy under a new epoch, which fences out its earlier tasks and tries.

    Raises:
        Fenced: the candidacy is not this holder's, or its lease has run out.
    """
    check_fence(state, Fence(holder=holder, epoch=state.epoch), now)
    lease = Lease(holder=holder, expires=now + lease_s)
    return state.model_copy(update={"epoch": state.epoch + 1, "lease": lease})


def renew(state: ServingState, fence: Fence, now: float, lease_s: float) -> ServingState:
    """Extend the lease of the current holder."""
    check_fence(state, fence, now)
    return state.model_copy(update={"lease": Lease(holder=fence.holder, expires=now + lease_s)})


def shift(state: ServingState, fence: Fence, weight: int, now: float, lease_s: float) -> ServingState:
    """Give the candidate that percent of traffic."""
    renewed = renew(state, fence, now, lease_s)
    return renewed.model_copy(update={"weight": weight, "last_event": f"{fence.holder} set the weight to {weight}"})


def promote(state: ServingState, fence: Fence, now: float) -> ServingState:
    """The candidate becomes stable. The lease ends, the epoch rises."""
    check_fence(state, fence, now)
    assert state.candidate is not None  # a lease without a candidate cannot come out of begin()
    return ServingState(
        epoch=state.epoch + 1,
        stable=state.candidate,
        previous=state.stable,
        last_event=f"{fence.holder} promoted {state.candidate.release}",
    )


def roll_back(state: ServingState, why: str) -> ServingState:
    """All traffic to stable, no candidate, no lease. A state without a candidate is returned as it is."""
    if state.candidate is None:
        return state
    return ServingState(
        epoch=state.epoch + 1, stable=state.stable, previous=state.previous, last_event=f"rolled back: {why}"
    )


def restore_previous(state: ServingState, why: str) -> ServingState:
    """Undo the last promotion: the previous release becomes stable again. Its slot must still serve it."""
    if state.previous is None:
        return state
    return ServingState(epoch=state.epoch + 1, stable=state.previous, last_event=f"previous release restored: {why}")


def lease_ran_out(state: ServingState, now: float) -> bool:
    """Whether a canary is without a living holder, so that the guard must act."""
    return state.candidate is not None and (state.lease is None or state.lease.expires <= now)
