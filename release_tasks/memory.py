"""Forecast of the memory a server needs for a set of models. Arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass

from release_tasks.spec.model import Backend, ModelSpec

MIB = 2**20

# Proportional set sizes of an idle server and of each backend's process with a small model, MiB, measured on the CPU
# build of each framework. One process per model and instance.
SERVER_MB = 45
BACKEND_MB: dict[Backend, int] = {
    Backend.onnxruntime: 60,
    Backend.pytorch: 235,
    Backend.tensorflow: 600,
    Backend.tensorrt: 400,
}
# While a model loads, the file's bytes and the weights made of them are in memory together.
WEIGHTS_FACTOR = 2.0


@dataclass(frozen=True)
class Forecast:
    """Memory of one server, MiB, with the sum in words."""

    megabytes: float
    words: str


def forecast(models: tuple[ModelSpec, ...], size_bytes: dict[str, int]) -> Forecast:
    """Server + per model and instance (backend + factor x size on disk + tensors of the largest batch)."""
    total, parts = float(SERVER_MB), [f"server {SERVER_MB}"]
    for model in models:
        instances = sum(g.count for g in model.config.instance_groups)
        base, weights = BACKEND_MB[model.backend], WEIGHTS_FACTOR * size_bytes[model.name] / MIB
        batch = batch_megabytes(model)
        total += instances * (base + weights + batch)
        parts.append(
            f"{model.name} {instances} x ({model.backend} {base} + {WEIGHTS_FACTOR:g} x weights {weights / 2:.1f} + "
            f"batch {batch:.1f})"
        )
    return Forecast(total, " + ".join(parts) + f" = {total:.0f} MiB")


def batch_megabytes(model: ModelSpec) -> float:
    """Inputs and outputs of the largest batch, MiB; eight bytes per element, a varying dimension counted once."""
    elements = 0
    for tensor in (*model.inputs, *model.outputs):
        row = 1
        for size in tensor.shape:
            row *= max(1, size)
        elements += row
    return model.max_batch_size * elements * 8 / MIB
