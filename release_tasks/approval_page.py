"""The page a business owner reads before signing: Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from release_tasks.judge.regression import CaseScore, Finding, TagScore, by_tag
from release_tasks.outcome import StageReport, Verdict
from release_tasks.spec import ReleaseSpec

MARKS = {Finding.fine: "✓", Finding.flagged: "⚠ drop", Finding.blocked: "✗ blocked"}


@dataclass(frozen=True)
class Page:
    """What is shown."""

    spec: ReleaseSpec
    release: str
    digest: str
    stable: str | None
    scores: list[CaseScore]
    reports: list[StageReport]


def render(page: Page) -> str:
    """The whole page."""
    tags = by_tag(page.scores, page.spec.regression.max_drop)
    parts = [_head(page), _summary(page, tags), _cases(page), _tags(tags), _gates(page), _question(page)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(page: Page) -> str:
    against = (
        f"against stable `{page.stable}`" if page.stable else "as the first release: there is no stable to compare"
    )
    text = f"\n\n{page.spec.description}" if page.spec.description else ""
    return f"## Release `{page.release}`, {against}{text}\n\nDigest `{page.digest}`"


def _summary(page: Page, tags: list[TagScore]) -> str:
    """What stands out, first; nothing is left to be found in the table."""
    found = [f"- ⚠ **{t.tag}: {percent(t.change)}** over {t.cases} cases" for t in tags if t.flagged]
    found += [f"- ⚠ {s.case.title}: {percent(s.change)}" for s in page.scores if s.finding is Finding.flagged]
    found += [f"- ✗ {s.case.title}: below its least score" for s in page.scores if s.finding is Finding.blocked]
    limit = f"{page.spec.regression.max_drop:.0%}"
    return "\n".join(found) if found else f"No case and no group drops by more than {limit}."


def _cases(page: Page) -> str:
    lines = ["| case | stable | candidate | change | kind | |", "|---|---:|---:|---:|---|---|"]
    for s in page.scores:
        kind = f"hard, at least {s.case.min_score:.2f}" if s.case.hard else "soft"
        title = s.case.title.replace("|", "/")
        lines.append(
            f"| {title} | {number(s.stable)} | {s.candidate:.3f} | {percent(s.change)} | {kind} | {MARKS[s.finding]} |"
        )
    return "\n".join(lines)


def _tags(tags: list[TagScore]) -> str:
    if not tags:
        return ""
    lines = ["| group | cases | stable | candidate | change | |", "|---|---:|---:|---:|---:|---|"]
    for t in tags:
        mark = MARKS[Finding.flagged if t.flagged else Finding.fine]
        lines.append(f"| {t.tag} | {t.cases} | {number(t.stable)} | {t.candidate:.3f} | {percent(t.change)} | {mark} |")
    return "\n".join(lines)


def _gates(page: Page) -> str:
    """One line per gate that ran before, red ones with their reason."""
    lines = ["| gate | verdict | checks |", "|---|---|---|"]
    for report in page.reports:
        name = report.stage + (f" ({report.model})" if report.model else "")
        passed = sum(c.verdict is Verdict.passed for c in report.checks)
        why = f": {report.reason()}".replace("|", "/") if report.verdict is not Verdict.passed else ""
        lines.append(f"| {name} | {report.verdict.value} | {passed} of {len(report.checks)}{why} |")
    return "\n".join(lines) if page.reports else ""


def _question(page: Page) -> str:
    weights = " → ".join(f"{w} %" for w in page.spec.canary.weights)
    when = "at once" if page.spec.promote == "immediately" else "in the nightly promotion"
    hours = page.spec.regression.timeout_s / 3600
    return (
        f"**What is asked.** Approve, and this release takes users' traffic {weights} {when}, judged at every step. "
        f"Reject, and it goes no further. Your answer is bound to the digest above. Nobody answering within "
        f"{hours:.3g} h means rejected."
    )


def percent(change: float | None) -> str:
    """A relative change, with its sign."""
    return "–" if change is None else f"{change * 100:+.0f} %".replace("-", "−")


def number(value: float | None) -> str:
    """A score, or a dash."""
    return "–" if value is None else f"{value:.3f}"
