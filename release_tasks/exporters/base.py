"""The contract between the pipeline and a framework.

    source artefact --looks_right--> accepted --export--> file or folder the server loads --load_exported--> runner
                    --load_source--> runner (the source framework, to compare with)

An exporter imports its framework inside its functions, so that exporting and comparing one model loads one framework.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from release_tasks.spec.model import Backend, ModelSpec

Tensors = dict[str, NDArray[Any]]
Runner = Callable[[Tensors], Tensors]

# What the server loads by default, per backend (triton-inference-server docs, model_repository.md).
FILE_NAMES: dict[Backend, str] = {
    Backend.tensorflow: "model.savedmodel",
    Backend.onnxruntime: "model.onnx",
    Backend.pytorch: "model.pt",
    Backend.tensorrt: "model.plan",
}


@dataclass(frozen=True)
class ExportedModel:
    """What an export gave.

    Attributes:
        file_name: file or folder below the target folder that the server loads.
        versions: versions of the frameworks that took part.
        notes: what was changed on the way, for the report.
    """

    file_name: str
    versions: dict[str, str]
    notes: tuple[str, ...] = ()


class Exporter(Protocol):
    """One source framework. ``version`` rises whenever the same source would export to other bytes."""

    version: str

    def looks_right(self, model: ModelSpec, source: Path) -> str:
        """Cheap look at the bytes, without the framework; what was recognised, for the report.

        Raises:
            CandidateError: the file is truncated or of another framework.
        """

    def export(self, model: ModelSpec, source: Path, target: Path) -> ExportedModel:
        """Write what the server loads into the existing, empty folder ``target``.

        Raises:
            ExportError: the model may not be exported, or the framework failed.
            CandidateError: the file is broken in a way only the framework sees.
        """

    def load_source(self, model: ModelSpec, source: Path) -> Runner:
        """Run the source artefact in its own framework."""

    def load_exported(self, model: ModelSpec, exported: Path) -> Runner:
        """Run the exported artefact in the runtime that serves it."""

    def probes(self, model: ModelSpec, source: Path, rows: Tensors) -> Tensors:
        """Extra input rows that are likely to tell both sides apart; may be empty arrays.

        Args:
            rows: golden inputs, to start from.
        """
