"""Approvals: only the exact answer of an assigned approver counts."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from release_tasks.artifacts import Approval
from release_tasks.errors import InvalidInput, NotSigned
from release_tasks.signing import read_key, sign, verify

KEY = b"k" * 32
URI = "gs://b/shop/releases/shop-1"


def approval(**changes: Any) -> Approval:
    fields = {
        "release": "shop-1",
        "uri": URI,
        "digest": "d" * 64,
        "approver": "alice",
        "approved": True,
        "decided": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    }
    return Approval(**{**fields, **changes})


def check(given: Approval, **changes: Any) -> None:
    expected: dict[str, Any] = {"uri": URI, "digest": "d" * 64, "approvers": ("alice",), **changes}
    verify(given, KEY, **expected)


def test_signed_approval_counts_also_after_storage() -> None:
    check(Approval.model_validate_json(sign(approval(), KEY).model_dump_json()))


@pytest.mark.parametrize(
    "field",
    [{"approver": "bob"}, {"digest": "e" * 64}, {"approved": False}, {"uri": URI + "x"}, {"reason": "fine"}],
)
def test_any_altered_field_breaks_the_signature(field: dict[str, Any]) -> None:
    altered = sign(approval(), KEY).model_copy(update=field)
    with pytest.raises(NotSigned, match="signature is not valid"):
        check(altered)


@pytest.mark.parametrize(
    ("given", "expected", "reason"),
    [
        ({"approved": False, "reason": "baby goods"}, {}, "alice rejected it at 2026-01-02 03:04:05 UTC: baby goods"),
        ({"approver": "mallory"}, {}, "mallory may not sign; regression.approvers are alice"),
        ({}, {"digest": "e" * 64}, "the approval is void"),
        ({}, {"uri": "gs://b/shop/releases/shop-2"}, "not for gs://b/shop/releases/shop-2"),
    ],
)
def test_validly_signed_but_not_for_this(given: dict[str, Any], expected: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotSigned, match=reason.replace(".", r"\.")):
        check(sign(approval(**given), KEY), **expected)


def test_unsigned_or_signed_with_another_key() -> None:
    for fake in (approval(), sign(approval(), b"x" * 32)):
        with pytest.raises(NotSigned, match="another key"):
            check(fake)


def test_key_must_be_there_and_long_enough(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="readable"):
        read_key(tmp_path / "none")
    (tmp_path / "short").write_bytes(b"abc\n")
    with pytest.raises(InvalidInput, match="at least 32 bytes"):
        read_key(tmp_path / "short")
