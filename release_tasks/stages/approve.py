"""Bind a business owner's answer to the release's digest."""

from __future__ import annotations

from release_tasks.artifacts import Approval, RegressionRecord, release_digest
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import InvalidInput, NotSigned, StageOrderError
from release_tasks.ledger import read_manifest, signed_stages
from release_tasks.outcome import StageReport, Verdict
from release_tasks.production import Production, place_of
from release_tasks.signing import read_key, sign

DECISIONS = {"approve": True, "reject": False}
NOBODY = "(nobody)"  # answered in time: a rejection that no person gave


def run(context: StageContext) -> StageReport:
    """Sign the answer and keep it beside the release. The same answer again changes nothing.

    Raises:
        InvalidInput: an option is missing or unknown.
        NotSigned: the person may not sign, or answered for another digest.
        StageOrderError: regression has not passed.
    """
    place = place_of(context)
    production = Production.of(context)
    record = context.workspace.load(RegressionRecord)
    draft = context.draft("approve", place.release)
    _current(context, production, record)
    answer = _answer(context, record)
    kept = context.workspace.find(Approval)
    if kept is not None and _same(kept, answer):
        answer = kept
    else:
        answer = sign(answer, read_key(production.settings.approval_key_file))
    production.store.write(place.approval, answer.model_dump_json(indent=1).encode())
    context.workspace.save(answer)
    return _report(draft, answer, place.approval)


def _current(context: StageContext, production: Production, record: RegressionRecord) -> None:
    """Refuse an answer about results that are no longer the release's."""
    report = context.workspace.report("regression")
    if report is None or report.verdict is not Verdict.passed:
        verdict = report.verdict.value if report else "has not run"
        raise StageOrderError(f"regression {verdict}", remedy="only a release that passed regression can be approved")
    reports = [r for r in context.workspace.reports() if r.stage in signed_stages()]
    checklist = context.workspace.report("checklist")
    red = [r.stage for r in reports if r.verdict is not Verdict.passed or r.release != record.release]
    if red or checklist is None:
        # A stage that somebody marked successful by hand has a report all the same, and it is not green.
        raise StageOrderError(
            f"not green for {record.release}: {', '.join(red) or 'checklist has not run'}",
            remedy="only a release whose stages all passed can be approved; run them again, then regression",
        )
    now = release_digest(read_manifest(production.store, place_of(context)).digest, reports)
    if now != record.digest:
        raise NotSigned(
            f"a stage was run again since regression: the release's digest is {now[:12]}, the page that was shown says "
            f"{record.digest[:12]}",
            remedy="run regression again and ask again",
        )


def _answer(context: StageContext, record: RegressionRecord) -> Approval:
    options, approvers = context.options, context.spec.regression.approvers
    decision, approver, digest = (options.get(key, "") for key in ("decision", "approver", "digest"))
    if decision not in DECISIONS:
        raise InvalidInput(
            field="--decision", value=decision, rule="it is `approve` or `reject`", remedy="pass the person's answer"
        )
    if not approver and not DECISIONS[decision]:
        approver, digest = NOBODY, record.digest
    elif approver not in approvers:
        raise NotSigned(
            f"{approver or NOBODY} may not sign {record.release}; regression.approvers are {', '.join(approvers)}",
            remedy="have one of them answer",
        )
    if digest != record.digest:
        raise NotSigned(
            f"the answer was given for the digest {digest[:12] or '(none)'}, the release has {record.digest[:12]}: "
            "the approval is void",
            remedy="show the page of the last regression run and ask again",
        )
    return Approval(
        release=record.release,
        uri=record.uri,
        digest=digest,
        approver=approver,
        approved=DECISIONS[decision],
        decided=context.now(),
        reason=options.get("reason", ""),
    )


def _same(kept: Approval, answer: Approval) -> bool:
    """Whether it is the same answer, given at another time."""
    moment = {"decided": answer.decided, "signature": ""}
    return kept.model_copy(update=moment) == answer


def _report(draft: ReportDraft, answer: Approval, uri: str) -> StageReport:
    word = "approved" if answer.approved else "rejected"
    draft.check(
        "approve.answer",
        answer.approved,
        f"{word} by {answer.approver} at {answer.decided:%Y-%m-%d %H:%M:%S} UTC",
        detail=answer.reason,
    )
    draft.outputs.update({"approval": uri, "digest": answer.digest, "release_uri": answer.uri})
    return draft.finish()
