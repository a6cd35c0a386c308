"""The folder of one run: candidate, exported models, repository, records and reports.

Everything is written to a temporary name and renamed, so that a killed stage leaves nothing half-written.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from release_tasks.artifacts import Record
from release_tasks.errors import InvalidInput, StageOrderError
from release_tasks.outcome import StageReport

R = TypeVar("R", bound=Record)
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Workspace:
    """Paths of one run."""

    root: Path

    @property
    def candidate(self) -> Path:
        """The candidate's files as handed over, with release.yaml."""
        return self.root / "candidate"

    @property
    def exported(self) -> Path:
        """One folder per exported model."""
        return self.root / "exported"

    @property
    def repository(self) -> Path:
        """The Triton model repository."""
        return self.root / "repository"

    def prepare(self) -> None:
        """Make the folder, and see that files can be written in it.

        Raises:
            InvalidInput: it is a file, or may not be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except (OSError, ValueError) as error:
            raise InvalidInput(
                field="--workspace",
                value=str(self.root),
                rule=f"it must be a folder in which files can be written ({getattr(error, 'strerror', None) or error})",
                remedy="name another folder, or mend its permissions or the disk",
            ) from error

    def save(self, record: Record) -> Path:
        """Write a record; an older one of the same kind and key is replaced."""
        path = self._record_path(type(record), record.key)
        write_atomic(path, record.model_dump_json(indent=1))
        return path

    def load(self, kind: type[R], key: str = "") -> R:
        """Read a record.

        Raises:
            StageOrderError: the stage that writes it has not run in this workspace.
        """
        found = self.find(kind, key)
        if found is None:
            name = f"{kind.kind} record" + (f" of {key}" if key else "")
            raise StageOrderError(
                f"the workspace {self.root} holds no {name}",
                remedy="run the earlier stages with the same --workspace first",
            )
        return found

    def find(self, kind: type[R], key: str = "") -> R | None:
        """Read a record, or None where there is none."""
        path = self._record_path(kind, key)
        if not path.exists():
            return None
        return _read(path, kind)

    def remove(self, kind: type[Record], key: str = "") -> None:
        """Forget a record, so that later stages refuse to run; one that is not there is no error."""
        self._record_path(kind, key).unlink(missing_ok=True)

    def save_report(self, report: StageReport) -> Path:
        """Write a report; a rerun replaces it."""
        path = self.report_path(report.stage, report.model)
        write_atomic(path, report.model_dump_json(indent=1))
        return path

    def report(self, stage: str, model: str | None = None) -> StageReport | None:
        """The report of a stage, or None where it has not run."""
        path = self.report_path(stage, model)
        if not path.exists():
            return None
        return _read(path, StageReport)

    def reports(self) -> list[StageReport]:
        """All reports of this run, oldest first."""
        folder = self.root / "reports"
        found = [_read(p, StageReport) for p in folder.glob("*.json")]
        return sorted(found, key=lambda r: r.started)

    def report_path(self, stage: str, model: str | None = None) -> Path:
        """Where that report lies."""
        return self.root / "reports" / (f"{stage}.{model}.json" if model else f"{stage}.json")

    def _record_path(self, kind: type[Record], key: str) -> Path:
        return self.root / "records" / (f"{kind.kind}.{key}.json" if key else f"{kind.kind}.json")


def _read(path: Path, kind: type[M]) -> M:
    """A file that a stage wrote.

    Raises:
        StageOrderError: it is damaged; nothing is concluded from it.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, no JSON, or of other fields
        first = str(error).splitlines()[0]
        raise StageOrderError(
            f"{path} is damaged, or was written by another version: {first}",
            remedy="run the release again with a new --workspace",
        ) from error


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write a file so that readers see the old bytes or the new ones, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = data.encode() if isinstance(data, str) else data
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(raw)
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
