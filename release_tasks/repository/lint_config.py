"""The rules about what a parsed config.pbtxt says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from release_tasks.repository.config import RELEASE_PARAMETER, WARM_UP_FOLDER

Problem = tuple[str, str, str]  # code, place below the model folder, message
_BACKENDS = frozenset({"pytorch", "onnxruntime", "tensorflow", "tensorrt", "python", "ensemble"})


def check_config(config: Any, folder: Path, backend: str, sla_ms: int | None) -> Iterator[tuple[str, str]]:
    """Code and message of every rule the config breaks."""
    if config.name != folder.name:
        yield "C002", f"name is {config.name!r}, the folder is {folder.name!r}"
    if backend not in _BACKENDS:
        yield "C003", f"backend {config.backend!r} and platform {config.platform!r} name no known backend"
    yield from _tensors(config, backend)
    yield from _batching(config)
    yield from _warm_up(config, folder)
    if backend == "ensemble":
        yield from _ensemble(config)
    else:
        yield from _house(config, sla_ms)


def _tensors(config: Any, backend: str) -> Iterator[tuple[str, str]]:
    for kind, tensors in (("input", config.input), ("output", config.output)):
        names = [t.name for t in tensors]
        if not tensors:
            yield "C004", f"no {kind} is listed"
        if len(set(names)) != len(names):
            yield "C006", f"{kind} names repeat: {names}"
        for index, tensor in enumerate(tensors):
            if not tensor.name or not tensor.data_type or not tensor.dims or any(d < -1 or d == 0 for d in tensor.dims):
                yield "C005", f"{kind} {tensor.name!r} has type {tensor.data_type}, dims {list(tensor.dims)}"
            if config.max_batch_size > 0 and len(tensor.dims) > 1 and tensor.dims[0] == -1:
                yield "C009", f"{kind} {tensor.name!r} has dims {list(tensor.dims)} and max_batch_size is not 0"
            if backend == "pytorch" and not re.fullmatch(rf".+__{index}", tensor.name):
                yield "C007", f"{kind} {index} is named {tensor.name!r}"


def _batching(config: Any) -> Iterator[tuple[str, str]]:
    largest = config.max_batch_size
    if largest < 0:
        yield "C008", f"max_batch_size is {largest}"
    if config.HasField("dynamic_batching"):
        preferred = list(config.dynamic_batching.preferred_batch_size)
        if largest == 0:
            yield "C010", "dynamic_batching is set and max_batch_size is 0"
        elif any(not 1 <= size <= largest for size in preferred):
            yield "C011", f"preferred_batch_size is {preferred}, max_batch_size {largest}"
    if config.HasField("sequence_batching") and not config.sequence_batching.control_input:
        yield "C013", "sequence_batching has no control_input"


def _warm_up(config: Any, folder: Path) -> Iterator[tuple[str, str]]:
    inputs = {t.name for t in config.input}
    for sample in config.model_warmup:
        if sample.batch_size > max(1, config.max_batch_size):
            yield "C017", f"warm-up {sample.name!r} has batch size {sample.batch_size}"
        if set(sample.inputs) != inputs:
            yield "C016", f"warm-up {sample.name!r} feeds {sorted(sample.inputs)}, the inputs are {sorted(inputs)}"
        for name, data in sample.inputs.items():
            if data.input_data_file and not (folder / WARM_UP_FOLDER / data.input_data_file).is_file():
                yield "C016", f"warm-up data {data.input_data_file!r} of input {name!r} is missing"


def _ensemble(config: Any) -> Iterator[tuple[str, str]]:
    extra = [f for f in ("instance_group", "model_warmup") if getattr(config, f)]
    extra += [f for f in ("optimization", "dynamic_batching", "sequence_batching") if config.HasField(f)]
    if extra:
        yield "C014", f"the ensemble sets {', '.join(extra)}"
    written = [tensor for step in config.ensemble_scheduling.step for tensor in step.output_map.values()]
    repeated = sorted({t for t in written if written.count(t) > 1})
    if repeated:
        yield "C015", f"written more than once: {', '.join(repeated)}"


def _house(config: Any, sla_ms: int | None) -> Iterator[tuple[str, str]]:
    if config.HasField("dynamic_batching"):
        policy = config.dynamic_batching.default_queue_policy
        if policy.max_queue_size or policy.default_timeout_microseconds:
            yield "H002", "default_queue_policy limits the queue"
        delay = config.dynamic_batching.max_queue_delay_microseconds
        if sla_ms is not None and delay > sla_ms * 100:
            yield "H004", f"max_queue_delay_microseconds is {delay}, a tenth of the SLA is {sla_ms * 100}"
    if not config.parameters[RELEASE_PARAMETER].string_value:
        yield "H003", "parameter release_id is missing"
    if not config.instance_group:
        yield "H005", "instance_group is missing"
