"""Publish the repository to an immutable prefix: every object written once and read back, release.json last."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from release_tasks.artifacts import (
    CandidateRecord,
    FileDigest,
    PublishedRelease,
    ReleaseManifest,
    RepositoryRecord,
    files_digest,
)
from release_tasks.candidates import same_files
from release_tasks.clients.digests import digest_tree
from release_tasks.clients.storage import ObjectStore, open_store
from release_tasks.clients.uris import join_uri
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import StageOrderError
from release_tasks.outcome import StageReport
from release_tasks.published import MANIFEST, check_published


def run(context: StageContext) -> StageReport:
    """Upload what is served and what proves it: repository, spec, business cases, golden rows.

    Raises:
        StageOrderError: the repository is not the one that was linted.
        ReleaseConflict: the prefix holds other bytes.
        DigestMismatch: the store holds other bytes than were sent.
    """
    settings, workspace = context.need_settings(), context.workspace
    candidate, repository = workspace.load(CandidateRecord), workspace.load(RepositoryRecord)
    draft = context.draft("upload", candidate.release)
    if not same_files(digest_tree(workspace.repository), repository.files):
        raise StageOrderError("repository/ is not what `repository` wrote", remedy="run `repository` again")
    prefix = f"gs://{settings.storage.bucket}/{context.spec.name}/releases/{candidate.release}"
    store = open_store(settings)
    with tempfile.TemporaryDirectory(dir=workspace.root, prefix=".upload.") as folder:
        files = _gather(context, Path(folder))
        store.upload_files(Path(folder), files, prefix, context.say)
    manifest = _publish_manifest(context, store, prefix, candidate, files)
    check_published(store, prefix, manifest, draft)
    workspace.save(PublishedRelease(release=candidate.release, uri=prefix, digest=manifest.digest))
    _summarise(draft, prefix, manifest)
    return draft.finish()


def _gather(context: StageContext, folder: Path) -> tuple[FileDigest, ...]:
    """The release's files as they lie below its prefix. Hard links, so that nothing is copied."""
    workspace, spec = context.workspace, context.spec
    shutil.copytree(workspace.repository, folder / "repository", copy_function=os.link)
    _link(workspace.candidate / "release.yaml", folder / "release.yaml")
    _link(workspace.candidate / spec.regression.cases, folder / "cases.json")
    for model in spec.models:
        _link(workspace.candidate / model.golden, folder / "golden" / f"{model.name}.npz")
    return digest_tree(folder)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    os.link(source, target)


def _publish_manifest(
    context: StageContext, store: ObjectStore, prefix: str, candidate: CandidateRecord, files: tuple[FileDigest, ...]
) -> ReleaseManifest:
    manifest = ReleaseManifest(
        release=candidate.release,
        name=context.spec.name,
        created=context.now(),
        candidate_uri=candidate.uri,
        candidate_digest=candidate.digest,
        files=files,
        digest=files_digest(files),
    )
    address = join_uri(prefix, MANIFEST)
    if store.exists(address):
        # Written by an earlier try of this run: the same files keep the first manifest, with its time of creation.
        earlier = ReleaseManifest.model_validate_json(store.read_text(address))
        if earlier.digest == manifest.digest:
            return earlier
    store.write_new(address, manifest.model_dump_json(indent=1).encode())
    return manifest


def _summarise(draft: ReportDraft, prefix: str, manifest: ReleaseManifest) -> None:
    draft.outputs = {"uri": prefix, "digest": manifest.digest}
    draft.numbers["objects"] = len(manifest.files)
    draft.numbers["bytes"] = sum(f.size for f in manifest.files)
