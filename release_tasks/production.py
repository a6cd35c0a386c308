"""What every stage that touches production opens: settings, platform, store, and the release it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from release_tasks.artifacts import PublishedRelease
from release_tasks.clients.storage import ObjectStore, open_store
from release_tasks.context import StageContext
from release_tasks.errors import ReleaseError
from release_tasks.ledger import Outcome, Place, write_outcome
from release_tasks.platforms import open_platform
from release_tasks.platforms.base import Platform
from release_tasks.platforms.state import LiveModel, LiveRelease
from release_tasks.settings import Settings
from release_tasks.spec import ReleaseSpec


@dataclass(frozen=True)
class Production:
    """Production, as a stage or the guard sees it."""

    settings: Settings
    platform: Platform
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    say: Callable[[str], None]

    @cached_property
    def store(self) -> ObjectStore:
        """Object storage, opened when it is first needed: weights can be put back while it is down."""
        return open_store(self.settings)

    @classmethod
    def of(cls, context: StageContext) -> Production:
        """From a stage's context."""
        settings = context.need_settings()
        return cls(
            settings=settings,
            platform=open_platform(settings),
            now=context.now,
            sleep=context.sleep,
            say=context.say,
        )

    def record(self, uri: str, outcome: str, reason: str) -> str:
        """Write how the release's promotion ended and return where.

        Raises:
            StorageError: it could not be written; the same call again is harmless.
        """
        place = Place.of(uri)
        ending = Outcome.model_validate(
            {"release": place.release, "outcome": outcome, "when": self.now(), "reason": reason}
        )
        return write_outcome(self.store, place, ending)

    def record_if_possible(self, uri: str, outcome: str, reason: str) -> None:
        """The same where traffic comes first: storage that is down is said, not raised."""
        try:
            self.record(uri, outcome, reason)
        except ReleaseError as error:
            self.say(f"the outcome of {uri} could not be written: {error.message}; settle writes it later")


def place_of(context: StageContext) -> Place:
    """The release a stage is about: ``--release``, or the one this workspace published.

    Raises:
        StageOrderError: neither is there.
        InvalidInput: the address is no release prefix.
    """
    return Place.of(context.release_uri or context.workspace.load(PublishedRelease).uri)


def live_release(place: Place, spec: ReleaseSpec, slot: str) -> LiveRelease:
    """The release as the platform wants it."""
    models = tuple(LiveModel(name=m.name, sla_ms=m.sla_ms) for m in spec.models)
    return LiveRelease(release=place.release, uri=place.uri, slot=slot, models=models)
