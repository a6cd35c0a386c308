"""One error hierarchy; every failure class has its own exit code.

The orchestrator maps exit codes to retry or fail (see ``RETRYABLE``), so a code is never reused and never
renumbered. ``0`` is success, ``1`` an unexpected exception, ``2`` a wrong command line.
"""

from __future__ import annotations

from typing import ClassVar


class ReleaseError(Exception):
    """Base of everything this package raises on purpose.

    Args:
        message: what happened, in one sentence.
        remedy: what the reader should do about it.
        log_tail: last lines of the failing component's log, when there is one.
    """

    exit_code: ClassVar[int] = 3
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, remedy: str = "", log_tail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.log_tail = log_tail

    def __str__(self) -> str:
        parts = [self.message]
        if self.remedy:
            parts.append(f"remedy: {self.remedy}")
        if self.log_tail:
            parts.append(f"last lines of its log:\n{self.log_tail}")
        return "\n".join(parts)


class InvalidInput(ReleaseError):
    """A value somebody wrote or handed over breaks a rule.

    Args:
        field: dotted path of the field, or the file, as the user knows it.
        value: the offending value, shown shortened.
        rule: the rule it breaks.
        remedy: how to mend it.
    """

    exit_code = 9

    def __init__(self, *, field: str, value: object, rule: str, remedy: str) -> None:
        self.field, self.value, self.rule = field, value, rule
        super().__init__(f"{field}: {_short(value)} is not accepted: {rule}", remedy=remedy)


class SpecError(InvalidInput):
    """release.yaml is wrong."""

    exit_code = 10


class CandidateError(InvalidInput):
    """A file of the candidate is missing, truncated or of another framework; or the candidate does not exist."""

    exit_code = 11


class GoldenDataError(InvalidInput):
    """Golden inputs or outputs are missing, of a wrong shape or type, or not finite."""

    exit_code = 12


class RuntimeMismatch(InvalidInput):
    """The target Triton release cannot serve the model (no backend, other engine version)."""

    exit_code = 13


class RepositoryError(InvalidInput):
    """A rule of the model-repository contract is broken."""

    exit_code = 14


class ExportError(ReleaseError):
    """The exporter failed or the model may not be exported (training mode, traced)."""

    exit_code = 20


class GateFailed(ReleaseError):
    """A gate measured something over its limit. The report holds the numbers."""

    exit_code = 21


class GateInconclusive(ReleaseError):
    """A gate could not tell. Never a pass."""

    exit_code = 22


class StorageError(ReleaseError):
    """Object storage did not do what was asked."""

    exit_code = 30
    retryable = True


class DigestMismatch(StorageError):
    """Bytes in object storage differ from the bytes that were released."""

    exit_code = 31
    retryable = False


class ReleaseConflict(StorageError):
    """The release prefix already holds other bytes; releases are written once."""

    exit_code = 32
    retryable = False


class ServingError(ReleaseError):
    """A model server did not become ready, died, or gave no usable answer."""

    exit_code = 33
    retryable = True


class TrafficError(ReleaseError):
    """The traffic proxy does not do what it was told."""

    exit_code = 34
    retryable = True


class MetricsError(ReleaseError):
    """Prometheus is down, slow or answers with an error."""

    exit_code = 35
    retryable = True


class ComponentDown(ReleaseError):
    """A component of the stack died while a stage needed it."""

    exit_code = 36
    retryable = True


class DependencyMissing(ReleaseError):
    """A package or binary that a stage needs is not installed."""

    exit_code = 37


class LockHeld(ReleaseError):
    """Another promotion holds the release lock."""

    exit_code = 40
    retryable = True


class Fenced(ReleaseError):
    """The writer's lease or epoch is no longer current; the write was refused."""

    exit_code = 41


class NotSigned(ReleaseError):
    """No valid approval by an assigned approver for exactly this digest."""

    exit_code = 42


class RolledBack(ReleaseError):
    """A promotion ended in a rollback. The rollback itself succeeded; the run must still end failed."""

    exit_code = 43


class RollbackFailed(ReleaseError):
    """The rollback could not be proved; a person must act. The message says exactly what to do."""

    exit_code = 44


class StageOrderError(ReleaseError):
    """A stage was started before the stage whose result it needs."""

    exit_code = 45


def _short(value: object, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def all_errors(root: type[ReleaseError] = ReleaseError) -> list[type[ReleaseError]]:
    """Every class of the hierarchy, the root first."""
    found = [root]
    for sub in root.__subclasses__():
        found.extend(all_errors(sub))
    return found
