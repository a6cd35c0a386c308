"""Which signed release is next: the newest validly approved one that no promotion has ended yet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from release_tasks.artifacts import Approval
from release_tasks.clients.storage import ObjectStore, open_store
from release_tasks.errors import ReleaseError
from release_tasks.ledger import Place, check_signed, read_approval, read_outcome
from release_tasks.settings import Settings, load_settings
from release_tasks.spec import parse_spec


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Picked:
    """The release to promote; both None when there is none."""

    release: str | None = None
    spec: str | None = None

    def as_json(self) -> dict[str, str | None]:
        """For the orchestrator."""
        return {"release": self.release, "spec": self.spec}


def pick(name: str, say: Callable[[str], None] = _say) -> Picked:
    """Look through the approvals of a service, newest first; says why each one before the pick is skipped."""
    settings = load_settings()
    store = open_store(settings)
    base = f"gs://{settings.storage.bucket}/{name}"
    for place, approval in _answers(store, base, say):
        if _was_promoted(store, place):
            # What was signed before it was compared with an older stable: promoting it now would be a step back.
            say(f"{place.release}: promoted; what was signed before it is out of date")
            break
        why = _why_not(store, settings, place)
        if not why:
            say(f"{place.release}: approved by {approval.approver} at {approval.decided:%Y-%m-%d %H:%M:%S} UTC")
            return Picked(release=place.uri, spec=f"{place.uri}/release.yaml")
        say(f"{place.release}: skipped: {why}")
    say(f"no signed release of {name} waits for promotion")
    return Picked()


def _answers(store: ObjectStore, base: str, say: Callable[[str], None]) -> list[tuple[Place, Approval]]:
    found = []
    for item in store.list(f"{base}/approvals/"):
        release = item.uri.rpartition("/")[2].removesuffix(".json")
        place = Place(base=base, release=release)
        try:
            found.append((place, read_approval(store, place)))
        except ReleaseError as error:
            say(f"{release}: skipped: {error.message}")
    return sorted(found, key=lambda pair: pair[1].decided, reverse=True)


def _was_promoted(store: ObjectStore, place: Place) -> bool:
    try:
        ending = read_outcome(store, place)
    except ReleaseError:
        return False  # `_why_not` says what is wrong
    return ending is not None and ending.outcome == "promoted"


def _why_not(store: ObjectStore, settings: Settings, place: Place) -> str:
    """Why the release is not to be promoted; empty when it is."""
    try:
        ending = read_outcome(store, place)
        if ending is not None:
            return f"{ending.outcome} at {ending.when:%Y-%m-%d %H:%M:%S} UTC: {ending.reason}"
        spec = parse_spec(store.read_text(f"{place.uri}/release.yaml"), source=f"{place.uri}/release.yaml")
        check_signed(store, place, spec, settings)
    except ReleaseError as error:
        return error.message
    return ""
