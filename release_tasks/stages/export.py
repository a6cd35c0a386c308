"""Export each model to the format the server loads. An intact export of the same source is kept."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from release_tasks.artifacts import CandidateRecord, ExportRecord, FileDigest, files_digest
from release_tasks.candidates import inside, same_files
from release_tasks.clients.digests import digest_tree
from release_tasks.context import ReportDraft, StageContext
from release_tasks.exporters import Exporter, exporter_for
from release_tasks.outcome import StageReport
from release_tasks.spec.model import ModelSpec

_EXPORTER = "exporter"


def run(context: StageContext) -> StageReport:
    """Write ``exported/<model>/`` and an ExportRecord per model.

    Raises:
        ExportError: the model may not be exported, or its framework failed.
    """
    candidate = context.workspace.load(CandidateRecord)
    draft = context.draft("export", candidate.release)
    for model in context.models:
        _export(context, draft, candidate, model)
    return draft.finish()


def _export(context: StageContext, draft: ReportDraft, candidate: CandidateRecord, model: ModelSpec) -> None:
    workspace, exporter = context.workspace, exporter_for(model.framework)
    source = inside(workspace.candidate, model.source, f"models.{model.name}.source")
    digest = _source_digest(candidate, model)
    folder = workspace.exported / model.name
    record = workspace.find(ExportRecord, model.name)
    if record and _is_current(record, model, exporter, digest, folder):
        note = "kept: the same source was exported before and is intact"
    else:
        record, note = _export_anew(context, model, exporter, source, digest)
    size = sum(f.size for f in record.files)
    draft.check(
        f"export.{model.name}", True, f"{record.backend} {record.file_name}, {size / 2**20:.2f} MiB", detail=note
    )
    draft.numbers[f"{model.name}.bytes"] = size
    draft.outputs[f"{model.name}.digest"] = files_digest(record.files)
    draft.details[model.name] = record.model_dump(mode="json", exclude={"files"})


def _source_digest(candidate: CandidateRecord, model: ModelSpec) -> str:
    """Digest of the source artefact and of how the spec wants it exported."""
    source = model.source.rstrip("/")
    files = tuple(f for f in candidate.files if f.path == source or f.path.startswith(f"{source}/"))
    interface = model.model_dump_json(include={"framework", "inputs", "outputs", "export"})
    described = FileDigest(path="spec", size=len(interface), md5="", crc32c="", sha256=interface)
    return files_digest((*files, described))


def _is_current(record: ExportRecord, model: ModelSpec, exporter: Exporter, digest: str, folder: Path) -> bool:
    return (
        record.source_digest == digest
        and record.backend is model.backend
        and record.versions.get(_EXPORTER) == exporter.version
        and folder.is_dir()
        and same_files(digest_tree(folder), record.files)
    )


def _export_anew(
    context: StageContext, model: ModelSpec, exporter: Exporter, source: Path, digest: str
) -> tuple[ExportRecord, str]:
    """Export into a temporary folder, then put it in place; a killed export leaves the old state."""
    workspace = context.workspace
    workspace.exported.mkdir(parents=True, exist_ok=True)
    for stale in workspace.exported.glob(f".{model.name}.*"):
        shutil.rmtree(stale)
    made = Path(tempfile.mkdtemp(dir=workspace.exported, prefix=f".{model.name}."))
    try:
        result = exporter.export(model, source, made)
        made.chmod(0o755)
        record = ExportRecord(
            model=model.name,
            backend=model.backend,
            file_name=result.file_name,
            files=digest_tree(made),
            source_digest=digest,
            versions={**result.versions, _EXPORTER: exporter.version},
        )
        folder = workspace.exported / model.name
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
        workspace.save(record)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return record, "; ".join(result.notes)
