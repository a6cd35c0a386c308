"""ReleaseSpec: the whole of release.yaml."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from release_tasks.spec.base import SpecPart
from release_tasks.spec.model import ModelSpec
from release_tasks.spec.policy import (
    LATENCY_EDGES_MS,
    CanaryPolicy,
    LoadTestSpec,
    RegressionPolicy,
    RetentionPolicy,
    ServingSpec,
)


class ReleaseSpec(SpecPart):
    """A release: the models that go live together, and the rules under which they do."""

    schema_version: Literal[1] = Field(description="Version of this format.")
    name: str = Field(
        pattern=r"^[a-z][a-z0-9-]{0,40}$",
        description="Name of the service: lowercase letters, digits and hyphens, a letter first.",
    )
    description: str = Field(default="", description="What changed, for the person who signs.")
    promote: Literal["nightly", "immediately"] = Field(
        default="nightly", description="When a signed release is promoted."
    )
    models: tuple[ModelSpec, ...] = Field(min_length=1, description="The models, served together by one server.")
    serving: ServingSpec = Field(description="The server the release is made for.")
    load_test: LoadTestSpec = Field(default_factory=LoadTestSpec, description="Load profile on staging.")
    canary: CanaryPolicy = Field(default_factory=CanaryPolicy, description="How traffic moves, and when it goes back.")
    regression: RegressionPolicy = Field(description="Business cases and who may sign.")
    retention: RetentionPolicy = Field(default_factory=RetentionPolicy, description="What is kept.")

    @model_validator(mode="after")
    def _cross_field(self) -> Self:
        names = [m.name for m in self.models]
        if len(set(names)) != len(names):
            raise ValueError(f"model names must differ, got {names}")
        for model in self.models:
            if model.sla_ms not in LATENCY_EDGES_MS:
                raise ValueError(
                    f"models.{model.name}.sla_ms is {model.sla_ms}, which is no edge of the latency histogram; "
                    f"choose one of {list(LATENCY_EDGES_MS)}"
                )
            uses_gpu = any(g.kind == "KIND_GPU" for g in model.config.instance_groups)
            if uses_gpu and self.serving.resources.gpus < 1:
                raise ValueError(f"models.{model.name} has a KIND_GPU instance but serving.resources.gpus is 0")
        return self

    def model(self, name: str) -> ModelSpec:
        """The model of that name.

        Raises:
            KeyError: there is none.
        """
        for model in self.models:
            if model.name == name:
                return model
        raise KeyError(name)
