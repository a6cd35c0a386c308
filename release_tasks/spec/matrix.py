"""Which Triton container release holds which backend."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml
from pydantic import Field

from release_tasks.errors import RuntimeMismatch
from release_tasks.spec.base import SpecPart
from release_tasks.spec.model import Backend
from release_tasks.spec.release import ReleaseSpec

MATRIX_FILE = Path(__file__).with_name("triton_matrix.yaml")


class TritonRelease(SpecPart):
    """One Triton container release."""

    release: str = Field(description="Year and month, e.g. `24.12`.")
    server: str = Field(description="Version of tritonserver.")
    backends: frozenset[Backend] = Field(description="Backends that the image holds.")
    cuda: str = Field(description="CUDA of the image, major and minor.")
    min_driver: str | None = Field(description="Smallest NVIDIA driver branch; null where the release names none.")
    python: str = Field(description="Python of the image.")


class _Matrix(SpecPart):
    releases: tuple[TritonRelease, ...] = Field(min_length=1)


@cache
def triton_releases() -> tuple[TritonRelease, ...]:
    """All known releases, oldest first."""
    return _Matrix.model_validate(yaml.safe_load(MATRIX_FILE.read_text(encoding="utf-8"))).releases


def releases_with(backends: frozenset[Backend]) -> tuple[str, ...]:
    """The releases that hold every one of these backends, oldest first."""
    return tuple(r.release for r in triton_releases() if backends <= r.backends)


def triton_release(name: str) -> TritonRelease:
    """The release of that name.

    Raises:
        RuntimeMismatch: the matrix does not know it.
    """
    known = {r.release: r for r in triton_releases()}
    if name not in known:
        raise RuntimeMismatch(
            field="serving.triton_release",
            value=name,
            rule="this Triton release is not in the version matrix",
            remedy=f"one of {_span(tuple(known))}; newer releases are added in {MATRIX_FILE.name}",
        )
    return known[name]


def check_runtime(spec: ReleaseSpec) -> TritonRelease:
    """The spec's Triton release, which holds the backend of every model.

    Raises:
        RuntimeMismatch: unknown release or missing backend, with the releases that would do.
    """
    chosen = triton_release(spec.serving.triton_release)
    needed = frozenset(m.backend for m in spec.models)
    for model in spec.models:
        if model.backend not in chosen.backends:
            raise RuntimeMismatch(
                field="serving.triton_release",
                value=chosen.release,
                rule=f"it has no `{model.backend}` backend, which models.{model.name} needs",
                remedy=f"releases with every backend that this spec needs: {_span(releases_with(needed))}",
            )
    return chosen


def _span(names: tuple[str, ...]) -> str:
    """First and last of a run of consecutive releases, or all of a short list."""
    if not names:
        return "(none)"
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} to {names[-1]}"
