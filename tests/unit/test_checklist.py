"""Points of the pre-launch list: a missing, foreign or not passed report makes its point red."""

from __future__ import annotations

from pathlib import Path

import pytest

from release_tasks.context import StageContext
from release_tasks.outcome import Verdict
from release_tasks.stages.checklist import POINTS, Point, _answer
from release_tasks.workspace import Workspace
from tests.unit.samples import SPEC, as_spec

SMOKE = Point(8, "answers", "smoke")
LATENCY = Point(9, "latency", "load_test", (".p95", ".errors"))


def bare_context(root: Path) -> StageContext:
    spec = as_spec(SPEC)
    return StageContext(spec=spec, spec_uri="release.yaml", workspace=Workspace(root), say=lambda text: None)


def keep(context: StageContext, stage: str, release: str, **checks: Verdict) -> None:
    draft = context.draft(stage, release)
    for name, verdict in checks.items():
        draft.check(name.replace("__", "."), verdict, "measured")
    context.workspace.save_report(draft.finish())


def answer(context: StageContext, point: Point) -> tuple[Verdict, str]:
    draft = context.draft("checklist", "r1")
    _answer(context, draft, point)
    return draft.checks[0].verdict, draft.checks[0].detail


def test_points_are_the_first_eleven_in_order() -> None:
    assert [p.number for p in POINTS] == list(range(1, 12))


def test_passed_report_of_this_release_is_green(tmp_path: Path) -> None:
    context = bare_context(tmp_path)
    keep(context, "smoke", "r1", a=Verdict.passed)
    assert answer(context, SMOKE) == (Verdict.passed, "")


@pytest.mark.parametrize("verdict", [Verdict.failed, Verdict.inconclusive, Verdict.error])
def test_not_passed_is_red(tmp_path: Path, verdict: Verdict) -> None:
    context = bare_context(tmp_path)
    keep(context, "smoke", "r1", a=Verdict.passed, b=verdict)
    assert answer(context, SMOKE) == (Verdict.failed, "b: measured")


def test_missing_foreign_and_empty_reports_are_red(tmp_path: Path) -> None:
    context = bare_context(tmp_path)
    assert answer(context, SMOKE) == (Verdict.failed, "smoke has not run")
    keep(context, "smoke", "r0", a=Verdict.passed)
    assert answer(context, SMOKE) == (Verdict.failed, "smoke is about r0")
    keep(context, "smoke", "r1")
    assert answer(context, SMOKE) == (Verdict.failed, "smoke looked at nothing")


def test_point_reads_only_its_own_checks(tmp_path: Path) -> None:
    context = bare_context(tmp_path)
    keep(context, "load_test", "r1", m__p95=Verdict.passed, m__errors=Verdict.passed, server__memory=Verdict.failed)
    assert answer(context, LATENCY)[0] is Verdict.passed
    assert answer(context, Point(10, "memory", "load_test", ("server.memory",)))[0] is Verdict.failed
