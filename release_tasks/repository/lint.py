"""Lint a Triton model repository without a server: one code per rule of ``rules.RULES``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from release_tasks.repository.config import CONFIG_FILE, WARM_UP_FOLDER, parse_config
from release_tasks.repository.lint_config import Problem, check_config
from release_tasks.repository.rules import RULES

__all__ = ["RULES", "Finding", "lint"]

_VERSION = re.compile(r"^[1-9][0-9]*$")
_FOLDERS = frozenset({WARM_UP_FOLDER, "initial_state"})
# What the backend loads, and what may lie beside it (an ONNX file's external weights).
_WEIGHTS: dict[str, tuple[str, str]] = {
    "pytorch": ("model.pt", r"^$"),
    "onnxruntime": ("model.onnx", r"\.(data|bin|weight)$|^onnx__"),
    "tensorflow": ("model.savedmodel", r"^$"),
    "tensorrt": ("model.plan", r"^$"),
}
_PLATFORMS = {
    "pytorch_libtorch": "pytorch",
    "onnxruntime_onnx": "onnxruntime",
    "tensorflow_savedmodel": "tensorflow",
    "tensorrt_plan": "tensorrt",
    "ensemble": "ensemble",
}


@dataclass(frozen=True)
class Finding:
    """One broken rule at one place (a path relative to the repository)."""

    code: str
    place: str
    message: str

    @property
    def blocks(self) -> bool:
        """Whether it stops the release."""
        return RULES[self.code].blocks

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def lint(repository: Path, *, sla_ms: Mapping[str, int] | None = None) -> list[Finding]:
    """Every broken rule, models in order of their names.

    Args:
        repository: folder with one folder per model.
        sla_ms: latency promise per model in milliseconds, for the rule about the queue delay.
    """
    findings: list[Finding] = []
    for folder in sorted(p for p in repository.iterdir() if p.is_dir()):
        for code, place, message in _model(folder, (sla_ms or {}).get(folder.name)):
            findings.append(Finding(code, f"{folder.name}/{place}" if place else folder.name, message))
    return findings


def _model(folder: Path, sla_ms: int | None) -> Iterator[Problem]:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", folder.name):
        yield "H001", "", f"the name {folder.name!r} is not lowercase letters, digits and underscores"
    backend = ""
    if (folder / CONFIG_FILE).is_file():
        try:
            config = parse_config((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        except Exception as error:  # protobuf's ParseError and bad UTF-8 alike
            yield "C001", CONFIG_FILE, f"it does not parse: {error}"
        else:
            backend = config.backend or _PLATFORMS.get(config.platform, "")
            for code, message in check_config(config, folder, backend, sla_ms):
                yield code, CONFIG_FILE, message
    else:
        yield "L001", CONFIG_FILE, "the file is missing"
    yield from _layout(folder, backend)


def _layout(folder: Path, backend: str) -> Iterator[Problem]:
    versions = [p for p in sorted(folder.iterdir()) if p.is_dir() and p.name not in _FOLDERS]
    for path in sorted(p for p in folder.iterdir() if p.is_file()):
        if path.name != CONFIG_FILE and path.suffix != ".txt":
            yield "L008", path.name, "this file has no place in a model folder"
    good = [p for p in versions if _VERSION.match(p.name)]
    for path in versions:
        if path not in good:
            yield "L004", path.name, f"{path.name!r} is no version"
    if not good:
        yield "L003", "", "there is no version folder"
    for path in good:
        if (path / CONFIG_FILE).exists():
            yield "L002", f"{path.name}/{CONFIG_FILE}", "config.pbtxt lies in a version folder"
        if backend in _WEIGHTS:
            yield from _version(path, *_WEIGHTS[backend])


def _version(version: Path, wanted: str, beside: str) -> Iterator[Problem]:
    names = sorted(p.name for p in version.iterdir() if p.name != CONFIG_FILE)
    loose = [n for n in names if n in ("saved_model.pb", "variables")]
    if loose and wanted == "model.savedmodel":
        yield "L007", f"{version.name}/{loose[0]}", "the SavedModel's files lie directly in the version folder"
        return
    if wanted not in names:
        yield "L005", f"{version.name}/{wanted}", f"it is missing; the folder holds {names or 'nothing'}"
    elif wanted == "model.savedmodel" and not (version / wanted / "saved_model.pb").is_file():
        yield "L007", f"{version.name}/{wanted}", "it holds no saved_model.pb"
    elif (version / wanted).is_file() and not (version / wanted).stat().st_size:
        yield "L005", f"{version.name}/{wanted}", "it is empty"
    for name in names:
        if name != wanted and not re.search(beside, name):
            yield "L006", f"{version.name}/{name}", "the backend does not load this file"
