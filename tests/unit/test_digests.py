"""Digests against the reference implementations and published check values."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from release_tasks.clients.digests import CHUNK, digest_chunks, digest_file, digest_tree


def test_known_values_of_the_check_string() -> None:
    found = digest_chunks([b"1234", b"56789"], "a")
    assert found.size == 9
    assert base64.b64decode(found.crc32c).hex() == "e3069283"  # CRC-32C's published check value
    assert base64.b64decode(found.md5).hex() == "25f9e794323b453885f5181f1b624d0b"
    assert found.sha256 == "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1])
def test_chunk_edges_do_not_change_a_digest(tmp_path: Path, size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    path = tmp_path / "sub" / "file"
    path.parent.mkdir()
    path.write_bytes(data)
    found = digest_file(path, tmp_path)
    assert (found.path, found.size) == ("sub/file", size)
    assert found.sha256 == hashlib.sha256(data).hexdigest()
    assert base64.b64decode(found.md5) == hashlib.md5(data, usedforsecurity=False).digest()
    assert found == digest_chunks([data], "sub/file")


def test_tree_is_every_file_in_path_order(tmp_path: Path) -> None:
    for name in ("b", "a/z", "a/c/d"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert [f.path for f in digest_tree(tmp_path)] == ["a/c/d", "a/z", "b"]
