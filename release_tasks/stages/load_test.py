"""Baseline, ramp and soak on staging with golden rows; the limits are held against the soak."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from release_tasks.artifacts import PublishedRelease
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import ComponentDown
from release_tasks.golden import load_golden
from release_tasks.judge.latency import judge_errors, judge_growth, judge_latency, summarise
from release_tasks.loadtest.memory import MemorySampler, server_process
from release_tasks.loadtest.plan import PHASES, LoadPlan, LoadResult, Target
from release_tasks.outcome import StageReport, Verdict
from release_tasks.settings import STAGING
from release_tasks.spec import ModelSpec
from release_tasks.staging import staging_server

BODIES = 32
# Beyond the phases themselves: start of the interpreter and of Locust on a busy machine.
GRACE_S = 120


def run(context: StageContext) -> StageReport:
    """Load staging and judge the soak.

    Raises:
        ComponentDown: the server or the load process died; with its last log lines.
        StageOrderError: staging runs another release.
    """
    published = context.workspace.load(PublishedRelease)
    draft = context.draft("load_test", published.release)
    staging_server(context)
    host = context.need_settings().slots[STAGING].http
    process = server_process(host)
    with MemorySampler(process) if process else nullcontext() as sampler:
        result = _load(context, _plan(context, host))
    staging_server(context)  # still up, and still this release: another run may have taken staging meanwhile
    for model in context.spec.models:
        _judge(context, draft, model, result)
    _memory(context, draft, sampler)
    return draft.finish()


def _plan(context: StageContext, host: str) -> LoadPlan:
    profile = context.spec.load_test
    return LoadPlan(
        host=host,
        targets=tuple(_target(context, model) for model in context.spec.models),
        users=profile.users,
        requests_per_user_s=profile.requests_per_user_s,
        seconds={p: getattr(profile, f"{p}_s") for p in PHASES},
    )


def _target(context: StageContext, model: ModelSpec) -> Target:
    golden = load_golden(context.workspace.candidate, model)
    rows = min(model.typical_batch_size, golden.rows)
    starts = range(0, golden.rows - rows + 1, rows)
    parts = [{name: array[i : i + rows] for name, array in golden.inputs.items()} for i in starts]
    bodies = tuple(_body(model, part) for part in parts[:BODIES])
    return Target(model=model.name, path=f"/v2/models/{model.name}/infer", bodies=bodies)


def _body(model: ModelSpec, rows: dict[str, NDArray[Any]]) -> str:
    inputs = [
        {
            "name": t.name,
            "shape": rows[t.name].shape,
            "datatype": t.dtype.value,
            "data": np.ravel(rows[t.name]).tolist(),
        }
        for t in model.inputs
    ]
    return json.dumps({"inputs": inputs, "outputs": [{"name": o.name} for o in model.outputs]})


def _load(context: StageContext, plan: LoadPlan) -> LoadResult:
    """Run the load process; its progress lines go to the person watching.

    Raises:
        ComponentDown: it ended with an error or not at all.
    """
    context.workspace.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=context.workspace.root, prefix=".load.") as folder:
        asked, answer = Path(folder) / "plan.json", Path(folder) / "result.json"
        asked.write_text(plan.model_dump_json(), encoding="utf-8")
        command = [sys.executable, "-m", "release_tasks.loadtest", str(asked), str(answer)]
        code, lines = _watch(context, command, sum(plan.seconds.values()) + GRACE_S)
        if code or not answer.exists():
            raise ComponentDown(
                f"the load process ended with code {code}",
                remedy="run the stage again",
                log_tail="\n".join(lines[-15:]),
            )
        return LoadResult.model_validate_json(answer.read_text(encoding="utf-8"))


def _watch(context: StageContext, command: list[str], limit_s: float) -> tuple[int, list[str]]:
    """Run a command to its end, or kill it at the limit; its exit code and what it said."""
    lines: list[str] = []
    try:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            stop = threading.Timer(limit_s, process.kill)
            stop.start()
            for line in process.stderr or ():
                lines.append(line.rstrip())
                context.say(lines[-1])
            stop.cancel()
    except OSError as error:
        raise ComponentDown(f"the load process did not start: {error}", remedy="run `make setup`") from error
    return process.returncode, lines


def _judge(context: StageContext, draft: ReportDraft, model: ModelSpec, result: LoadResult) -> None:
    for phase in PHASES:
        load = result.phases[phase][model.name]
        found = summarise(load.latencies_ms, load.failed)
        draft.details[f"{phase}.{model.name}"] = {
            "answered": found.answered,
            "failures": load.failures,
            "ms": {p: round(getattr(found, p), 2) if found.answered else None for p in ("p50", "p95", "p99")},
            "per_second": round(found.answered / getattr(context.spec.load_test, f"{phase}_s"), 2),
        }
    limit = context.spec.load_test.max_error_share
    draft.check(
        f"{model.name}.p95",
        judge_latency(found, model.sla_ms),
        f"p50 {found.p50:.1f} ms, p95 {found.p95:.1f} ms, p99 {found.p99:.1f} ms of {found.answered} answers",
        f"p95 {model.sla_ms} ms",
    )
    draft.check(
        f"{model.name}.errors",
        judge_errors(found, limit),
        f"{found.failed} of {found.answered + found.failed} requests failed",
        f"{limit:.2%}",
        detail=", ".join(f"{kind}: {count}" for kind, count in load.failures.items()),
    )
    if found.answered:
        draft.numbers |= {f"{model.name}.{p}_ms": round(getattr(found, p), 2) for p in ("p50", "p95", "p99")}


def _memory(context: StageContext, draft: ReportDraft, sampler: MemorySampler | None) -> None:
    limit = context.spec.load_test.max_memory_growth_mb
    if sampler is None:
        draft.check(
            "server.memory", Verdict.inconclusive, "the server's process is not on this machine", f"{limit:g} MiB"
        )
        return
    verdict, growth = judge_growth(sampler.last(context.spec.load_test.soak_s), limit)
    peak = max((value for _, value in sampler.samples), default=float("nan"))
    draft.check("server.memory", verdict, f"{growth:+.1f} MiB in the soak, peak {peak:.0f} MiB", f"{limit:g} MiB")
    if verdict is not Verdict.inconclusive:
        draft.numbers |= {"memory.growth_mb": round(growth, 1), "memory.peak_mb": round(peak, 1)}
