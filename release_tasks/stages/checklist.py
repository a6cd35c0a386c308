"""The first eleven points of the pre-launch list; the twelfth is the business owner's signature.

Each point reads the reports of earlier stages of THIS release. A report that is missing, about another release or not
passed makes its point red.
"""

from __future__ import annotations

from dataclasses import dataclass

from release_tasks.artifacts import PublishedRelease, files_digest
from release_tasks.clients.storage import ObjectStore, open_store
from release_tasks.context import ReportDraft, StageContext
from release_tasks.ledger import Place, read_manifest, save_reports
from release_tasks.outcome import Check, StageReport, Verdict
from release_tasks.platforms import open_platform
from release_tasks.published import check_published
from release_tasks.stages import PER_MODEL


@dataclass(frozen=True)
class Point:
    """One point: the stage that answers it and which of its checks; all when ``parts`` is empty."""

    number: int
    text: str
    stage: str
    parts: tuple[str, ...] = ()


POINTS = (
    Point(1, "spec, candidate and golden data are right", "validate"),
    Point(2, "exported in inference mode, not traced unless allowed", "export"),
    Point(3, "exported outputs equal the source's", "parity"),
    Point(4, "size and memory within budget", "size_gate"),
    Point(5, "model repository keeps the contract", "repository"),
    Point(6, "published bytes are the released bytes", "upload"),
    Point(7, "every model ready within the deadline", "deploy_staging"),
    Point(8, "HTTP and gRPC answer as the spec says", "smoke"),
    Point(9, "latency within SLA, errors within limit", "load_test", (".p95", ".errors")),
    Point(10, "memory does not grow", "load_test", ("server.memory",)),
    Point(11, "served outputs equal the golden ones, rollback target known", "served_parity"),
)


def run(context: StageContext) -> StageReport:
    """Answer the points and keep the signed stages' reports beside the release.

    Raises:
        StorageError: the bucket cannot be read now.
    """
    published = context.workspace.load(PublishedRelease)
    draft = context.draft("checklist", published.release)
    store, place = open_store(context.need_settings()), Place.of(published.uri)
    for point in POINTS:
        _answer(context, draft, point)
    _published_now(store, draft, published)
    _rollback_target(context, draft)
    save_reports(store, place, context.workspace.reports())
    return draft.finish()


def _answer(context: StageContext, draft: ReportDraft, point: Point) -> None:
    reports = _reports(context, point.stage)
    faults, checks = [], 0
    for name, report in reports.items():
        if report is None:
            faults.append(f"{name} has not run")
        elif report.release != draft.release:
            faults.append(f"{name} is about {report.release}")
        else:
            chosen = _chosen(report, point.parts)
            checks += len(chosen)
            faults += [f"{c.name}: {c.measured}" for c in chosen if c.verdict is not Verdict.passed]
            if not chosen:
                faults.append(f"{name} looked at nothing")
    measured = f"{checks} checks passed" if not faults else f"{len(faults)} open"
    draft.check(f"{point.number:02d} {point.text}", not faults, measured, detail="; ".join(faults[:3]))


def _reports(context: StageContext, stage: str) -> dict[str, StageReport | None]:
    """Reports of a stage: the one for all models, or one per model where it ran per model."""
    workspace = context.workspace
    whole = workspace.report(stage)
    if stage not in PER_MODEL:
        return {stage: whole}
    single = {f"{stage} of {m.name}": workspace.report(stage, m.name) for m in context.spec.models}
    if whole is not None and not any(single.values()):
        return {stage: whole}
    return single


def _chosen(report: StageReport, parts: tuple[str, ...]) -> list[Check]:
    return [c for c in report.checks if not parts or any(c.name.endswith(part) for part in parts)]


def _published_now(store: ObjectStore, draft: ReportDraft, published: PublishedRelease) -> None:
    """Point 6 once more, with what the store says at this moment."""
    manifest = read_manifest(store, Place.of(published.uri))
    digest = files_digest(manifest.files)
    # Objects and manifest exchanged together agree with each other, but not with what this run published.
    same = digest == manifest.digest == published.digest
    draft.check("published.manifest", same, f"digest {digest[:12]}", f"digest {published.digest[:12]}")
    check_published(store, published.uri, manifest, draft)


def _rollback_target(context: StageContext, draft: ReportDraft) -> None:
    state = open_platform(context.need_settings()).state()
    if state.stable is None:
        draft.check("rollback.target", True, "first release: nothing is live before it")
        return
    draft.check("rollback.target", True, f"{state.stable.release} in slot {state.stable.slot}")
    draft.outputs["rollback_target"] = state.stable.release
