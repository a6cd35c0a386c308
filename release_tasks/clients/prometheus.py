"""Prometheus' query API with a deadline. Values are passed on as they are: NaN and Inf are the judge's business."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import requests

from release_tasks.errors import MetricsError

DEADLINE_S = 5.0


@dataclass(frozen=True)
class Sample:
    """One series of an instant vector. ``timestamp`` is the evaluation's, Unix seconds."""

    labels: dict[str, str]
    value: float
    timestamp: float


class Prometheus:
    """One Prometheus server."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def ready(self) -> bool:
        """Whether it answers that it is ready."""
        try:
            return requests.get(f"{self.url}/-/ready", timeout=DEADLINE_S).ok
        except requests.RequestException:
            return False

    def query(self, expression: str) -> list[Sample]:
        """Evaluate an instant vector now. An empty list means no series, which is not zero.

        Raises:
            MetricsError: no answer, an error answer, or something else than a vector.
        """
        body = self._ask(expression)
        data = body.get("data", {})
        if body.get("status") != "success" or data.get("resultType") != "vector":
            raise MetricsError(
                f"Prometheus at {self.url} answered {body.get('error') or data.get('resultType')!r} to {expression}",
                remedy="check the expression and Prometheus' log",
            )
        return [_sample(item) for item in data["result"]]

    def _ask(self, expression: str) -> dict[str, Any]:
        try:
            # POST: an expression over several models outgrows an address line.
            answer = requests.post(f"{self.url}/api/v1/query", data={"query": expression}, timeout=DEADLINE_S)
            body: dict[str, Any] = answer.json()
        except (requests.RequestException, ValueError) as error:
            raise MetricsError(
                f"Prometheus at {self.url} does not answer: {type(error).__name__}: {str(error)[:200]}",
                remedy="check that Prometheus runs",
            ) from error
        return body


def _sample(item: dict[str, Any]) -> Sample:
    timestamp, value = item["value"]
    return Sample(labels=item["metric"], value=float(value), timestamp=float(timestamp))
