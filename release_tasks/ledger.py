"""What object storage remembers of a release beside its bytes: manifest, reports, approval, outcome."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from release_tasks.artifacts import Approval, ReleaseManifest, release_digest
from release_tasks.clients.storage import ObjectStore
from release_tasks.errors import InvalidInput, NotSigned
from release_tasks.outcome import StageReport
from release_tasks.settings import Settings
from release_tasks.signing import read_key, verify
from release_tasks.spec import ReleaseSpec
from release_tasks.stages import STAGES


class Outcome(BaseModel):
    """How a promotion ended. A release with an outcome is never promoted again by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    release: str
    outcome: Literal["promoted", "rolled_back"]
    when: datetime
    reason: str


@dataclass(frozen=True)
class Place:
    """Addresses of one release: ``gs://<bucket>/<name>/releases/<id>`` and what lies beside it."""

    base: str
    release: str

    @classmethod
    def of(cls, uri: str) -> Place:
        """From a release's prefix.

        Raises:
            InvalidInput: it is none.
        """
        base, separator, release = uri.rstrip("/").rpartition("/releases/")
        if not separator or not base.startswith("gs://") or not release or "/" in release:
            raise InvalidInput(
                field="--release",
                value=uri,
                rule="it must be gs://<bucket>/<name>/releases/<id>",
                remedy="take it from the upload stage's report",
            )
        return cls(base=base, release=release)

    @property
    def uri(self) -> str:
        """The release's prefix."""
        return f"{self.base}/releases/{self.release}"

    @property
    def approval(self) -> str:
        """Where its approval lies."""
        return f"{self.base}/approvals/{self.release}.json"

    @property
    def outcome(self) -> str:
        """Where its outcome lies."""
        return f"{self.base}/outcomes/{self.release}.json"

    def report(self, stage: str, model: str | None) -> str:
        """Where a stage's report lies."""
        return f"{self.base}/reports/{self.release}/{stage}{f'.{model}' if model else ''}.json"


def read_manifest(store: ObjectStore, place: Place) -> ReleaseManifest:
    """The release's manifest.

    Raises:
        InvalidInput: the prefix holds none, so it is no release.
    """
    uri = f"{place.uri}/release.json"
    if not store.exists(uri):
        raise InvalidInput(
            field="--release", value=place.uri, rule="the prefix holds no release.json", remedy="run upload to its end"
        )
    return ReleaseManifest.model_validate_json(store.read_text(uri))


def signed_stages() -> list[str]:
    """The stages whose results an approval covers."""
    names = list(STAGES)
    return names[: names.index("approve")]


def save_reports(store: ObjectStore, place: Place, reports: list[StageReport]) -> None:
    """Keep the signed stages' reports beside the release; a rerun replaces them, and voids what was signed before."""
    for report in reports:
        if report.stage in signed_stages():
            store.write(place.report(report.stage, report.model), report.model_dump_json(indent=1).encode())


def digest_of(store: ObjectStore, place: Place) -> str:
    """The release digest as storage has it now: manifest and the kept reports of the signed stages."""
    manifest = read_manifest(store, place)
    found = [o.uri for o in store.list(f"{place.base}/reports/{place.release}/")]
    reports = [StageReport.model_validate_json(store.read_text(uri)) for uri in found]
    return release_digest(manifest.digest, [r for r in reports if r.stage in signed_stages()])


def read_approval(store: ObjectStore, place: Place) -> Approval:
    """The stored answer.

    Raises:
        NotSigned: nobody has answered, or the record is broken.
    """
    if not store.exists(place.approval):
        raise NotSigned(f"nobody has answered for {place.release}", remedy="run regression and approve first")
    try:
        return Approval.model_validate_json(store.read_text(place.approval))
    except ValidationError as error:
        raise NotSigned(f"the approval {place.approval} cannot be read: {error}", remedy="approve again") from error


def check_signed(store: ObjectStore, place: Place, spec: ReleaseSpec, settings: Settings) -> Approval:
    """The valid approval of the release.

    Raises:
        NotSigned: there is none.
        InvalidInput: the prefix is no release.
    """
    digest = digest_of(store, place)
    approval = read_approval(store, place)
    key = read_key(settings.approval_key_file)
    verify(approval, key, uri=place.uri, digest=digest, approvers=spec.regression.approvers)
    return approval


def read_outcome(store: ObjectStore, place: Place) -> Outcome | None:
    """How the release's promotion ended; None when it has not."""
    if not store.exists(place.outcome):
        return None
    return Outcome.model_validate(json.loads(store.read_text(place.outcome)))


def write_outcome(store: ObjectStore, place: Place, outcome: Outcome) -> str:
    """Record how the promotion ended and return where. The same ending twice keeps the first record."""
    before = read_outcome(store, place)
    if before is None or before.outcome != outcome.outcome:
        store.write(place.outcome, outcome.model_dump_json(indent=1).encode())
    return place.outcome
