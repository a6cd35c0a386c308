"""What counts as a failed request, and the one expression of a look."""

import pytest

from release_tasks.telemetry import is_bad


@pytest.mark.parametrize(
    ("code", "grpc", "bad"),
    [
        ("200", "", False),
        ("302", "", False),
        ("500", "", True),
        ("503", "", True),
        ("400", "", True),
        ("429", "", True),
        ("0", "", True),
        ("", "", True),
        ("401", "", False),
        ("403", "", False),
        ("200", "0", False),
        ("200", "13", True),
        ("200", "4", True),
        ("401", "16", False),
    ],
)
def test_failed_request_as_users_saw_it(code: str, grpc: str, bad: bool) -> None:
    assert is_bad({"response_code": code, "grpc_response_status": grpc}) is bad
