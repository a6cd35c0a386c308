"""ONNX: checked and taken over as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

from release_tasks.exporters.base import FILE_NAMES, ExportedModel, Runner, Tensors
from release_tasks.exporters.faults import framework, wrong_source
from release_tasks.exporters.ort import check_interface, load_onnx
from release_tasks.spec.model import Backend, ModelSpec

# Field numbers of onnx.ModelProto: 1 ir_version … 8 opset_import, 14 metadata, 20 training_info, 25 functions.
_KNOWN_FIELDS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26})


class OnnxExporter:
    """An ONNX file stays byte for byte what it was."""

    version = "1"

    def looks_right(self, model: ModelSpec, source: Path) -> str:
        """Walk the protobuf's top-level fields: cheap, and finds truncation."""
        if not source.is_file():
            raise wrong_source(model, "an ONNX model is one file")
        fields = _top_level_fields(source)
        if fields is None or 7 not in fields or not fields <= _KNOWN_FIELDS:
            raise wrong_source(model, "the bytes are no complete ONNX protobuf with a graph")
        return f"ONNX file, {source.stat().st_size} bytes"

    def export(self, model: ModelSpec, source: Path, target: Path) -> ExportedModel:
        """Check the graph and copy the file."""
        copied = target / FILE_NAMES[Backend.onnxruntime]
        with framework("onnx", model, "checking"):
            import onnx
            import onnxruntime

            onnx.checker.check_model(str(source))
            versions = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
        check_interface(model, source)
        shutil.copyfile(source, copied)
        return ExportedModel(copied.name, versions)

    def load_source(self, model: ModelSpec, source: Path) -> Runner:
        """The source, run by onnxruntime."""
        return load_onnx(model, source)

    def load_exported(self, model: ModelSpec, exported: Path) -> Runner:
        """The copy, run by onnxruntime."""
        return load_onnx(model, exported)

    def probes(self, model: ModelSpec, source: Path, rows: Tensors) -> Tensors:
        """None: both sides run the same bytes."""
        return {name: array[:0] for name, array in rows.items()}


def _top_level_fields(path: Path) -> set[int] | None:
    """Field numbers of a protobuf message, skipping what they hold; None where the bytes do not add up."""
    size, seen = path.stat().st_size, set()
    with path.open("rb") as file:
        while (place := file.tell()) < size:
            tag = _varint(file.read(10))
            if tag is None:
                return None
            number, wire = tag[0] >> 3, tag[0] & 7
            file.seek(place + tag[1])
            length = {1: 8, 5: 4}.get(wire)
            if wire in (0, 2):
                start = file.tell()
                value = _varint(file.read(10))
                if value is None:
                    return None
                file.seek(start + value[1])
                length = value[0] if wire == 2 else 0
            if length is None or file.tell() + length > size:
                return None
            file.seek(length, 1)
            seen.add(number)
    return seen


def _varint(data: bytes) -> tuple[int, int] | None:
    """Value and length of the varint at the start of the bytes."""
    value = 0
    for index, byte in enumerate(data):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, index + 1
    return None
