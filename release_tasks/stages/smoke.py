"""Does it answer at all: readiness, metadata, one inference per model over HTTP and gRPC, GPU memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from release_tasks.artifacts import PublishedRelease
from release_tasks.clients.triton import PROTOCOLS, MetricSample, Protocol, TritonServer
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import ServingError
from release_tasks.golden import Golden, fits, load_golden
from release_tasks.outcome import StageReport, Verdict
from release_tasks.spec import ModelSpec, TensorSpec
from release_tasks.staging import staging_fault, staging_server

GPU_USED, GPU_TOTAL = "nv_gpu_memory_used_bytes", "nv_gpu_memory_total_bytes"


def run(context: StageContext) -> StageReport:
    """Ask every model once, the way a client does.

    Raises:
        ComponentDown: the staging server is down.
        StageOrderError: staging runs another release.
    """
    published = context.workspace.load(PublishedRelease)
    draft = context.draft("smoke", published.release)
    server = staging_server(context)
    ready = server.live() and server.ready()
    draft.check("server.ready", ready, "live and ready" if ready else "not ready")
    try:
        for model in context.spec.models:
            _model(context, draft, server, model)
    except ServingError as error:
        raise staging_fault(context, error) from error
    check_gpu(draft, server.metrics(), required=context.spec.serving.gpu_required)
    return draft.finish()


def _model(context: StageContext, draft: ReportDraft, server: TritonServer, model: ModelSpec) -> None:
    ready = server.model_ready(model.name)
    draft.check(f"{model.name}.ready", ready, "ready" if ready else "not ready")
    metadata = server.model_metadata(model.name)
    for kind, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        wanted = {t.name: _described(t) for t in tensors}
        served = {t["name"]: f"{t['datatype']} {_shape(t['shape'])}" for t in metadata[kind]}
        extra = sorted(set(served) - set(wanted))
        detail = f"not in the spec, so clients must not see it: {extra}" if extra else ""
        draft.check(f"{model.name}.{kind}", served == wanted, str(served), str(wanted), detail=detail)
    golden = load_golden(context.workspace.candidate, model)
    for protocol in PROTOCOLS:
        _infer(context, draft, server, (model, golden, protocol))


def _infer(
    context: StageContext, draft: ReportDraft, server: TritonServer, what: tuple[ModelSpec, Golden, Protocol]
) -> None:
    model, golden, protocol = what
    row = {name: array[:1] for name, array in golden.inputs.items()}
    began = context.monotonic()
    name = f"{model.name}.infer.{protocol}"
    try:
        answer = server.infer(model.name, row, tuple(o.name for o in model.outputs), protocol)
    except ServingError as error:
        if not server.live():
            raise
        draft.check(name, False, "an error answer", detail=error.message)
        return
    milliseconds = (context.monotonic() - began) * 1000
    finite = all(array.size and np.all(np.isfinite(array)) for array in answer.values())
    shaped = all(answer[o.name].shape[:1] == (1,) and fits(answer[o.name].shape[1:], o.shape) for o in model.outputs)
    shapes = {key: list(array.shape) for key, array in answer.items()}
    fault = "" if finite and shaped else "NaN, Inf or nothing" if shaped else "not one row of the spec's shape"
    draft.check(name, not fault, f"{shapes} in {milliseconds:.1f} ms", detail=fault)
    draft.numbers[f"{name}.ms"] = round(milliseconds, 3)


def check_gpu(draft: ReportDraft, samples: list[MetricSample], *, required: bool) -> None:
    """Add the GPU check: memory per GPU as the server reports it; none is a fault only where one is required."""
    used = {s.labels.get("gpu_uuid", "?"): s.value for s in samples if s.name == GPU_USED}
    total = {s.labels.get("gpu_uuid", "?"): s.value for s in samples if s.name == GPU_TOTAL}
    if not total:
        verdict = Verdict.failed if required else Verdict.passed
        draft.check("gpu", verdict, "the server reports no GPU", "a GPU is required" if required else "none required")
        return
    for gpu, size in total.items():
        memory = used.get(gpu, float("nan"))
        known = bool(np.isfinite(memory) and size > 0)
        share = f"{memory / 2**20:.0f} of {size / 2**20:.0f} MiB used" if known else "memory unknown"
        draft.check(f"gpu.{gpu}", Verdict.passed if known else Verdict.inconclusive, share)


def _described(tensor: TensorSpec) -> str:
    return f"{tensor.dtype.value} {_shape([-1, *tensor.shape])}"


def _shape(sizes: list[Any]) -> list[int]:
    return [int(size) for size in sizes]
