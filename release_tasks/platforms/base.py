"""The contract between the pipeline and whatever serves.

A platform owns two production slots and one staging slot. A slot runs one release at a time. Users' traffic enters at
one address and is split over the production slots by weight. All changes of serving state go through ``apply``, which
is atomic and makes the traffic follow before it returns; ``weights`` reads what the traffic layer really does.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from release_tasks.platforms.state import Fence, LiveRelease, ServingState


class SlotPhase(StrEnum):
    """Life of a slot."""

    empty = "empty"
    starting = "starting"
    ready = "ready"
    failed = "failed"


class SlotStatus(BaseModel):
    """What a slot does now."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    slot: str
    phase: SlotPhase
    release: str | None = Field(default=None, description="Release the slot was told to run.")
    message: str = Field(default="", description="Why it failed, with the last lines of the server's log.")


class Platform(Protocol):
    """Six methods; everything else is built on them."""

    def deploy(self, release: LiveRelease, *, deadline_s: float, fence: Fence | None = None) -> SlotStatus:
        """Run a release in ``release.slot`` and wait until every model is ready. Running it already is no change.

        Raises:
            ServingError: not ready before the deadline, with the server's last log lines.
            Fenced: a production slot and the fence is not current.
            InvalidInput: a production slot that is stable, or no fence for a production slot.
        """

    def status(self, slot: str) -> SlotStatus:
        """What the slot does now; never raises for a slot that is down."""

    def remove(self, slot: str) -> None:
        """Stop the slot and free its memory. A slot that has traffic is refused with InvalidInput."""

    def state(self) -> ServingState:
        """The recorded serving state."""

    def apply(self, change: Callable[[ServingState], ServingState]) -> ServingState:
        """Atomically: read the state, change it, make the traffic follow, record it.

        An exception from ``change`` leaves everything as it was.

        Raises:
            TrafficError: the traffic layer did not take the weights; nothing was recorded.
        """

    def weights(self) -> dict[str, int]:
        """Percent of traffic per production slot, as the traffic layer reports it.

        Raises:
            TrafficError: it cannot be asked.
        """
