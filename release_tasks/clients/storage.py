"""Object storage through the official client: written once, every digest sent, read back and compared."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from release_tasks.artifacts import FileDigest
from release_tasks.clients.connection import WORKERS, connect, retry_policy
from release_tasks.clients.digests import digest_chunks, digest_file
from release_tasks.clients.uris import ObjectPath, join_uri, split_uri
from release_tasks.errors import CandidateError, DigestMismatch, ReleaseConflict, StorageError
from release_tasks.settings import Settings, StorageSettings, load_settings

# Above this the client sends an object in several requests (a resumable upload).
ONE_REQUEST = 8 * 2**20
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class ObjectInfo:
    """One object as the store describes it. ``md5`` is empty where the store keeps none (composite objects)."""

    uri: str
    size: int
    md5: str
    crc32c: str
    generation: int
    updated: datetime


class ObjectStore:
    """A Google Cloud Storage client, or the same client against an emulator."""

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        self._client = connect(settings.endpoint)

    def exists(self, uri: str) -> bool:
        """Whether the object exists."""
        return self.info(uri) is not None

    def info(self, uri: str) -> ObjectInfo | None:
        """What the store says of one object; None where there is none."""
        path = split_uri(uri)
        with self._errors(uri):
            blob = self._client.bucket(path.bucket).get_blob(path.name, retry=retry_policy(), timeout=TIMEOUT_S)
        return _info(path.bucket, blob) if blob is not None else None

    def list(self, prefix_uri: str) -> list[ObjectInfo]:
        """Every object below a prefix, in name order. A prefix is taken as a folder."""
        path = split_uri(prefix_uri)
        prefix = f"{path.name.rstrip('/')}/" if path.name else ""
        with self._errors(prefix_uri):
            blobs = self._client.list_blobs(path.bucket, prefix=prefix, retry=retry_policy(), timeout=TIMEOUT_S)
            return [_info(path.bucket, blob) for blob in blobs]

    def read_bytes(self, uri: str) -> bytes:
        """The bytes of one object.

        Raises:
            CandidateError: there is no such object.
        """
        from google.api_core.exceptions import NotFound

        try:
            with self._errors(uri):
                data: bytes = self._blob(uri).download_as_bytes(retry=retry_policy(), timeout=TIMEOUT_S)
        except StorageError as error:
            if isinstance(error.__cause__, NotFound):
                raise CandidateError(
                    field="uri", value=uri, rule="nothing lies there", remedy="check the address"
                ) from error
            raise
        return data

    def read_text(self, uri: str) -> str:
        """One object as UTF-8 text."""
        return self.read_bytes(uri).decode("utf-8")

    def write(self, uri: str, data: bytes) -> None:
        """Write or overwrite. Only for objects that are no part of a release: reports, outcomes, approvals."""
        with self._errors(uri):
            blob = self._blob(uri)
            blob.md5_hash = digest_chunks([data], uri).md5
            blob.upload_from_string(data, retry=retry_policy(), timeout=TIMEOUT_S)

    def write_new(self, uri: str, data: bytes) -> None:
        """Write an object that must not exist yet. The same bytes already there are accepted.

        Raises:
            ReleaseConflict: other bytes are there.
        """
        self._put_new(uri, digest_chunks([data], uri), lambda blob, **kw: blob.upload_from_string(data, **kw))

    def upload_files(
        self, folder: Path, files: tuple[FileDigest, ...], prefix_uri: str, say: Callable[[str], None]
    ) -> None:
        """Upload files below a prefix, in parallel, each written once and its digests read back.

        Raises:
            ReleaseConflict: an object is there with other bytes.
            DigestMismatch: the store holds other bytes than were sent, or keeps no MD5.
        """
        total = sum(f.size for f in files)
        sent = 0
        with ThreadPoolExecutor(WORKERS) as pool:
            jobs = [pool.submit(self._upload_file, folder / f.path, f, join_uri(prefix_uri, f.path)) for f in files]
            for job, file in zip(jobs, files, strict=True):
                job.result()
                sent += file.size
                say(f"  {sent / 1e6:8.1f} of {total / 1e6:.1f} MB  {file.path}")

    def download(self, prefix_uri: str, folder: Path, files: tuple[FileDigest, ...]) -> None:
        """Fetch files below a prefix into a folder, all or nothing, every digest checked.

        Raises:
            DigestMismatch: an object's bytes are not those of its digest.
        """
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            with ThreadPoolExecutor(WORKERS) as pool:
                jobs = [pool.submit(self._download_file, join_uri(prefix_uri, f.path), fresh, f) for f in files]
                for job in jobs:
                    job.result()
            fresh.chmod(0o755)
            if folder.exists():
                shutil.rmtree(folder)
            fresh.replace(folder)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise

    def _upload_file(self, path: Path, digest: FileDigest, uri: str) -> None:
        def put(blob: Any, **options: Any) -> None:
            blob.upload_from_filename(str(path), **options)

        self._put_new(uri, digest, put)

    def _put_new(self, uri: str, digest: FileDigest, put: Callable[..., None]) -> None:
        from google.api_core.exceptions import PreconditionFailed

        blob = self._blob(uri)
        blob.md5_hash = digest.md5
        # Some emulators honour the precondition only in uploads of one request, so a large object is asked for first.
        if digest.size > ONE_REQUEST and self._taken_over(uri, digest):
            return
        try:
            with self._errors(uri):
                put(blob, if_generation_match=0, retry=retry_policy(), timeout=TIMEOUT_S, checksum=None)
        except StorageError as error:
            if not isinstance(error.__cause__, PreconditionFailed):
                raise
            self._taken_over(uri, digest)
            return
        found = self.info(uri)
        if found is None or not same_bytes(found, digest):
            raise DigestMismatch(
                f"{uri}: the store reports {_said(found)}, the file has md5 {digest.md5}, crc32c {digest.crc32c}, "
                f"{digest.size} bytes",
                remedy="the object is not trusted; release again in a new run and have the store looked at",
            )

    def _taken_over(self, uri: str, digest: FileDigest) -> bool:
        """Whether the object is there already with these bytes.

        Raises:
            ReleaseConflict: it is there with others.
        """
        found = self.info(uri)
        if found is None:
            return False
        if not same_bytes(found, digest):
            raise ReleaseConflict(
                f"{uri} exists already with other bytes than are being released",
                remedy="a release is written once: start a new run, which gets a prefix of its own",
            )
        return True

    def _download_file(self, uri: str, folder: Path, expected: FileDigest) -> None:
        target = folder / expected.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._errors(uri), target.open("wb") as out:
            self._blob(uri).download_to_file(out, retry=retry_policy(), timeout=TIMEOUT_S, checksum=None)
        found = digest_file(target, folder)
        if found != expected:
            raise DigestMismatch(
                f"{uri}: downloaded bytes have sha256 {found.sha256} ({found.size} bytes), "
                f"the manifest says {expected.sha256} ({expected.size} bytes)",
                remedy="do not deploy this release; publish the candidate again",
            )

    def _blob(self, uri: str) -> Any:
        path: ObjectPath = split_uri(uri)
        return self._client.bucket(path.bucket).blob(path.name)

    @contextmanager
    def _errors(self, uri: str) -> Iterator[None]:
        """Turn the client's and the network's errors into StorageError; the cause is kept."""
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        where = self._settings.endpoint or "Google Cloud Storage"
        try:
            yield
        except (GoogleAPIError, GoogleAuthError, RequestException, ConnectionError, OSError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise StorageError(
                f"object storage at {where} failed for {uri}: {type(error).__name__}: {str(error)[:300]}",
                remedy="check that the store is up, that the bucket exists and that the credentials may use it",
            ) from error


def same_bytes(found: ObjectInfo, digest: FileDigest) -> bool:
    """Whether the store's metadata prove the bytes. A missing MD5 or CRC32C proves nothing."""
    return (found.size, found.md5, found.crc32c) == (digest.size, digest.md5, digest.crc32c)


def open_store(settings: Settings | None = None) -> ObjectStore:
    """The store of the profile in use. Nothing is asked yet; the bucket must exist, as the embedded stack sees to."""
    return ObjectStore((settings or load_settings()).storage)


def _info(bucket: str, blob: Any) -> ObjectInfo:
    return ObjectInfo(
        uri=f"gs://{bucket}/{blob.name}",
        size=int(blob.size or 0),
        md5=blob.md5_hash or "",
        crc32c=blob.crc32c or "",
        generation=int(blob.generation or 0),
        updated=blob.updated,
    )


def _said(info: ObjectInfo | None) -> str:
    if info is None:
        return "no such object"
    return f"md5 {info.md5 or '(none)'}, crc32c {info.crc32c or '(none)'}, {info.size} bytes"
