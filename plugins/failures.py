"""From an exit code to what Airflow does next: try once more, or fail at once with the reason."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from plugins.process import Finished
from release_tasks.errors import all_errors

ERRORS = {error.exit_code: error for error in all_errors()}


def retryable(exit_code: int) -> bool:
    """Whether a second try can help: components that failed, and processes killed from outside."""
    known = ERRORS.get(exit_code)
    return exit_code < 0 or (known is not None and known.retryable)


def reason(what: str, finished: Finished) -> str:
    """Why the command failed, in the words of the command."""
    result = finished.result or {}
    if result.get("reason"):
        return f"{what}: {result.get('verdict', 'failed')}: {result['reason']}"
    if finished.exit_code < 0:
        return f"{what}: killed by signal {-finished.exit_code}"
    marks = [i for i, line in enumerate(finished.tail) if "(exit code " in line]
    lines = finished.tail[marks[-1] :] if marks else finished.tail[-15:]
    return f"{what}: exit code {finished.exit_code}: " + "\n".join(lines)


def failure(what: str, finished: Finished) -> AirflowException:
    """The exception to raise."""
    kind = AirflowException if retryable(finished.exit_code) else AirflowFailException
    made: AirflowException = kind(reason(what, finished))
    return made
