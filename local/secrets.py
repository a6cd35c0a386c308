"""Secrets of a stack: made at first use, readable by the owner only, never in the repository."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def make_secret(file: Path, size: int = 64) -> str:
    """Read a secret of ``size`` random bytes, as hex; made at first use."""
    if not file.exists():
        write_private(file, secrets.token_hex(size))
    return file.read_text(encoding="utf-8")


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    part = file.with_name(f".{file.name}.part")
    part.unlink(missing_ok=True)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
    part.replace(file)
