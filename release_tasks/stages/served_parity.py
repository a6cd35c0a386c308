"""What staging answers, over both protocols, against the golden outputs of the source framework."""

from __future__ import annotations

import numpy as np

from release_tasks.artifacts import PublishedRelease
from release_tasks.clients.triton import PROTOCOLS, Protocol, Tensors, TritonServer
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import ServingError
from release_tasks.golden import Golden, load_golden
from release_tasks.judge.tensors import compare
from release_tasks.outcome import StageReport
from release_tasks.spec import ModelSpec
from release_tasks.staging import staging_fault, staging_server

# One-row requests are the slow ones; this many show whether batching changes an answer.
MAX_SINGLE_REQUESTS = 32


def run(context: StageContext) -> StageReport:
    """Compare every output of every model, one row at a time and in the largest batch.

    Raises:
        ComponentDown: the staging server is down.
        StageOrderError: staging runs another release.
    """
    published = context.workspace.load(PublishedRelease)
    draft = context.draft("served_parity", published.release)
    server = staging_server(context)
    for model in context.spec.models:
        golden = load_golden(context.workspace.candidate, model)
        for protocol in PROTOCOLS:
            for batch in sorted({1, model.max_batch_size}):
                # A served answer of fewer rows than were sent must not shorten what it is held against.
                rows = min(golden.rows, batch * MAX_SINGLE_REQUESTS)
                try:
                    got = _ask(server, model, golden.first(rows), protocol, batch)
                except ServingError as error:
                    raise staging_fault(context, error) from error
                _judge(draft, model, golden.first(rows), f"{protocol}.batch_{batch}", got)
    return draft.finish()


def _ask(server: TritonServer, model: ModelSpec, golden: Golden, protocol: Protocol, batch: int) -> Tensors:
    names = tuple(o.name for o in model.outputs)
    parts = []
    for start in range(0, golden.rows, batch):
        part = {name: array[start : start + batch] for name, array in golden.inputs.items()}
        parts.append(server.infer(model.name, part, names, protocol))
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _judge(draft: ReportDraft, model: ModelSpec, golden: Golden, kind: str, got: Tensors) -> None:
    for output in model.outputs:
        expected = golden.outputs[output.name]
        found = compare(expected, got[output.name], output.tolerance)
        limit = f"{output.tolerance.absolute:g} + {output.tolerance.relative:g}·|expected|"
        worst = "" if found.equal_within else str(found.worst or "")
        name = f"{model.name}.{output.name}.{kind}"
        draft.check(name, found.equal_within, found.measured, limit, detail=worst)
        draft.numbers[f"{name}.largest"] = found.largest
