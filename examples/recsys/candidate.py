"""A candidate while a recipe works on it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.recsys import samples
from examples.recsys.base import load_golden, save_golden


@dataclass
class Candidate:
    """A candidate in the making: a copy of the base models that a recipe changes.

    Attributes:
        base: folder of the base, read only.
        folder: folder of the candidate.
        spec: content of release.yaml.
        quality: figures per model.
    """

    base: Path
    folder: Path
    spec: dict[str, Any]
    quality: dict[str, Any]

    @property
    def facts(self) -> dict[str, Any]:
        """What the base knows of the data: sizes, shelves, lengths of history."""
        facts: dict[str, Any] = json.loads((self.base / "facts.json").read_text())
        return facts

    def model_spec(self, name: str) -> dict[str, Any]:
        """The part of release.yaml that describes a model."""
        found: dict[str, Any] = next(m for m in self.spec["models"] if m["name"] == name)
        return found

    def rows(self, name: str) -> samples.Pairs:
        """Prepared rows: `summer`, `autumn` (training) or `test` (held out)."""
        return samples.restore(self.base / f"{name}.npz")

    def use_ranker(self, version: str) -> None:
        """Take a ranker of the base, `summer` or `autumn`, with its golden outputs and figures."""
        source = self.base / "rankers" / version
        (self.folder / "models" / "ranker").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / "model.pt", self.folder / "models" / "ranker" / "model.pt")
        shutil.copyfile(source / "golden" / "ranker.npz", self.folder / "golden" / "ranker.npz")
        self.quality["ranker"] = json.loads((source / "quality.json").read_text())

    def ranker(self) -> Any:
        """The latest ranker (`autumn`) in PyTorch."""
        from examples.recsys import ranker

        model = ranker.create(self.facts["sizes"], self.rows("summer"))
        return ranker.restore(model, (self.base / "rankers" / "autumn" / "weights").read_bytes())

    def save_ranker(self, script: Any) -> None:
        """Write the TorchScript module that is released."""
        from examples.recsys import ranker

        (self.folder / "models" / "ranker" / "model.pt").write_bytes(ranker.archive(script))

    def record(self, model: Any) -> None:
        """Record the golden outputs of the ranker in PyTorch."""
        from examples.recsys import ranker

        inputs, _ = load_golden(self.folder, "ranker")
        save_golden(self.folder, "ranker", inputs, {ranker.OUTPUT: ranker.predict(model, inputs)})

    def measure(self, model: Any, rows: samples.Pairs | None = None) -> None:
        """Measure the ranker, on the held-out rows unless others are given."""
        from examples.recsys import ranker

        self.quality["ranker"] = ranker.measure(model, rows or self.rows("test"), self.facts["shelf"])
