"""Take the candidate over into the workspace and check everything that needs no framework.

A candidate that is refused leaves the workspace empty, so that nothing of an earlier one can go on under its name.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np

from release_tasks.artifacts import CandidateRecord, files_digest
from release_tasks.candidates import SPEC_FILE, candidate_uri, commit, discard, fetch, inside, release_id
from release_tasks.clients.digests import digest_tree
from release_tasks.context import ReportDraft, StageContext
from release_tasks.errors import CandidateError, ReleaseError
from release_tasks.expectations import check_golden
from release_tasks.exporters import exporter_for
from release_tasks.golden import Golden, fits, load_golden
from release_tasks.outcome import StageReport, Verdict
from release_tasks.spec import ReleaseSpec
from release_tasks.spec.cases import BusinessCase, load_cases
from release_tasks.spec.load import load_spec
from release_tasks.spec.matrix import check_runtime


def run(context: StageContext) -> StageReport:
    """Copy, check, and record the candidate.

    Raises:
        CandidateError: a file is missing, broken or of another framework; or a business case does not fit the models.
        GoldenDataError: golden rows break a rule.
        RuntimeMismatch: the Triton release cannot serve a model.
    """
    root = context.workspace.root
    root.mkdir(parents=True, exist_ok=True)
    for stale in root.glob(".fetched.*"):
        shutil.rmtree(stale)
    holder = Path(tempfile.mkdtemp(dir=root, prefix=".fetched."))
    try:
        return _validate(context, holder / "candidate")
    except ReleaseError as error:
        if not error.retryable:
            discard(context.workspace)
        raise
    finally:
        shutil.rmtree(holder, ignore_errors=True)


def _validate(context: StageContext, fetched: Path) -> StageReport:
    uri = candidate_uri(context.spec_uri)
    draft = context.draft("validate", context.spec.name)
    fetch(uri, fetched)
    files = digest_tree(fetched)
    record = CandidateRecord(
        release=release_id(context.spec.name, files_digest(files), context.workspace),
        uri=uri,
        digest=files_digest(files),
        files=files,
    )
    draft.release = record.release
    draft.check("validate.candidate", True, f"{len(files)} files, {sum(f.size for f in files) / 2**20:.1f} MiB")
    _check_spec(context.spec, fetched)
    draft.check("validate.spec", True, f"{len(context.spec.models)} models")
    _check_runtime(context, draft)
    _check_sources(context, draft, fetched)
    golden = _check_golden_rows(context, draft, fetched)
    _check_cases(context, draft, fetched)
    _check_suites(draft, golden)
    draft.outputs = {
        "release": record.release,
        "candidate": record.digest,
        "models": ",".join(m.name for m in context.spec.models),
    }
    report = draft.finish()
    if report.verdict is Verdict.passed:
        commit(context.workspace, fetched, record)
    else:
        discard(context.workspace)
    return report


def _check_spec(spec: ReleaseSpec, fetched: Path) -> None:
    """The spec that was read first is the one that was fetched."""
    if load_spec(fetched / SPEC_FILE) != spec:
        raise CandidateError(
            field=SPEC_FILE,
            value="changed",
            rule="the spec changed while the candidate was fetched",
            remedy="wait until the training job has written everything, then start again",
        )


def _check_runtime(context: StageContext, draft: ReportDraft) -> None:
    chosen = check_runtime(context.spec)
    backends = ", ".join(sorted({str(m.backend) for m in context.spec.models}))
    draft.check(
        "validate.runtime",
        True,
        f"Triton {chosen.release} (server {chosen.server}, CUDA {chosen.cuda}) has {backends}",
    )


def _check_sources(context: StageContext, draft: ReportDraft, fetched: Path) -> None:
    for model in context.spec.models:
        source = inside(fetched, model.source, f"models.{model.name}.source")
        draft.check(f"validate.{model.name}.source", True, exporter_for(model.framework).looks_right(model, source))


def _check_golden_rows(context: StageContext, draft: ReportDraft, fetched: Path) -> dict[str, Golden]:
    golden = {}
    for model in context.spec.models:
        inside(fetched, str(Path(model.golden).parent), f"models.{model.name}.golden")
        golden[model.name] = load_golden(fetched, model)
        draft.check(f"validate.{model.name}.golden", True, f"{golden[model.name].rows} rows, all finite")
        draft.numbers[f"{model.name}.golden_rows"] = golden[model.name].rows
    return golden


def _check_suites(draft: ReportDraft, golden: dict[str, Golden]) -> None:
    for result in check_golden(golden):
        draft.check(
            f"validate.{result.name}.expectations",
            not result.unmet,
            f"{result.expectations - len(result.unmet)} of {result.expectations} expectations met",
            "all",
            "; ".join(result.unmet),
        )
        draft.details[f"{result.name}.expectations"] = {"unmet": list(result.unmet), "count": result.expectations}


def _check_cases(context: StageContext, draft: ReportDraft, fetched: Path) -> None:
    book = load_cases(inside(fetched, context.spec.regression.cases, "regression.cases"))
    for case in book.cases:
        _check_case(context.spec, case)
    draft.check("validate.cases", True, f"{len(book.cases)} business cases")
    draft.numbers["cases"] = len(book.cases)


def _check_case(spec: ReleaseSpec, case: BusinessCase) -> None:
    """The model, its inputs and the ordering output exist, and the values fit."""
    place = f"cases.{case.id}"
    model = next((m for m in spec.models if m.name == case.model), None)
    if model is None:
        raise _wrong(f"{place}.model", case.model, f"the spec's models are {[m.name for m in spec.models]}")
    names = [t.name for t in model.inputs]
    if set(case.inputs) != set(names):
        raise _wrong(f"{place}.inputs", sorted(case.inputs), f"the inputs of {model.name} are {names}")
    output = next((t for t in model.outputs if t.name == case.output), None)
    if output is None or any(size != 1 for size in output.shape):
        usable = [t.name for t in model.outputs if all(size == 1 for size in t.shape)]
        raise _wrong(f"{place}.output", case.output, f"the outputs of {model.name} with one value per row are {usable}")
    for tensor in model.inputs:
        try:
            values = np.asarray(case.inputs[tensor.name], dtype=tensor.dtype.numpy)
        except (ValueError, TypeError, OverflowError) as error:
            raise _wrong(f"{place}.inputs.{tensor.name}", str(error), f"every value must be {tensor.dtype}") from error
        if not fits(values.shape[1:], tensor.shape) or not np.isfinite(values).all():
            rule = f"every row must be finite and of shape {list(tensor.shape)}"
            raise _wrong(f"{place}.inputs.{tensor.name}", values.shape, rule)


def _wrong(field: str, value: object, rule: str) -> CandidateError:
    return CandidateError(field=field, value=value, rule=rule, remedy="mend the case, or the spec")
