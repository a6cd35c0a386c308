"""Everything about a release that is not a model: serving, load test, canary, regression, retention."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from release_tasks.spec.base import SpecPart

# Edges of the latency histogram that the traffic layer exports, milliseconds. An SLA must be one of them.
LATENCY_EDGES_MS = (1, 2, 3, 5, 8, 10, 15, 20, 25, 30, 40, 50, 75, 100, 125, 150, 200, 250, 300, 500, 1000, 2500, 5000)


class Resources(SpecPart):
    """What the server may use."""

    cpu: float = Field(default=2, gt=0, description="CPU cores.")
    memory_gb: float = Field(default=8, gt=0, description="Main memory, GiB.")
    gpus: int = Field(default=0, ge=0, description="GPUs.")
    gpu_memory_gb: float = Field(default=0, ge=0, description="Memory of one GPU, GiB.")


class ServingSpec(SpecPart):
    """The server the release is made for."""

    triton_release: str = Field(
        pattern=r"^\d{2}\.\d{2}$", description="Triton container release, e.g. `24.12`; checked against the matrix."
    )
    resources: Resources = Field(default_factory=Resources, description="What the server may use.")
    gpu_required: bool = Field(default=False, description="The smoke test fails when the server reports no GPU.")
    ready_deadline_s: int = Field(default=180, gt=0, description="Seconds until every model must be ready.")

    @model_validator(mode="after")
    def _gpu(self) -> Self:
        if self.gpu_required and self.resources.gpus < 1:
            raise ValueError("gpu_required needs resources.gpus of at least 1")
        return self


class LoadTestSpec(SpecPart):
    """Load profile on staging: baseline, ramp, soak."""

    users: int = Field(default=8, ge=1, le=2000, description="Concurrent users at the top of the ramp.")
    requests_per_user_s: float = Field(default=4, gt=0, le=1000, description="Requests per second and user.")
    baseline_s: int = Field(default=5, ge=1, description="Seconds with a single user.")
    ramp_s: int = Field(default=5, ge=1, description="Seconds in which the users are added.")
    soak_s: int = Field(default=15, ge=1, description="Seconds at full load; the limits are held against this phase.")
    max_error_share: float = Field(default=0.001, ge=0, lt=1, description="Largest accepted share of failed requests.")
    max_memory_growth_mb: float = Field(default=200, gt=0, description="Largest growth of the server in the soak, MiB.")


class CanaryPolicy(SpecPart):
    """How traffic moves, and when it goes back."""

    weights: tuple[int, ...] = Field(
        default=(5, 50, 100),
        min_length=1,
        max_length=3,
        description="Percent of traffic per step, rising, the last one 100; at most three steps.",
    )
    min_bake_s: float = Field(default=300, ge=0, description="Seconds a step lasts at least.")
    deadline_s: float = Field(default=3600, gt=0, description="Seconds after which an undecided step is inconclusive.")
    poll_s: float = Field(default=15, gt=0, description="Seconds between two looks; use the scrape interval.")
    alpha: float = Field(
        default=0.01, gt=0, lt=0.5, description="Bound on the chance that a good release is ever rolled back."
    )
    beta: float = Field(
        default=0.05, gt=0, lt=0.5, description="Bound on the chance that a step goes on with a release over objective."
    )
    tolerated_ratio: float = Field(
        default=1.5, ge=1, description="Canary's rate of bad requests, as a multiple of stable's, that is still fine."
    )
    max_error_share: float = Field(default=0.02, gt=0, lt=1, description="Objective: share of failed requests.")
    max_slow_share: float = Field(default=0.10, gt=0, lt=1, description="Objective: share of requests over the SLA.")
    on_inconclusive: Literal["rollback", "hold"] = Field(
        default="rollback", description="What happens at the deadline: go back, or hold the weight and ask a person."
    )
    lease_s: float = Field(
        default=120, gt=0, description="Seconds without renewal after which the guard puts the weights back."
    )

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if self.weights[-1] != 100:
            raise ValueError(f"weights must end at 100, got {list(self.weights)}; add 100 as the last step")
        if any(b <= a for a, b in zip(self.weights, self.weights[1:], strict=False)) or self.weights[0] < 1:
            raise ValueError(f"weights must rise from at least 1, got {list(self.weights)}")
        if self.deadline_s <= self.min_bake_s:
            raise ValueError(f"deadline_s ({self.deadline_s:g}) must be larger than min_bake_s ({self.min_bake_s:g})")
        if self.lease_s < 3 * self.poll_s:
            raise ValueError(f"lease_s ({self.lease_s:g}) must be at least three times poll_s ({self.poll_s:g})")
        return self


class RegressionPolicy(SpecPart):
    """Business cases and who may sign."""

    cases: str = Field(
        default="cases.json", min_length=1, description="Path of the business cases, relative to release.yaml."
    )
    approvers: tuple[str, ...] = Field(min_length=1, description="User names that may sign; at least one.")
    timeout_s: float = Field(default=86_400, gt=0, description="Seconds to wait; nobody answering means rejected.")
    max_drop: float = Field(
        default=0.2, gt=0, lt=1, description="Largest accepted relative drop of a soft case's score against stable."
    )


class RetentionPolicy(SpecPart):
    """What is kept."""

    releases: int = Field(default=5, ge=2, description="Releases kept beside the live one and its rollback target.")
    days: int = Field(default=30, ge=1, description="Days a retired release is kept.")
