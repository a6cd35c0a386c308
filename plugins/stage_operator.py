"""The one factory that makes tasks: a subprocess in profile `local`, a pod in `kubernetes`, the same command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseOperator, Context

from plugins.commands import ROOT, StageCall, profile
from plugins.failures import failure
from plugins.process import Command
from release_tasks.stages import STAGES

RETRY: dict[str, Any] = {"retries": 1, "retry_delay": timedelta(seconds=5)}
LIMIT = timedelta(hours=1)
# A canary step ends by its own policy long before; this only catches a process that hangs.
LIMITS = {"canary": timedelta(hours=25)}
# On one machine, building the next release must not slow down the servers that answer users, or are being measured.
BUILDS = frozenset({"validate", "export", "parity", "size_gate", "repository", "upload"})
NICENESS = 10


class StageOperator(BaseOperator):  # type: ignore[misc]  # Airflow is not type-checked
    """Runs ``python -m <arguments>`` as a subprocess in a process group of its own.

    The JSON object of the last line of standard output becomes the XCom. When the command fails, its reason is pushed
    as XCom ``failure`` too, so that it can be read without opening the log.

    Args:
        arguments: what follows ``python -m``; templated.
        niceness: how much the subprocess yields to others.
    """

    template_fields: Sequence[str] = ("arguments",)
    ui_color: ClassVar[str] = "#e8f0fe"

    def __init__(self, *, arguments: list[str], niceness: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.arguments, self.niceness = arguments, niceness
        self._command: Command | None = None

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Run it.

        Raises:
            AirflowException: it failed in a way that a second try can mend.
            AirflowFailException: it failed and would fail again.
        """
        line = [sys.executable, "-m", *self.arguments]
        self.log.info("running %s", " ".join(line))
        self._command = Command(line, cwd=str(ROOT), say=self.log.info, niceness=self.niceness)
        finished = self._command.run()
        if finished.exit_code == 0:
            return finished.result
        error = failure(self.task_id.rpartition(".")[2], finished)
        context["ti"].xcom_push(key="failure", value={"exit_code": finished.exit_code, "reason": str(error)})
        raise error

    def on_kill(self) -> None:
        """End the whole group."""
        if self._command is not None:
            self._command.stop()


def stage_task(call: StageCall, *, task_id: str | None = None, **kwargs: Any) -> BaseOperator:
    """The task of one stage.

    Args:
        call: which stage, with what; its strings may be templates.
        task_id: by default the name of the stage.
        kwargs: further arguments of the operator.
    """
    defaults = {"doc_md": STAGES[call.stage], "execution_timeout": LIMITS.get(call.stage, LIMIT)}
    return module_task(task_id or call.stage, call.arguments(), build=call.stage in BUILDS, **{**defaults, **kwargs})


def module_task(task_id: str, arguments: list[str], *, build: bool = False, **kwargs: Any) -> BaseOperator:
    """A task that runs ``python -m <arguments>`` in the profile in use; a build yields to what serves users."""
    options = {"execution_timeout": LIMIT, **RETRY, **kwargs}
    if profile() == "kubernetes":
        from plugins.pod import pod_task

        return pod_task(task_id, arguments, **options)
    return StageOperator(task_id=task_id, arguments=arguments, niceness=NICENESS if build else 0, **options)
