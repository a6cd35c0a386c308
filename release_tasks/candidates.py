"""Fetch a candidate's folder, and the identity of what was fetched."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from release_tasks.artifacts import CandidateRecord, FileDigest
from release_tasks.errors import CandidateError
from release_tasks.sources import local_path
from release_tasks.workspace import Workspace

SPEC_FILE = "release.yaml"


def candidate_uri(spec_uri: str) -> str:
    """The folder that holds release.yaml, given the address of either."""
    path = local_path(spec_uri)
    if path is None:
        return spec_uri.removesuffix(SPEC_FILE).rstrip("/")
    return str((path if path.is_dir() else path.parent).resolve())


def fetch(uri: str, target: Path) -> None:
    """Copy the candidate at a path or gs:// prefix into the folder ``target``, which must not exist yet.

    Raises:
        CandidateError: nothing lies there, or it holds a symbolic link.
        StorageError: object storage does not answer.
    """
    path = local_path(uri)
    if path is None:
        _download(uri, target)
        return
    for found in path.rglob("*"):
        if found.is_symlink():
            raise CandidateError(
                field=str(found.relative_to(path)),
                value="symbolic link",
                rule="a candidate holds plain files only",
                remedy="copy the file it points to",
            )
    try:
        shutil.copytree(path, target)
    except (OSError, shutil.Error) as error:
        raise CandidateError(
            field="--spec", value=uri, rule=f"the candidate cannot be read ({error})", remedy="check the address"
        ) from error


def release_id(name: str, digest: str, workspace: Workspace) -> str:
    """``<name>-<8 hex of the candidate's digest>-<6 hex of the run's folder name>``."""
    run = hashlib.sha256(workspace.root.resolve().name.encode()).hexdigest()
    return f"{name}-{digest[:8]}-{run[:6]}"


def inside(root: Path, relative: str, field: str) -> Path:
    """The candidate's file or folder of that relative path.

    Raises:
        CandidateError: it lies outside the candidate, or is missing.
    """
    try:
        path = (root / relative).resolve()
        exists = path.exists()
    except (OSError, ValueError) as error:  # a name too long, or with a NUL
        raise CandidateError(
            field=field, value=relative, rule="it is no usable file name", remedy="use a path below release.yaml"
        ) from error
    if not path.is_relative_to(root.resolve()):
        raise CandidateError(
            field=field, value=relative, rule="it must lie inside the candidate", remedy="use a path below release.yaml"
        )
    if not exists:
        raise CandidateError(
            field=field, value=relative, rule="the candidate has no such file", remedy="add it, or mend the path"
        )
    return path


def same_files(one: tuple[FileDigest, ...], other: tuple[FileDigest, ...]) -> bool:
    """Whether two sets of digests name the same bytes at the same places."""
    return {(f.path, f.sha256) for f in one} == {(f.path, f.sha256) for f in other}


def commit(workspace: Workspace, fetched: Path, record: CandidateRecord) -> None:
    """Make a fetched and checked candidate the workspace's own.

    Another candidate's results are thrown away first, so that nothing of it can be released under the new name.
    """
    before = workspace.find(CandidateRecord)
    if before != record:
        discard(workspace)
    if workspace.candidate.exists():
        shutil.rmtree(workspace.candidate)
    fetched.rename(workspace.candidate)
    workspace.save(record)


def discard(workspace: Workspace) -> None:
    """Throw away the candidate and everything made from it; the record first, so that later stages refuse to run."""
    for folder in ("records", "reports", "exported", "repository", "candidate"):
        shutil.rmtree(workspace.root / folder, ignore_errors=True)


def _download(uri: str, target: Path) -> None:
    from release_tasks.clients.storage import open_store

    store = open_store()
    prefix = uri.rstrip("/") + "/"
    objects = store.list(prefix)
    if not objects:
        raise CandidateError(field="--spec", value=uri, rule="nothing lies there", remedy="check the bucket and prefix")
    for found in objects:
        place = target / found.uri.removeprefix(prefix)
        if not place.resolve().is_relative_to(target.resolve()):
            raise CandidateError(
                field="--spec", value=found.uri, rule="the object's name leaves the prefix", remedy="rename the object"
            )
        if found.uri.endswith("/"):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(store.read_bytes(found.uri))
