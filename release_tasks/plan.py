"""What a release would do, stage by stage, with the spec's numbers. Reads nothing but the spec."""

from __future__ import annotations

from collections.abc import Callable

from release_tasks.spec import ReleaseSpec
from release_tasks.spec.matrix import check_runtime
from release_tasks.stages import STAGES


def render_plan(spec: ReleaseSpec) -> str:
    """The plan as text.

    Raises:
        RuntimeMismatch: the Triton release cannot serve a model.
    """
    count = "1 model" if len(spec.models) == 1 else f"{len(spec.models)} models"
    lines = [f"Release of {spec.name}: {count}, promoted {spec.promote}"]
    if spec.description:
        lines.append(f"  {spec.description}")
    for number, (stage, summary) in enumerate(STAGES.items(), start=1):
        lines.append(f"{number:>3}. {stage}: {summary}")
        lines += [f"       {line}" for line in _details(stage, spec)]
    return "\n".join(lines)


def _details(stage: str, spec: ReleaseSpec) -> list[str]:
    return _DETAILS[stage](spec) if stage in _DETAILS else []


def _validate(spec: ReleaseSpec) -> list[str]:
    chosen = check_runtime(spec)
    return [
        f"Triton {chosen.release}: server {chosen.server}, CUDA {chosen.cuda}, Python {chosen.python}",
        *(f"{m.name}: golden rows in {m.golden}" for m in spec.models),
    ]


def _export(spec: ReleaseSpec) -> list[str]:
    return [f"{m.name}: {m.framework} {m.source} -> {m.backend}" for m in spec.models]


def _parity(spec: ReleaseSpec) -> list[str]:
    return [
        f"{m.name}.{o.name}: within {o.tolerance.absolute:g} + {o.tolerance.relative:g}·|expected|, batches of "
        f"{', '.join(map(str, sorted({1, 2, m.max_batch_size})))}"
        for m in spec.models
        for o in m.outputs
    ]


def _size_gate(spec: ReleaseSpec) -> list[str]:
    budgets = ", ".join(f"{m.name} {m.size_budget_mb:g} MiB" for m in spec.models)
    return [f"budgets: {budgets}", f"stable and candidate together within {spec.serving.resources.memory_gb:g} GiB"]


def _repository(spec: ReleaseSpec) -> list[str]:
    return [
        f"{m.name}: batches up to {m.max_batch_size}, "
        f"{' + '.join(f'{g.count} x {g.kind}' for g in m.config.instance_groups)}, priority {m.config.priority}, "
        f"warm-up {'on' if m.config.warm_up.enabled else 'off'}"
        for m in spec.models
    ]


def _staging(spec: ReleaseSpec) -> list[str]:
    return [f"every model ready within {spec.serving.ready_deadline_s} s"]


def _load_test(spec: ReleaseSpec) -> list[str]:
    load = spec.load_test
    slas = ", ".join(f"{m.name} {m.sla_ms} ms" for m in spec.models)
    return [
        f"{load.users} users x {load.requests_per_user_s:g}/s: {load.baseline_s} s baseline, {load.ramp_s} s ramp, "
        f"{load.soak_s} s soak",
        f"p95 within {slas}; errors within {load.max_error_share:.2%}; growth within {load.max_memory_growth_mb:g} MiB",
    ]


def _regression(spec: ReleaseSpec) -> list[str]:
    drop = f"{spec.regression.max_drop:.0%}"
    return [
        f"cases of {spec.regression.cases}: a hard case below its score blocks, a drop over {drop} is flagged for the "
        "person who signs"
    ]


def _approve(spec: ReleaseSpec) -> list[str]:
    policy = spec.regression
    who = " or ".join(policy.approvers)
    return [f"{who} answers within {policy.timeout_s:g} s; nobody answering means rejected"]


def _canary(spec: ReleaseSpec) -> list[str]:
    canary = spec.canary
    return [
        f"{' -> '.join(f'{w} %' for w in canary.weights)}, each at least {canary.min_bake_s:g} s, at most "
        f"{canary.deadline_s:g} s",
        f"back when errors exceed {canary.max_error_share:.2%} or slow requests {canary.max_slow_share:.2%} "
        f"(false alarm at most {canary.alpha:g}); undecided: {canary.on_inconclusive}",
    ]


_DETAILS: dict[str, Callable[[ReleaseSpec], list[str]]] = {
    "validate": _validate,
    "export": _export,
    "parity": _parity,
    "size_gate": _size_gate,
    "repository": _repository,
    "deploy_staging": _staging,
    "load_test": _load_test,
    "regression": _regression,
    "approve": _approve,
    "canary": _canary,
}
