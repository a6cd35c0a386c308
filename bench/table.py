"""The one form of a benchmark's result: figures with a unit and, where there is one, a goal."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One measured figure. ``goal`` reads like `<= 120`; empty where there is none."""

    figure: str
    value: float
    unit: str
    goal: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if not self.goal:
            return None
        relation, limit = self.goal.split()
        return self.value <= float(limit) if relation == "<=" else self.value >= float(limit)


def publish(name: str, figures: list[Figure]) -> None:
    """Print the table and write bench/results/NAME.json."""
    rows = [asdict(f) | {"met": f.met} for f in figures]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    width = max(len(f.figure) for f in figures)
    print(f"\n{name}")
    for figure in figures:
        verdict = {None: "", True: "met", False: "MISSED"}[figure.met]
        print(f"  {figure.figure:<{width}}  {figure.value:>10.3f} {figure.unit:<6} {figure.goal:<10} {verdict}")
