"""Bytes on disk, growth against the live release, and memory for stable and candidate side by side."""

from __future__ import annotations

import os
from dataclasses import dataclass

from release_tasks.artifacts import CandidateRecord, ExportRecord, ReleaseManifest
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import StorageError
from release_tasks.memory import MIB, forecast
from release_tasks.outcome import StageReport
from release_tasks.settings import SETTINGS_VARIABLE


@dataclass(frozen=True)
class LiveSizes:
    """Bytes per model of the live release; ``release`` is empty where there is none, ``note`` says why."""

    release: str
    bytes: dict[str, int]
    note: str


def run(context: StageContext) -> StageReport:
    """Hold sizes and the memory forecast against the spec.

    Raises:
        StorageError: a stack is running, and the live release's manifest cannot be read.
    """
    candidate = context.workspace.load(CandidateRecord)
    draft = context.draft("size_gate", candidate.release)
    sizes = {
        m.name: sum(f.size for f in context.workspace.load(ExportRecord, m.name).files) for m in context.spec.models
    }
    live = _live_sizes(context)
    for model in context.spec.models:
        _check_size(draft, model.name, sizes[model.name], model.size_budget_mb)
        _report_growth(draft, model.name, sizes[model.name], live)
    _check_memory(context, draft, sizes, live)
    return draft.finish()


def _check_size(draft: ReportDraft, name: str, size: int, budget_mb: float) -> None:
    megabytes = size / MIB
    over = "" if megabytes <= budget_mb else f"{megabytes - budget_mb:.1f} MiB over the model's size_budget_mb"
    draft.check(f"size_gate.{name}.bytes", megabytes <= budget_mb, f"{megabytes:.2f} MiB", f"{budget_mb:g} MiB", over)
    draft.numbers[f"{name}.mb"] = round(megabytes, 3)


def _report_growth(draft: ReportDraft, name: str, size: int, live: LiveSizes) -> None:
    """Growth has no limit of its own: the size budget and the memory forecast are the limits."""
    before = live.bytes.get(name)
    if not before:
        draft.check(f"size_gate.{name}.growth", True, live.note or f"{live.release} has no model {name}")
        return
    growth = size / before - 1
    draft.check(f"size_gate.{name}.growth", True, f"{growth:+.1%} against {live.release} ({before / MIB:.2f} MiB)")
    draft.numbers[f"{name}.growth"] = round(growth, 4)


def _check_memory(context: StageContext, draft: ReportDraft, sizes: dict[str, int], live: LiveSizes) -> None:
    """Stable and candidate run side by side during the canary, each in its own server."""
    models, limit_gb = context.spec.models, context.spec.serving.resources.memory_gb
    candidate = forecast(models, sizes)
    stable = forecast(models, {name: live.bytes.get(name, size) for name, size in sizes.items()})
    total = candidate.megabytes + stable.megabytes
    assumed = "" if live.release else " (taken to be as large as the candidate)"
    draft.check(
        "size_gate.memory",
        total <= limit_gb * 1024,
        f"{total:.0f} MiB for stable and candidate",
        f"{limit_gb * 1024:.0f} MiB (serving.resources.memory_gb)",
        f"candidate: {candidate.words}; stable{assumed}: {stable.words}",
    )
    draft.numbers["memory_mb"] = round(total, 1)
    draft.details["memory"] = {"candidate": candidate.words, "stable": stable.words, "total_mb": round(total, 1)}


def _live_sizes(context: StageContext) -> LiveSizes:
    if context.settings is None and not os.environ.get(SETTINGS_VARIABLE):
        return LiveSizes("", {}, "no live release known: no stack is configured")
    from release_tasks.clients.storage import open_store
    from release_tasks.platforms import open_platform

    settings = context.need_settings()
    stable = open_platform(settings).state().stable
    if stable is None:
        return LiveSizes("", {}, "no live release")
    address = f"{stable.uri}/release.json"
    try:
        manifest = ReleaseManifest.model_validate_json(open_store(settings).read_text(address))
    except ValueError as error:
        raise StorageError(f"{address} is no release manifest: {error}", remedy="verify the live release") from error
    sizes: dict[str, int] = {}
    for file in manifest.files:
        kind, _, rest = file.path.partition("/")
        model, _, inner = rest.partition("/")
        if kind == "repository" and inner.split("/")[0].isdigit():
            sizes[model] = sizes.get(model, 0) + file.size
    return LiveSizes(stable.release, sizes, "")
