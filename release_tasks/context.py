"""What every stage gets."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from release_tasks.outcome import Check, StageReport, Verdict
from release_tasks.settings import Settings, load_settings
from release_tasks.spec import ModelSpec, ReleaseSpec
from release_tasks.workspace import Workspace


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class StageContext:
    """Input of a stage. Time is passed in, so that tests can double it.

    Attributes:
        spec: the checked release spec.
        spec_uri: where the spec was read from (path, file:// or gs://).
        workspace: the folder of this run.
        settings: addresses of the profile in use; None for stages that reach no server.
        holder: who acts, for the release's lease: the DAG run, or the command line's user.
        model: restrict a per-model stage to this model.
        release_uri: the published release, for stages that start from object storage.
        step: index of the canary step, from 0.
        options: further options of one stage only, as given on its command line.
        now: wall clock in UTC.
        monotonic: seconds, for durations.
        sleep: waits that many seconds.
        say: one line of progress for a person; standard error by default.
    """

    spec: ReleaseSpec
    spec_uri: str
    workspace: Workspace
    settings: Settings | None = None
    holder: str = "cli"
    model: str | None = None
    release_uri: str | None = None
    step: int = 0
    options: dict[str, str] = field(default_factory=dict)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    say: Callable[[str], None] = _say

    @property
    def models(self) -> tuple[ModelSpec, ...]:
        """The models this run of the stage works on."""
        return (self.spec.model(self.model),) if self.model else self.spec.models

    def need_settings(self) -> Settings:
        """The settings, read now where the caller gave none.

        Raises:
            InvalidInput: no stack is configured.
        """
        return self.settings or load_settings()

    def draft(self, stage: str, release: str) -> ReportDraft:
        """Start a report; the clock runs from here."""
        return ReportDraft(context=self, stage=stage, release=release)


@dataclass
class ReportDraft:
    """A report in the making. Add checks as they are made, then call ``finish`` once."""

    context: StageContext
    stage: str
    release: str
    checks: list[Check] = field(default_factory=list)
    numbers: dict[str, float | int | str | None] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._started = self.context.now()
        self._clock = self.context.monotonic()

    @property
    def started(self) -> datetime:
        """When the stage began."""
        return self._started

    def check(self, name: str, verdict: Verdict | bool, measured: str, limit: str = "", detail: str = "") -> Check:
        """Add a check and tell the person watching; ``True`` is passed, ``False`` is failed."""
        if isinstance(verdict, bool):
            verdict = Verdict.passed if verdict else Verdict.failed
        made = Check(name=name, verdict=verdict, measured=measured, limit=limit, detail=detail)
        self.checks.append(made)
        held = f" (limit {limit})" if limit else ""
        self.context.say(f"  {verdict.value:<12} {name}: {measured}{held}{f' - {detail}' if detail else ''}")
        return made

    def finish(self) -> StageReport:
        """The report; its verdict is the worst of its checks."""
        return StageReport(
            stage=self.stage,
            release=self.release,
            model=self.context.model,
            verdict=Verdict.worst([c.verdict for c in self.checks]),
            checks=tuple(self.checks),
            numbers=self.numbers,
            outputs=self.outputs,
            details=self.details,
            started=self._started,
            seconds=round(self.context.monotonic() - self._clock, 3),
        )
