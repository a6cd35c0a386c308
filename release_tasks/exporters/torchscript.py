"""PyTorch: a scripted TorchScript archive, checked and taken over as it is.

Loaded with ``torch.jit.load`` only: the archive's own format holds code and tensors, and nothing of it is unpickled by
Python.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

from release_tasks.errors import ExportError
from release_tasks.exporters.base import FILE_NAMES, ExportedModel, Runner, Tensors
from release_tasks.exporters.faults import framework, head, wrong_source
from release_tasks.spec.model import Backend, ModelSpec

# In a printed graph: `%5 : Tensor = aten::gt(%4) # model.py:6:17` - file, line and column the operation came from.
_OPERATION = re.compile(r"= aten::\w+.*# (?P<file>.*):(?P<line>\d+):(?P<column>\d+)$", re.MULTILINE)


class TorchScriptExporter:
    """A scripted module stays byte for byte what it was."""

    version = "1"

    def looks_right(self, model: ModelSpec, source: Path) -> str:
        """A zip archive with code and constants of its own."""
        if not source.is_file():
            raise wrong_source(model, "a TorchScript module is one file")
        if head(source, 4) != b"PK\x03\x04":
            raise wrong_source(model, "it is no TorchScript archive: it does not start like a zip file")
        try:
            with zipfile.ZipFile(source) as archive:
                names = {name.partition("/")[2] for name in archive.namelist()}
                damaged = archive.testzip()
        except zipfile.BadZipFile as error:
            raise wrong_source(model, f"the archive is truncated or damaged ({error})") from error
        if damaged:
            raise wrong_source(model, f"the archive is damaged: {damaged} fails its CRC")
        if not {"constants.pkl", "data.pkl"} <= names or not any(n.startswith("code/") for n in names):
            raise wrong_source(
                model, "the archive holds no TorchScript code", "save it with torch.jit.script(module).save(path)"
            )
        return f"TorchScript archive, {source.stat().st_size} bytes"

    def export(self, model: ModelSpec, source: Path, target: Path) -> ExportedModel:
        """Refuse training mode and tracing, then copy the file."""
        with framework("torch", model, "loading"):
            import torch

            module = _load(source)
            versions = {"torch": torch.__version__}
            training = [name or "(module)" for name, part in module.named_modules() if getattr(part, "training", False)]
            inputs = _input_count(module)
        if training:
            raise ExportError(
                f"models.{model.name} is in training mode ({', '.join(training[:3])}): dropout and batch "
                "normalisation would act on live requests",
                remedy="call module.eval() before torch.jit.script(module).save(path)",
            )
        if inputs != len(model.inputs):
            raise ExportError(
                f"models.{model.name}.inputs: the spec has {len(model.inputs)}, forward() takes {inputs} tensors",
                remedy="list every argument of forward() in order as <name>__<index>",
            )
        traced = why_traced(source, module)
        if traced and not model.export.allow_traced:
            raise ExportError(
                f"models.{model.name} was traced ({traced}): data-dependent branches are frozen to what the example "
                "input took",
                remedy="use torch.jit.script(module), or set export.allow_traced if the module has no branch",
            )
        copied = target / FILE_NAMES[Backend.pytorch]
        shutil.copyfile(source, copied)
        return ExportedModel(copied.name, versions, notes=(f"traced: {traced}",) if traced else ())

    def load_source(self, model: ModelSpec, source: Path) -> Runner:
        """The source module."""
        return _runner(model, source)

    def load_exported(self, model: ModelSpec, exported: Path) -> Runner:
        """The copy, loaded on its own."""
        return _runner(model, exported)

    def probes(self, model: ModelSpec, source: Path, rows: Tensors) -> Tensors:
        """All zeros, and each input zeroed in turn: what a guard for missing history or values looks at."""
        import numpy as np

        made: list[Tensors] = [{name: np.zeros_like(array[:1]) for name, array in rows.items()}]
        made += [{n: np.zeros_like(a[:2]) if n == zeroed else a[:2] for n, a in rows.items()} for zeroed in rows]
        return {name: np.concatenate([part[name] for part in made]) for name in rows}


def why_traced(source: Path, module: Any) -> str:
    """Why the module, or a part of it, is taken to be traced; empty when it was scripted.

    A traced operation remembers the line it was called from, at column 0; a scripted one lies inside a function and so
    never at column 0. Without any such note the answer is not known, which counts as traced.
    """
    with zipfile.ZipFile(source) as archive:
        if any(name.endswith("/traced_inputs.pkl") for name in archive.namelist()):
            return "the archive keeps the example inputs of a trace"
    graph = str(module.inlined_graph)
    places = [m for m in _OPERATION.finditer(graph) if m["file"]]
    if not places and "aten::" in graph:
        return "the archive does not say where its operations come from, so scripting cannot be told from tracing"
    for place in places:
        if place["column"] == "0":
            return f"an operation recorded at {Path(place['file']).name}:{place['line']}"
    return ""


def _input_count(module: Any) -> int:
    return len(module.forward.schema.arguments) - 1


def _load(path: Path) -> Any:
    import torch

    torch.set_num_threads(1)
    return torch.jit.load(str(path), map_location="cpu")


def _runner(model: ModelSpec, path: Path) -> Runner:
    with framework("torch", model, "loading"):
        import torch

        module = _load(path)

    def run(inputs: Tensors) -> Tensors:
        with framework("torch", model, "running"), torch.inference_mode():
            answer = module(*[torch.from_numpy(inputs[t.name]) for t in model.inputs])
        answers = answer if isinstance(answer, (tuple, list)) else (answer,)
        if len(answers) != len(model.outputs):
            raise ExportError(
                f"models.{model.name}.outputs: the spec has {len(model.outputs)}, forward() gives {len(answers)}",
                remedy="list every output of forward() in order as <name>__<index>",
            )
        return {t.name: value.numpy() for t, value in zip(model.outputs, answers, strict=True)}

    return run
