"""What a stage says: a closed set of verdicts, checks with what was measured and the limit, and the report."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Verdict(StrEnum):
    """The closed set of verdicts. Only ``passed`` lets a release go on."""

    passed = "passed"
    failed = "failed"
    inconclusive = "inconclusive"
    error = "error"

    @staticmethod
    def worst(verdicts: list[Verdict]) -> Verdict:
        """The most severe of several verdicts; nothing to look at is ``inconclusive``, never a pass."""
        order = [Verdict.error, Verdict.failed, Verdict.inconclusive, Verdict.passed]
        return min(verdicts, key=order.index, default=Verdict.inconclusive)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Check(_Frozen):
    """One thing that was looked at."""

    name: str = Field(description="Stable identifier, e.g. `parity.ranker.score__0`.")
    verdict: Verdict
    measured: str = Field(description="What was found, with its unit.")
    limit: str = Field(default="", description="What it was held against, with its unit.")
    detail: str = Field(default="", description="One sentence more, for a person.")


class StageReport(_Frozen):
    """What a stage found. Written as JSON beside the artefacts; its digest enters the approval."""

    stage: str
    release: str = Field(description="Release id.")
    model: str | None = Field(default=None, description="Set when the stage ran for one model only.")
    verdict: Verdict
    checks: tuple[Check, ...] = ()
    numbers: dict[str, float | int | str | None] = Field(
        default_factory=dict, description="Figures worth plotting or comparing, flat."
    )
    outputs: dict[str, str] = Field(default_factory=dict, description="URIs and digests handed over.")
    details: dict[str, Any] = Field(default_factory=dict, description="Structured findings of this stage (JSON).")
    started: datetime
    seconds: float

    def reason(self) -> str:
        """The first check that did not pass, in one line; empty when everything passed."""
        for check in self.checks:
            if check.verdict is not Verdict.passed:
                limit = f" (limit {check.limit})" if check.limit else ""
                detail = f": {check.detail}" if check.detail else ""
                return f"{check.name}: {check.measured}{limit}{detail}"
        return ""
