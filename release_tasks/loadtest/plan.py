"""What the load process is told and what it tells back."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

PHASES = ("baseline", "ramp", "soak")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Target(_Part):
    """Requests for one model; bodies are sent in turn."""

    model: str
    path: str
    bodies: tuple[str, ...] = Field(min_length=1, description="JSON bodies of the v2 protocol.")


class LoadPlan(_Part):
    """One load test."""

    host: str = Field(description="Base URL.")
    targets: tuple[Target, ...] = Field(min_length=1)
    users: int
    requests_per_user_s: float
    seconds: dict[str, float] = Field(description="Length of each phase, by name.")


class ModelLoad(_Part):
    """What one phase saw of one model."""

    latencies_ms: list[float] = Field(default_factory=list, description="Of the answered requests.")
    failures: dict[str, int] = Field(default_factory=dict, description="Failed requests by kind.")

    @property
    def failed(self) -> int:
        """All failed requests."""
        return sum(self.failures.values())


class LoadResult(_Part):
    """Phase → model → what was seen."""

    phases: dict[str, dict[str, ModelLoad]]
