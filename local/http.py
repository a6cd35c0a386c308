"""Plain HTTP to loopback addresses."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

# Proxy variables of the environment must not catch requests to this machine.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url: str, timeout_s: float = 2) -> bool:
    """Whether the address answers 200 now."""
    try:
        with OPENER.open(url, timeout=timeout_s) as response:
            return bool(response.status == 200)
    except (OSError, ValueError):
        return False


def get_json(url: str, timeout_s: float = 5) -> Any:
    """The JSON that the address answers.

    Raises:
        OSError: no answer, or an error status.
        ValueError: no JSON.
    """
    with OPENER.open(url, timeout=timeout_s) as response:
        return json.load(response)


def probe(url: str) -> Callable[[], bool]:
    """A health check that asks this address."""
    return lambda: answers(url)


def post_json(url: str, body: dict[str, object], timeout_s: float = 5) -> int:
    """Send JSON and return the status code, also of an error."""
    request = urllib.request.Request(
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    try:
        with OPENER.open(request, timeout=timeout_s) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
