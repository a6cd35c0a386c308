"""Score the business cases on stable and candidate, and lay out what a business owner signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from release_tasks.approval_page import Page, render
from release_tasks.artifacts import RegressionRecord, release_digest
from release_tasks.clients.triton import TritonServer
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import GateInconclusive, ServingError
from release_tasks.judge.regression import CaseScore, Finding, by_tag, compare, score
from release_tasks.ledger import read_manifest, save_reports, signed_stages
from release_tasks.outcome import StageReport
from release_tasks.platforms.state import LiveRelease
from release_tasks.production import Production, place_of
from release_tasks.spec.cases import BusinessCase, load_cases
from release_tasks.staging import staging_server
from release_tasks.workspace import write_atomic


@dataclass(frozen=True)
class Sides:
    """Who is asked."""

    candidate: TritonServer
    stable: TritonServer | None


def run(context: StageContext) -> StageReport:
    """Ask both releases every case. A hard case blocks; a soft drop is flagged, and a person decides.

    Raises:
        CandidateError: the cases are malformed.
        GateInconclusive: an answer has no order (NaN, wrong length).
        ServingError: a server does not answer.
        StageOrderError: staging runs another release.
    """
    place = place_of(context)
    production = Production.of(context)
    draft = context.draft("regression", place.release)
    stable = production.platform.state().stable
    sides = Sides(
        candidate=staging_server(context),
        stable=TritonServer(production.settings.slots[stable.slot]) if stable else None,
    )
    book = load_cases(context.workspace.candidate / context.spec.regression.cases)
    scores = [_score(context, sides, case) for case in book.cases]
    staging_server(context)  # still this release: another run may have taken staging meanwhile
    _checks(context, draft, scores)
    return _sign_off(context, production, draft, stable, scores)


def _score(context: StageContext, sides: Sides, case: BusinessCase) -> CaseScore:
    candidate = _ask(context, sides.candidate, case, "candidate")
    stable = None if sides.stable is None else _ask_stable(context, sides.stable, case)
    return compare(case, candidate, stable, context.spec.regression.max_drop)


def _ask(context: StageContext, server: TritonServer, case: BusinessCase, side: str) -> float:
    model = context.spec.model(case.model)
    inputs: dict[str, NDArray[Any]] = {
        t.name: np.asarray(case.inputs[t.name], dtype=t.dtype.numpy) for t in model.inputs if t.name in case.inputs
    }
    values = server.infer(case.model, inputs, (case.output,))[case.output]
    try:
        return score(case, values)
    except ValueError as error:
        raise GateInconclusive(
            f"case {case.id}: the {side}'s {case.model}.{case.output} has no score: {error}",
            remedy="an answer that is not finite can be no better or worse; mend the model",
        ) from error


def _ask_stable(context: StageContext, server: TritonServer, case: BusinessCase) -> float | None:
    """Stable's score; None where stable does not know the model or its inputs, so there is nothing to compare."""
    try:
        return _ask(context, server, case, "stable")
    except ServingError as error:
        if server.live() and not server.model_ready(case.model):
            context.say(f"  stable does not serve {case.model}: {error.message}")
            return None
        raise


def _checks(context: StageContext, draft: ReportDraft, scores: list[CaseScore]) -> None:
    for s in scores:
        if not s.case.hard:
            continue
        name = f"regression.{s.case.id}"
        fine = s.finding is not Finding.blocked
        draft.check(name, fine, f"{s.case.metric} {s.candidate:.3f}", f"at least {s.case.min_score:.3f}", s.case.title)
    tags = by_tag(scores, context.spec.regression.max_drop)
    flagged = [s.case.id for s in scores if s.finding is Finding.flagged] + [
        f"group {t.tag}" for t in tags if t.flagged
    ]
    mean = float(np.mean([s.candidate for s in scores]))
    known = [s.stable for s in scores if s.stable is not None]
    against = f", stable {np.mean(known):.4f}" if known else ", no stable release to compare with"
    told = f"flagged for the person who signs: {', '.join(flagged)}" if flagged else ""
    rows = [_row(s) for s in scores]
    draft.check(
        "regression.scores", True, f"{len(scores)} cases, mean {mean:.4f}{against}; {_digits(rows)}", detail=told
    )
    draft.numbers.update({"cases": len(scores), "mean": mean, "flagged": len(flagged)})
    draft.details["cases"] = rows
    draft.details["tags"] = [
        {"tag": t.tag, "cases": t.cases, "candidate": t.candidate, "stable": t.stable, "change": t.change} for t in tags
    ]


def _row(s: CaseScore) -> dict[str, Any]:
    return {
        "id": s.case.id,
        "title": s.case.title,
        "tags": list(s.case.tags),
        "stable": s.stable,
        "candidate": s.candidate,
        "change": s.change,
        "hard": s.case.hard,
        "finding": s.finding.value,
    }


def _digits(rows: list[dict[str, Any]]) -> str:
    """Every score in the check itself, so that the approval is bound to each of them."""
    return " ".join(f"{r['id']}={r['candidate']:.4f}" for r in rows)


def _others(context: StageContext) -> list[StageReport]:
    stages = [stage for stage in signed_stages() if stage != "regression"]
    return [r for r in context.workspace.reports() if r.stage in stages]


def _sign_off(
    context: StageContext,
    production: Production,
    draft: ReportDraft,
    stable: LiveRelease | None,
    scores: list[CaseScore],
) -> StageReport:
    place = place_of(context)
    others = _others(context)
    digest = release_digest(read_manifest(production.store, place).digest, [*others, draft.finish()])
    # What the digest covers is what storage holds; this stage's own report is kept like that of every stage.
    save_reports(production.store, place, others)
    page = Page(
        spec=context.spec,
        release=place.release,
        digest=digest,
        stable=stable.release if stable else None,
        scores=scores,
        reports=others,
    )
    markdown = render(page)
    path = context.workspace.root / "reports" / "approval.md"
    write_atomic(path, markdown)
    context.workspace.save(
        RegressionRecord(
            release=place.release,
            uri=place.uri,
            digest=digest,
            stable_release=page.stable,
            markdown=markdown,
        )
    )
    draft.outputs.update({"digest": digest, "approval_markdown": str(path.resolve()), "stable": page.stable or ""})
    return draft.finish()
