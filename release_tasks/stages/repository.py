"""Render the Triton model repository and lint it. Written beside the old one, then put in its place."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from release_tasks.artifacts import CandidateRecord, ExportRecord, RepositoryRecord, files_digest
from release_tasks.candidates import same_files
from release_tasks.clients.digests import digest_tree
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import StageOrderError
from release_tasks.golden import load_golden
from release_tasks.outcome import StageReport, Verdict
from release_tasks.repository.config import Rendering
from release_tasks.repository.lint import RULES, lint
from release_tasks.repository.render import render_model
from release_tasks.spec.model import ModelSpec


def run(context: StageContext) -> StageReport:
    """Write ``repository/`` and a RepositoryRecord; every broken rule is a failed check.

    Raises:
        RepositoryError: a template is broken.
        StageOrderError: a model was not exported in this workspace.
    """
    workspace = context.workspace
    candidate = workspace.load(CandidateRecord)
    draft = context.draft("repository", candidate.release)
    workspace.root.mkdir(parents=True, exist_ok=True)
    for stale in workspace.root.glob(".repository.*"):
        shutil.rmtree(stale)
    made = Path(tempfile.mkdtemp(dir=workspace.root, prefix=".repository."))
    try:
        made.chmod(0o755)
        for model in context.spec.models:
            _render(context, candidate, model, made)
        _lint(context, draft, made)
        files = digest_tree(made)
        record = RepositoryRecord(release=candidate.release, files=files, digest=files_digest(files))
        _put_in_place(context, made, record, draft)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    draft.outputs = {"release": candidate.release, "repository": files_digest(files)}
    draft.numbers["files"] = len(files)
    draft.numbers["bytes"] = sum(f.size for f in files)
    return draft.finish()


def _render(context: StageContext, candidate: CandidateRecord, model: ModelSpec, made: Path) -> None:
    workspace = context.workspace
    record = workspace.load(ExportRecord, model.name)
    exported = workspace.exported / model.name
    if not exported.is_dir() or not same_files(digest_tree(exported), record.files):
        raise StageOrderError(
            f"exported/{model.name} is not what `export` wrote", remedy="run `export` and `parity` again"
        )
    golden = load_golden(workspace.candidate, model)
    row = {name: array[:1] for name, array in golden.inputs.items()}
    rendering = Rendering(
        model=model,
        file_name=record.file_name,
        release=candidate.release,
        warm_up_shapes={name: array.shape[1:] for name, array in row.items()},
    )
    render_model(made / model.name, rendering, exported / record.file_name, row)


def _lint(context: StageContext, draft: ReportDraft, made: Path) -> None:
    slas = {m.name: m.sla_ms for m in context.spec.models}
    findings = lint(made, sla_ms=slas)
    errors = [f for f in findings if f.blocks]
    for finding in findings:
        verdict = Verdict.failed if finding.blocks else Verdict.passed
        draft.check(f"repository.{finding.code}", verdict, str(finding), "", RULES[finding.code].remedy)
    draft.check(
        "repository.lint", not errors, f"{len(errors)} broken rules, {len(findings)} findings", "0 broken rules"
    )
    draft.details["findings"] = [{"code": f.code, "place": f.place, "message": f.message} for f in findings]


def _put_in_place(context: StageContext, made: Path, record: RepositoryRecord, draft: ReportDraft) -> None:
    """Replace the old repository; a repository that breaks a rule leaves none, so that nothing old is published."""
    workspace = context.workspace
    workspace.remove(RepositoryRecord)
    if workspace.repository.exists():
        shutil.rmtree(workspace.repository)
    if Verdict.worst([c.verdict for c in draft.checks]) is Verdict.passed:
        made.rename(workspace.repository)
        workspace.save(record)
