"""The folder of one run: candidate, exported models, repository, records and reports.

Everything is written to a temporary name and renamed, so that a killed stage leaves nothing half-written.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from release_tasks.artifacts import Record
from release_tasks.errors import StageOrderError
from release_tasks.outcome import StageReport

R = TypeVar("R", bound=Record)


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
        return kind.model_validate_json(path.read_text(encoding="utf-8"))

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
        return StageReport.model_validate_json(path.read_text(encoding="utf-8"))

    def reports(self) -> list[StageReport]:
        """All reports of this run, oldest first."""
        folder = self.root / "reports"
        found = [StageReport.model_validate_json(p.read_text(encoding="utf-8")) for p in folder.glob("*.json")]
        return sorted(found, key=lambda r: r.started)

    def report_path(self, stage: str, model: str | None = None) -> Path:
        """Where that report lies."""
        return self.root / "reports" / (f"{stage}.{model}.json" if model else f"{stage}.json")

    def _record_path(self, kind: type[Record], key: str) -> Path:
        return self.root / "records" / (f"{kind.kind}.{key}.json" if key else f"{kind.kind}.json")


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
