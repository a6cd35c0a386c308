"""Object storage on a real fake-gcs-server: written once, read back, and what a fault reads like."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from local.ports import free_ports
from release_tasks.artifacts import FileDigest
from release_tasks.clients.digests import digest_tree
from release_tasks.clients.storage import ObjectStore, open_store
from release_tasks.clients.uris import join_uri
from release_tasks.errors import CandidateError, DigestMismatch, ReleaseConflict, StorageError
from release_tasks.settings import Settings, StorageSettings


@pytest.fixture
def store(serving_stack: Settings) -> ObjectStore:
    return open_store(serving_stack)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "files"
    for number in range(20):
        path = root / f"sub{number % 3}" / f"file {number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number]) * (number * 1000))
    (root / "large.bin").write_bytes(b"L" * (9 * 2**20))  # sent in several requests
    return root


@pytest.fixture
def prefix(serving_stack: Settings, tmp_path: Path) -> str:
    return f"gs://{serving_stack.storage.bucket}/storage-tests/{tmp_path.name}"


def _silent(text: str) -> None: ...


def test_what_comes_back_is_what_was_sent(store: ObjectStore, folder: Path, prefix: str, tmp_path: Path) -> None:
    files = digest_tree(folder)
    lines: list[str] = []
    store.upload_files(folder, files, prefix, lines.append)
    assert len(lines) == len(files)
    assert {i.uri for i in store.list(prefix)} == {join_uri(prefix, f.path) for f in files}
    store.download(prefix, tmp_path / "back", files)
    assert digest_tree(tmp_path / "back") == files


def test_uploading_again_changes_nothing_and_other_bytes_are_refused(
    store: ObjectStore, folder: Path, prefix: str
) -> None:
    files = digest_tree(folder)
    store.upload_files(folder, files, prefix, _silent)
    before = {i.uri: i.generation for i in store.list(prefix)}
    store.upload_files(folder, files, prefix, _silent)
    assert {i.uri: i.generation for i in store.list(prefix)} == before
    for path in (files[0].path, "large.bin"):
        (folder / path).write_bytes((folder / path).read_bytes() + b"other")
        changed = tuple(f for f in digest_tree(folder) if f.path == path)
        with pytest.raises(ReleaseConflict, match="other bytes"):
            store.upload_files(folder, changed, prefix, _silent)
    assert {i.uri: i.generation for i in store.list(prefix)} == before


def test_a_file_that_changes_between_digest_and_upload_is_caught(store: ObjectStore, folder: Path, prefix: str) -> None:
    files = digest_tree(folder)
    (folder / files[-1].path).write_bytes(b"changed meanwhile")
    with pytest.raises((DigestMismatch, StorageError)):
        store.upload_files(folder, files, prefix, _silent)


def test_of_many_writers_of_one_object_exactly_one_wins(store: ObjectStore, prefix: str) -> None:
    def write(number: int) -> str:
        try:
            store.write_new(f"{prefix}/race", f"writer {number}".encode())
        except ReleaseConflict:
            return ""
        return f"writer {number}"

    with ThreadPoolExecutor(8) as pool:
        winners = [w for w in pool.map(write, range(16)) if w]
    assert winners == [store.read_text(f"{prefix}/race")]


def test_a_download_of_other_bytes_leaves_nothing(
    store: ObjectStore, folder: Path, prefix: str, tmp_path: Path
) -> None:
    files = digest_tree(folder)
    store.upload_files(folder, files, prefix, _silent)
    wrong: list[FileDigest] = [*files[:-1], files[-1].model_copy(update={"sha256": "0" * 64})]
    target = tmp_path / "slot" / "release"
    with pytest.raises(DigestMismatch, match="manifest says"):
        store.download(prefix, target, tuple(wrong))
    assert list(target.parent.iterdir()) == []


def test_missing_objects_are_named(store: ObjectStore, prefix: str) -> None:
    assert not store.exists(f"{prefix}/none")
    with pytest.raises(CandidateError, match="nothing lies there"):
        store.read_text(f"{prefix}/none")


def test_a_store_that_is_down_is_named_in_seconds() -> None:
    port = free_ports(["gcs"])["gcs"]
    store = ObjectStore(StorageSettings(bucket="b", endpoint=f"http://127.0.0.1:{port}"))
    began = time.monotonic()
    with pytest.raises(StorageError, match=f"http://127.0.0.1:{port}"):
        store.read_text("gs://b/x")
    assert time.monotonic() - began < 60
