"""Command line: one command per stage, plus `plan`, `schema`, `guard` and `pick`.

A stage prints progress for a person on standard error and, as the last line of standard output, one JSON object with
URIs, digests and the verdict: what the orchestrator passes on. The exit code is 0 only when the verdict is `passed`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from pathlib import Path

import psutil

from release_tasks import __version__
from release_tasks.context import ReportDraft, StageContext
from release_tasks.diagnosis import explain
from release_tasks.errors import GateFailed, GateInconclusive, ReleaseError
from release_tasks.outcome import StageReport, Verdict
from release_tasks.sources import open_spec
from release_tasks.stages import OPTIONS, PER_MODEL, STAGES
from release_tasks.workspace import Workspace

EXIT_OF = {Verdict.passed: 0, Verdict.failed: GateFailed.exit_code, Verdict.inconclusive: GateInconclusive.exit_code}

# These bring traffic back to safety: a full disk must not stop them before they begin.
UNSTOPPABLE = frozenset({"rollback", "settle"})


def main(argv: list[str]) -> int:
    """Parse, run, print, and return the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.handler(arguments))
    except ReleaseError as error:
        print(f"{type(error).__name__} (exit code {error.exit_code}): {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m release_tasks",
        description="Release gate for machine-learning models. The stages, in order, then the other commands:",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for number, (stage, summary) in enumerate(STAGES.items(), start=1):
        command = commands.add_parser(stage, help=f"{number:>2}. {summary}", description=summary)
        _add_stage_arguments(command, stage)
    plan = commands.add_parser("plan", help="print what a release would do, without doing it")
    plan.add_argument("--spec", required=True, help="release.yaml: a path, file:// or gs://")
    plan.set_defaults(handler=_plan)
    schema = commands.add_parser("schema", help="print the JSON schema of release.yaml")
    schema.add_argument("--markdown", action="store_true", help="print the reference page instead")
    schema.set_defaults(handler=_schema)
    guard = commands.add_parser("guard", help="put the weights back when a canary's lease has run out")
    guard.add_argument("--every", type=float, default=0, help="seconds between two looks; 0 looks once")
    guard.set_defaults(handler=_guard)
    pick = commands.add_parser("pick", help="name the signed release that is next, as JSON")
    pick.add_argument("--name", required=True, help="name of the service")
    pick.set_defaults(handler=_pick)
    return parser


def _add_stage_arguments(command: argparse.ArgumentParser, stage: str) -> None:
    if stage == "rollback":  # whoever presses the button need not know which release is live
        command.add_argument("--spec", default="", help="release.yaml; by default that of the release that is live")
    else:
        command.add_argument("--spec", required=True, help="release.yaml: a path, file:// or gs://")
    command.add_argument("--workspace", required=True, type=Path, help="folder of this run; kept between stages")
    command.add_argument("--holder", default=f"cli-{os.getuid()}", help="who acts; one holder at a time moves traffic")
    command.add_argument("--release", help="gs:// prefix of the published release; by default the workspace's own")
    if stage in PER_MODEL:
        command.add_argument("--model", help="only this model")
    if stage == "canary":
        command.add_argument("--step", type=int, default=1, help="which step of canary.weights, from 1")
    for flag, text in OPTIONS.get(stage, {}).items():
        command.add_argument(f"--{flag}", default="", help=text)
    command.set_defaults(handler=_stage, stage=stage)


def _stage(arguments: argparse.Namespace) -> int:
    workspace = Workspace(arguments.workspace)
    if arguments.stage == "rollback" and not arguments.spec:
        from release_tasks.live import live_spec_uri

        arguments.spec = live_spec_uri()
    spec = open_spec(arguments.spec)
    model = getattr(arguments, "model", None)
    if model is not None and model not in [m.name for m in spec.models]:
        raise _unknown_model(model, [m.name for m in spec.models])
    step = getattr(arguments, "step", 1)
    if step < 1:  # a step beyond the policy's last is left to the stage, where it is nothing to do
        raise _unknown_step(step)
    if arguments.stage not in UNSTOPPABLE:
        workspace.prepare()
    context = StageContext(
        spec=spec,
        spec_uri=arguments.spec,
        workspace=workspace,
        holder=arguments.holder,
        model=model,
        release_uri=arguments.release,
        step=step - 1,
        options={flag: getattr(arguments, flag) for flag in OPTIONS.get(arguments.stage, {})},
    )
    context.say(f"{arguments.stage}{f' {model}' if model else ''}: {STAGES[arguments.stage]}")
    report = run_stage(arguments.stage, context)
    path = workspace.report_path(arguments.stage, model)
    print(json.dumps(summary(report, path)), flush=True)
    return EXIT_OF.get(report.verdict, ReleaseError.exit_code)


def run_stage(stage: str, context: StageContext) -> StageReport:
    """Run one stage and keep its report. An error is kept as a report too, then raised."""
    module = importlib.import_module(f"release_tasks.stages.{stage}")
    draft = context.draft(stage, context.spec.name)
    try:
        report: StageReport = module.run(context)
    except ReleaseError as error:
        explain(error, context.settings)
        if _reported_since(context, stage, draft):
            raise
        draft.check(f"{stage}.{type(error).__name__}", Verdict.error, error.message, detail=error.remedy)
        failed = draft.finish()
        context.workspace.save_report(failed)
        _keep_error(context, failed)
        raise
    context.workspace.save_report(report)
    keep_beside_release(context, report)
    context.say(f"{stage}: {report.verdict.value} in {report.seconds:.1f} s  {report.reason()}")
    return report


def _keep_error(context: StageContext, report: StageReport) -> None:
    """The same for an error report; the error that is being reported is the one to raise."""
    try:
        keep_beside_release(context, report)
    except ReleaseError as error:
        context.say(f"  the report could not be kept beside the release: {error.message}")


def keep_beside_release(context: StageContext, report: StageReport) -> None:
    """Keep a signed stage's report beside its published release, so that a rerun which finds something else, or fails,
    voids an approval that was given before.

    Raises:
        StorageError: it could not be written; the approval would wrongly go on to count.
    """
    from release_tasks.artifacts import PublishedRelease

    published = context.workspace.find(PublishedRelease)
    if published is None:
        return
    from release_tasks.clients.storage import open_store
    from release_tasks.ledger import Place, save_reports, signed_stages

    if report.stage not in signed_stages():
        return
    save_reports(open_store(context.need_settings()), Place.of(published.uri), [report])


def _reported_since(context: StageContext, stage: str, draft: ReportDraft) -> bool:
    """Whether the stage has kept its own, fuller report before it raised."""
    kept = context.workspace.report(stage, context.model)
    return kept is not None and kept.started >= draft.started


def summary(report: StageReport, path: Path) -> dict[str, object]:
    """What goes to the orchestrator: URIs, digests and the verdict, nothing else."""
    return {
        "stage": report.stage,
        "model": report.model,
        "release": report.release,
        "verdict": report.verdict.value,
        "reason": report.reason(),
        "seconds": report.seconds,
        "process_seconds": round(time.time() - psutil.Process().create_time(), 3),
        "report": str(path.resolve()),
        **report.outputs,
    }


def _unknown_model(name: str, known: list[str]) -> ReleaseError:
    from release_tasks.errors import InvalidInput

    return InvalidInput(field="--model", value=name, rule="the spec has no such model", remedy=f"one of {known}")


def _unknown_step(step: int) -> ReleaseError:
    from release_tasks.errors import InvalidInput

    return InvalidInput(field="--step", value=step, rule="steps are counted from 1", remedy="1 for the first step")


def _plan(arguments: argparse.Namespace) -> int:
    from release_tasks.plan import render_plan

    print(render_plan(open_spec(arguments.spec)))
    return 0


def _schema(arguments: argparse.Namespace) -> int:
    from release_tasks.spec.schema import reference_page, schema_json

    print(reference_page() if arguments.markdown else schema_json(), end="")
    return 0


def _guard(arguments: argparse.Namespace) -> int:
    from release_tasks.guard import watch

    return watch(every_s=arguments.every)


def _pick(arguments: argparse.Namespace) -> int:
    from release_tasks.pick import pick

    print(json.dumps(pick(arguments.name).as_json()), flush=True)
    return 0
