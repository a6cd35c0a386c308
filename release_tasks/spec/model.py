"""One model of a release."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from release_tasks.spec.base import SpecPart
from release_tasks.spec.tensors import OutputSpec, TensorSpec


class Framework(StrEnum):
    """What the training job wrote."""

    tensorflow = "tensorflow"
    lightgbm = "lightgbm"
    pytorch = "pytorch"
    onnx = "onnx"


class Backend(StrEnum):
    """The Triton backend that serves the exported model."""

    tensorflow = "tensorflow"
    onnxruntime = "onnxruntime"
    pytorch = "pytorch"
    tensorrt = "tensorrt"


BACKEND_OF: dict[Framework, Backend] = {
    Framework.tensorflow: Backend.tensorflow,
    Framework.lightgbm: Backend.onnxruntime,
    Framework.onnx: Backend.onnxruntime,
    Framework.pytorch: Backend.pytorch,
}


class ExportOptions(SpecPart):
    """How the model is exported."""

    signature: str = Field(default="serving_default", description="TensorFlow only: the signature that is served.")
    allow_traced: bool = Field(
        default=False,
        description="PyTorch only: accept a traced module. Tracing freezes data-dependent branches, so it is refused "
        "unless this is set.",
    )


class QueuePolicy(SpecPart):
    """Limits of the server's queue. Any limit switches off the batcher's prefetching: see docs/adr/0006."""

    max_queue_size: int = Field(default=256, ge=1, description="Requests that may wait; more are rejected.")
    timeout_us: int = Field(default=1_000_000, ge=1, description="Microseconds a request may wait before rejection.")


class DynamicBatching(SpecPart):
    """Triton's dynamic batcher."""

    preferred_batch_sizes: tuple[int, ...] = Field(default=(), description="Sizes the batcher tries to form.")
    max_queue_delay_us: int = Field(
        default=1000, ge=0, description="Microseconds a batch is held open for more requests; low traffic pays it."
    )
    queue_policy: QueuePolicy | None = Field(
        default=None,
        description="Limits of the queue. Null leaves overload to the proxy's limits, because with any limit here "
        "Triton lets requests beyond one batch wait up to half a second.",
    )


class InstanceGroup(SpecPart):
    """Copies of the model on one kind of device."""

    kind: Literal["KIND_CPU", "KIND_GPU"] = Field(default="KIND_CPU", description="Device kind.")
    count: int = Field(default=1, ge=1, le=64, description="Instances per device.")
    gpus: tuple[int, ...] = Field(default=(), description="GPU indices; empty means every visible GPU.")

    @model_validator(mode="after")
    def _gpus_need_gpu(self) -> Self:
        if self.gpus and self.kind != "KIND_GPU":
            raise ValueError("`gpus` only goes with kind KIND_GPU")
        return self


class WarmUp(SpecPart):
    """Requests the server answers before it reports ready."""

    enabled: bool = Field(default=True, description="Send warm-up requests at load.")
    batch_sizes: tuple[int, ...] = Field(default=(1,), min_length=1, description="Batch sizes to warm up with.")


class SequenceBatching(SpecPart):
    """Stateful models: keep the requests of one sequence on one instance. Excludes dynamic batching."""

    max_sequence_idle_us: int = Field(default=1_000_000, ge=1, description="Microseconds after which state is freed.")
    start_input: str = Field(default="START", description="Name of the control input that marks a start.")
    ready_input: str = Field(default="READY", description="Name of the control input that marks a ready request.")


class VersionPolicy(SpecPart):
    """Which versions of the model the server loads."""

    latest: int = Field(default=1, ge=1, le=8, description="Number of newest versions that are served.")


class ServingConfig(SpecPart):
    """The six fields that become config.pbtxt."""

    dynamic_batching: DynamicBatching | None = Field(
        default_factory=DynamicBatching, description="Dynamic batcher; null switches it off."
    )
    instance_groups: tuple[InstanceGroup, ...] = Field(
        default=(InstanceGroup(),), min_length=1, description="Where and how often the model runs."
    )
    warm_up: WarmUp = Field(default_factory=WarmUp, description="Requests answered before the model reports ready.")
    sequence_batching: SequenceBatching | None = Field(default=None, description="For stateful models only.")
    priority: int = Field(
        default=1, ge=1, le=10, description="Rate-limiter priority among the models of one server; lower goes first."
    )
    version_policy: VersionPolicy = Field(default_factory=VersionPolicy, description="Versions the server loads.")

    @model_validator(mode="after")
    def _one_batcher(self) -> Self:
        if self.sequence_batching is not None and self.dynamic_batching is not None:
            raise ValueError("sequence_batching excludes dynamic_batching; set dynamic_batching to null")
        return self


class ModelSpec(SpecPart):
    """One model of the release."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]{0,62}$",
        description="Name that clients call: lowercase letters, digits and underscores, a letter first.",
    )
    framework: Framework = Field(description="What wrote the source artefact.")
    source: str = Field(min_length=1, description="Path of the source artefact, relative to release.yaml.")
    golden: str = Field(
        min_length=1,
        description="Path of an .npz with the golden rows, relative to release.yaml: arrays `in:<input>` and "
        "`out:<output>`, rows first, outputs recorded in the source framework.",
    )
    inputs: tuple[TensorSpec, ...] = Field(min_length=1, description="What clients send.")
    outputs: tuple[OutputSpec, ...] = Field(min_length=1, description="What clients get, and how exact it must be.")
    sla_ms: int = Field(gt=0, description="Latency promise in milliseconds; must be an edge of the latency histogram.")
    size_budget_mb: float = Field(default=1536, gt=0, description="Largest size on disk, MiB.")
    max_batch_size: int = Field(default=64, ge=1, le=4096, description="Largest batch the server forms or accepts.")
    typical_batch_size: int = Field(
        default=1, ge=1, le=4096, description="Rows in a typical request of a client; the load test sends this many."
    )
    export: ExportOptions = Field(default_factory=ExportOptions, description="How the model is exported.")
    config: ServingConfig = Field(default_factory=ServingConfig, description="How the server runs it.")

    @property
    def backend(self) -> Backend:
        """Backend that serves the exported model."""
        return BACKEND_OF[self.framework]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for kind, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            names = [t.name for t in tensors]
            if len(set(names)) != len(names):
                raise ValueError(f"names in `{kind}` must differ, got {names}")
            if self.framework is Framework.pytorch and any(not n.endswith(f"__{i}") for i, n in enumerate(names)):
                raise ValueError(f"a pytorch model's {kind} are named `<name>__<index>` in order, got {names}")
        batching = self.config.dynamic_batching
        if batching and any(not 1 <= b <= self.max_batch_size for b in batching.preferred_batch_sizes):
            raise ValueError(f"preferred_batch_sizes must lie between 1 and max_batch_size ({self.max_batch_size})")
        if self.typical_batch_size > self.max_batch_size:
            raise ValueError(f"typical_batch_size must be at most max_batch_size ({self.max_batch_size})")
        if any(not 1 <= b <= self.max_batch_size for b in self.config.warm_up.batch_sizes):
            raise ValueError(f"warm_up.batch_sizes must lie between 1 and max_batch_size ({self.max_batch_size})")
        return self
