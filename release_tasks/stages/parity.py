"""Run the exported artefact in its runtime and hold it against the source framework.

Two questions. Golden rows, in batches of 1, 2 and the largest: does the export answer what the notebook recorded?
Generated rows and the exporter's probes: do source and export, run side by side, still agree elsewhere?
"""

from __future__ import annotations

from typing import Any

import numpy as np

from release_tasks.artifacts import CandidateRecord, ExportRecord
from release_tasks.candidates import inside, same_files
from release_tasks.clients.digests import digest_tree
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import StageOrderError
from release_tasks.exporters import Runner, Tensors, exporter_for
from release_tasks.generated import generated_rows
from release_tasks.golden import load_golden
from release_tasks.judge.tensors import Comparison, compare
from release_tasks.outcome import StageReport
from release_tasks.spec.model import ModelSpec

# One-row calls are the slow ones; this many of them show what batching changes.
MAX_SINGLE_CALLS = 256


def run(context: StageContext) -> StageReport:
    """Compare every output of every model, over every kind of row and batch size."""
    candidate = context.workspace.load(CandidateRecord)
    draft = context.draft("parity", candidate.release)
    for model in context.models:
        _model(context, draft, model)
    return draft.finish()


def _model(context: StageContext, draft: ReportDraft, model: ModelSpec) -> None:
    workspace, exporter = context.workspace, exporter_for(model.framework)
    record = _intact_export(context, model)
    source = inside(workspace.candidate, model.source, f"models.{model.name}.source")
    golden = load_golden(workspace.candidate, model)
    exported = exporter.load_exported(model, workspace.exported / model.name / record.file_name)
    for batch in sorted({1, 2, model.max_batch_size}):
        rows = min(golden.rows, batch * MAX_SINGLE_CALLS)
        got = run_in_batches(exported, _first(golden.inputs, rows), batch)
        _judge(draft, model, f"golden.batch_{batch}", _first(golden.outputs, rows), got)
    original = exporter.load_source(model, source)
    asked = {"generated": generated_rows(golden.inputs), "probes": exporter.probes(model, source, golden.inputs)}
    for kind, rows_in in asked.items():
        if len(next(iter(rows_in.values()))):
            expected = run_in_batches(original, rows_in, model.max_batch_size)
            _judge(draft, model, kind, expected, run_in_batches(exported, rows_in, model.max_batch_size))


def run_in_batches(runner: Runner, inputs: Tensors, batch: int) -> Tensors:
    """Call the runner with at most ``batch`` rows at a time and join what it gives, by output name."""
    count = len(next(iter(inputs.values())))
    parts = [runner({n: a[i : i + batch] for n, a in inputs.items()}) for i in range(0, count, batch)]
    return {name: np.concatenate([np.atleast_1d(part[name]) for part in parts]) for name in parts[0]}


def _intact_export(context: StageContext, model: ModelSpec) -> ExportRecord:
    record = context.workspace.load(ExportRecord, model.name)
    folder = context.workspace.exported / model.name
    if not folder.is_dir() or not same_files(digest_tree(folder), record.files):
        raise StageOrderError(
            f"exported/{model.name} is not what `export` wrote", remedy="run `export` again in this workspace"
        )
    return record


def _judge(draft: ReportDraft, model: ModelSpec, kind: str, expected: Tensors, got: Tensors) -> None:
    for output in model.outputs:
        found = compare(expected[output.name], got[output.name], output.tolerance)
        name = f"parity.{model.name}.{output.name}.{kind}"
        limit = f"{output.tolerance.absolute:g} + {output.tolerance.relative:g}·|expected|"
        worst = "" if found.equal_within else str(found.worst or "")
        draft.check(name, found.equal_within, found.measured, limit, detail=worst)
        draft.numbers[f"{model.name}.{output.name}.{kind}.largest"] = found.largest
        draft.details[name] = _details(found)


def _details(found: Comparison) -> dict[str, Any]:
    worst = found.worst
    return {
        "rows": found.rows,
        "bad": found.bad,
        "worst": None if worst is None else {k: _plain(v) for k, v in vars(worst).items()},
    }


def _plain(value: Any) -> Any:
    """A JSON value; NaN and Inf as words."""
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _first(tensors: Tensors, rows: int) -> Tensors:
    return {name: array[:rows] for name, array in tensors.items()}
