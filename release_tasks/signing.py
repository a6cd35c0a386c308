"""Approvals: who signed which digest. A signature is HMAC-SHA256 over the approval with the key of the settings.

Promotion checks it by itself: a task that somebody marked successful by hand signs nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from release_tasks.artifacts import Approval
from release_tasks.errors import InvalidInput, NotSigned

SHORTEST_KEY = 32  # bytes


def read_key(path: Path) -> bytes:
    """The approval key.

    Raises:
        InvalidInput: there is none, or it is too short to sign with.
    """
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise InvalidInput(
            field="settings.approval_key_file",
            value=str(path),
            rule=f"it must be readable ({error.strerror})",
            remedy="mount the key, or start the stack: `make up`",
        ) from error
    if len(key) < SHORTEST_KEY:
        raise InvalidInput(
            field="settings.approval_key_file",
            value=f"{len(key)} bytes",
            rule=f"a key has at least {SHORTEST_KEY} bytes",
            remedy="generate one: openssl rand -hex 32",
        )
    return key


def sign(approval: Approval, key: bytes) -> Approval:
    """The approval with its signature."""
    signature = hmac.new(key, approval.payload(), hashlib.sha256).hexdigest()
    return approval.model_copy(update={"signature": signature})


def verify(approval: Approval, key: bytes, *, uri: str, digest: str, approvers: tuple[str, ...]) -> None:
    """Refuse everything but an approval of exactly this release and digest by somebody who may.

    Raises:
        NotSigned: it says which rule is broken.
    """
    if not hmac.compare_digest(sign(approval, key).signature, approval.signature):
        raise _refused(approval, "its signature is not valid: it was altered, or signed with another key")
    if approval.uri.rstrip("/") != uri.rstrip("/"):
        raise _refused(approval, f"it was given for {approval.uri}, not for {uri}")
    if not approval.approved:
        why = f": {approval.reason}" if approval.reason else ""
        raise _refused(approval, f"{approval.approver} rejected it at {approval.decided:%Y-%m-%d %H:%M:%S} UTC{why}")
    if approval.approver not in approvers:
        raise _refused(approval, f"{approval.approver} may not sign; regression.approvers are {', '.join(approvers)}")
    if approval.digest != digest:
        raise _refused(
            approval,
            f"it was given for the digest {approval.digest[:12]}, the release now has {digest[:12]}; a rerun measured "
            "something else, so the approval is void",
        )


def _refused(approval: Approval, why: str) -> NotSigned:
    return NotSigned(
        f"the approval of {approval.release} by {approval.approver} does not count: {why}",
        remedy="run regression again and have an assigned approver answer for the digest it prints",
    )
