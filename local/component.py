"""What supervisord is told about a component, and how the stack knows that it is healthy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from local.paths import ROOT


@dataclass(frozen=True)
class Component:
    """One process of the stack."""

    name: str
    command: list[str]
    healthy: Callable[[], bool] | None = None
    """Whether it answers now; None where running is all there is to see."""
    environment: dict[str, str] = field(default_factory=dict)
    directory: Path = ROOT
    user: str | None = None
    stop_signal: str = "TERM"
    stop_wait_s: int = 10
    deadline_s: float = 60
    """Seconds until it must be healthy."""
    start: bool = True
    """Whether `up` starts it; the others are started when they are needed."""
