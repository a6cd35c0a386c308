"""Typed hand-over records. Every record is one JSON file in the workspace; bytes are named by their digests."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from release_tasks.outcome import StageReport
from release_tasks.spec.model import Backend


class Record(BaseModel):
    """Base of all hand-over records. ``kind`` is the file name in the workspace."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: ClassVar[str]

    @property
    def key(self) -> str:
        """Distinguishes records of one kind, e.g. by model; empty when there is only one."""
        return ""


class FileDigest(BaseModel):
    """One file with the digests of its bytes, all computed in one read."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: str = Field(description="POSIX path relative to the folder the digests were taken of.")
    size: int = Field(ge=0, description="Bytes.")
    md5: str = Field(description="Base64, as object stores give it.")
    crc32c: str = Field(description="Base64 of the big-endian value, as object stores give it.")
    sha256: str = Field(description="Hex.")


class CandidateRecord(Record):
    """`validate` → everyone: what is being released."""

    kind: ClassVar[str] = "candidate"
    release: str = Field(description="Release id: <name>-<8 hex of the candidate's digest>-<6 hex of the run>.")
    uri: str = Field(description="Where the candidate came from.")
    digest: str = Field(description="SHA-256 over all files of the candidate, hex.")
    files: tuple[FileDigest, ...]


class ExportRecord(Record):
    """`export` → parity, size gate, repository: one exported model in `exported/<model>/`."""

    kind: ClassVar[str] = "export"
    model: str
    backend: Backend
    file_name: str = Field(description="File or folder below exported/<model>/ that the server loads.")
    files: tuple[FileDigest, ...]
    source_digest: str = Field(description="SHA-256 over the source artefact, hex.")
    versions: dict[str, str] = Field(description="Versions of the frameworks that took part.")

    @property
    def key(self) -> str:
        """One record per model."""
        return self.model


class RepositoryRecord(Record):
    """`repository` → upload: the rendered model repository in `repository/`."""

    kind: ClassVar[str] = "repository"
    release: str
    files: tuple[FileDigest, ...]
    digest: str = Field(description="SHA-256 over all files, hex.")


class ReleaseManifest(Record):
    """`release.json`, the last object of a release prefix. A prefix without it is no release."""

    kind: ClassVar[str] = "release"
    release: str
    name: str = Field(description="Name of the service.")
    created: datetime
    candidate_uri: str
    candidate_digest: str
    files: tuple[FileDigest, ...] = Field(description="Every other object of the prefix.")
    digest: str = Field(description="SHA-256 over all files, hex.")


class PublishedRelease(Record):
    """`upload` → deploy and everything after."""

    kind: ClassVar[str] = "published"
    release: str
    uri: str = Field(description="gs://<bucket>/<name>/releases/<id>")
    digest: str = Field(description="The manifest's digest.")


class RegressionRecord(Record):
    """`regression` → approval: what the business owner signs."""

    kind: ClassVar[str] = "regression"
    release: str
    uri: str
    digest: str = Field(description="Release digest: see `release_digest`.")
    stable_release: str | None
    markdown: str = Field(description="The table a person reads before signing.")


class Approval(Record):
    """A business owner's answer, bound to a digest and signed with the approval key (HMAC-SHA256, hex)."""

    kind: ClassVar[str] = "approval"
    release: str
    uri: str
    digest: str
    approver: str
    approved: bool
    decided: datetime
    reason: str = ""
    signature: str = ""

    def payload(self) -> bytes:
        """The signed bytes: the record without its signature, keys sorted."""
        return json.dumps(self.model_dump(mode="json", exclude={"signature"}), sort_keys=True).encode()


class RollbackRecord(Record):
    """`rollback` → its own rerun: what was taken back, so that a second try takes back nothing else."""

    kind: ClassVar[str] = "rollback"
    release: str
    uri: str


def files_digest(files: tuple[FileDigest, ...]) -> str:
    """SHA-256 over path, size and SHA-256 of every file, in path order; hex."""
    total = hashlib.sha256()
    for item in sorted(files, key=lambda f: f.path):
        total.update(f"{item.path}\0{item.size}\0{item.sha256}\n".encode())
    return total.hexdigest()


def release_digest(manifest_digest: str, reports: list[StageReport]) -> str:
    """What an approval is bound to: SHA-256 over the artefacts' digest and every check's result, hex.

    Measured values enter, so a rerun that measures something else voids the approval; times of day do not.
    """
    total = hashlib.sha256(manifest_digest.encode())
    for report in sorted(reports, key=lambda r: (r.stage, r.model or "")):
        total.update(f"{report.stage}\0{report.model or ''}\0{report.verdict}\n".encode())
        for check in report.checks:
            total.update(f"{check.name}\0{check.verdict}\0{check.measured}\0{check.limit}\n".encode())
    return total.hexdigest()
