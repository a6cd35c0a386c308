"""Run and read ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from release_tasks.errors import ExportError
from release_tasks.exporters.base import Runner, Tensors
from release_tasks.exporters.faults import framework
from release_tasks.spec.model import ModelSpec

_ORT_TYPES = {
    "tensor(bool)": "BOOL", "tensor(int8)": "INT8", "tensor(int16)": "INT16", "tensor(int32)": "INT32",
    "tensor(int64)": "INT64", "tensor(uint8)": "UINT8", "tensor(uint16)": "UINT16", "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64", "tensor(float16)": "FP16", "tensor(float)": "FP32", "tensor(double)": "FP64",
}  # fmt: skip


def load_onnx(model: ModelSpec, path: Path) -> Runner:
    """Run an ONNX file with onnxruntime on one CPU thread.

    Raises:
        ExportError: it does not load.
    """
    with framework("onnxruntime", model, "loading"):
        session = _session(path)
    names = [t.name for t in model.outputs]

    def run(inputs: Tensors) -> Tensors:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run


def check_interface(model: ModelSpec, path: Path) -> None:
    """Names and types of inputs and outputs are the spec's, and every output is a tensor.

    Raises:
        ExportError: something differs.
    """
    with framework("onnxruntime", model, "loading"):
        session = _session(path)
        have = {
            "inputs": {i.name: i.type for i in session.get_inputs()},
            "outputs": {o.name: o.type for o in session.get_outputs()},
        }
    for kind, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        wanted = {t.name: str(t.dtype) for t in tensors}
        found = {name: _ORT_TYPES.get(kind_, kind_) for name, kind_ in have[kind].items()}
        missing = {n: t for n, t in wanted.items() if found.get(n) != t}
        extra = set(found) - set(wanted) if kind == "inputs" else set()
        if missing or extra:
            raise ExportError(
                f"models.{model.name}.{kind}: the spec says {wanted}, the ONNX file has {found}",
                remedy=f"name and type the {kind} in the spec as the file has them",
            )


def _session(path: Path) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
