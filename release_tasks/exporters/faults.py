"""Errors that every exporter words the same way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from release_tasks.errors import CandidateError, DependencyMissing, ExportError, ReleaseError
from release_tasks.spec.model import ModelSpec


def wrong_source(
    model: ModelSpec, rule: str, remedy: str = "check `framework` and `source`, or write it again"
) -> CandidateError:
    """The source artefact is not what the spec says."""
    return CandidateError(field=f"models.{model.name}.source", value=model.source, rule=rule, remedy=remedy)


def head(path: Path, size: int) -> bytes:
    """The first bytes of a file."""
    with path.open("rb") as file:
        return file.read(size)


@contextlib.contextmanager
def framework(name: str, model: ModelSpec, doing: str) -> Iterator[None]:
    """Turn whatever a framework raises into an error of ours, with the framework's words in it.

    Raises:
        DependencyMissing: the framework is not installed.
        ExportError: anything else that is not already one of ours.
    """
    try:
        yield
    except ReleaseError:
        raise
    except ImportError as error:
        raise DependencyMissing(
            f"{doing} models.{model.name} needs {name}: {error}", remedy=f"install {name}"
        ) from error
    except Exception as error:
        words = str(error).strip().splitlines() or [""]
        raise ExportError(
            f"models.{model.name}: {doing} with {name} failed: {type(error).__name__}: {words[0][:400]}",
            remedy="the artefact may be damaged or written by an incompatible version; write it again",
        ) from error
