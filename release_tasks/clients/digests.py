"""MD5, CRC32C and SHA-256 of a file, all computed in one read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path

import google_crc32c

from release_tasks.artifacts import FileDigest

CHUNK = 1 << 20


class Digester:
    """Feeds the same bytes to all three digests. Memory is constant."""

    def __init__(self) -> None:
        self.size = 0
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._crc32c = google_crc32c.Checksum()
        self._sha256 = hashlib.sha256()

    def update(self, chunk: bytes) -> None:
        """Add the next bytes."""
        self.size += len(chunk)
        self._md5.update(chunk)
        self._crc32c.update(chunk)
        self._sha256.update(chunk)

    def result(self, path: str) -> FileDigest:
        """The digests so far: MD5 and CRC32C in base64 as object stores give them, SHA-256 in hex."""
        return FileDigest(
            path=path,
            size=self.size,
            md5=base64.b64encode(self._md5.digest()).decode(),
            crc32c=base64.b64encode(self._crc32c.digest()).decode(),
            sha256=self._sha256.hexdigest(),
        )


def digest_chunks(chunks: Iterable[bytes], path: str) -> FileDigest:
    """Digests of bytes that come in pieces."""
    digester = Digester()
    for chunk in chunks:
        digester.update(chunk)
    return digester.result(path)


def digest_file(path: Path, root: Path) -> FileDigest:
    """Digests of one file; ``path`` of the result is relative to ``root``."""
    with path.open("rb") as source:
        return digest_chunks(iter(lambda: source.read(CHUNK), b""), path.relative_to(root).as_posix())


def digest_tree(root: Path) -> tuple[FileDigest, ...]:
    """Digests of every file below a folder, in path order."""
    return tuple(digest_file(path, root) for path in sorted(root.rglob("*")) if path.is_file())
