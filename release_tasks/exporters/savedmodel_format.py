"""Read the signatures of a SavedModel without importing TensorFlow.

Declares only the fields that are read, with the numbers of TensorFlow's own saved_model.proto, meta_graph.proto and
tensor_shape.proto; protobuf skips the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "release_gate.savedmodel"
_INT32, _INT64, _STRING, _MESSAGE = 5, 3, 9, 11
# Message: field name, number, type, repeated, message type. Map entries are repeated messages of key and value.
_MESSAGES: dict[str, list[tuple[str, int, int, bool, str]]] = {
    "SavedModel": [("meta_graphs", 2, _MESSAGE, True, "MetaGraph")],
    "MetaGraph": [("meta_info", 1, _MESSAGE, False, "MetaInfo"), ("signatures", 5, _MESSAGE, True, "SignatureEntry")],
    "MetaInfo": [("tags", 4, _STRING, True, ""), ("tensorflow_version", 5, _STRING, False, "")],
    "SignatureEntry": [("key", 1, _STRING, False, ""), ("value", 2, _MESSAGE, False, "Signature")],
    "Signature": [("inputs", 1, _MESSAGE, True, "TensorEntry"), ("outputs", 2, _MESSAGE, True, "TensorEntry")],
    "TensorEntry": [("key", 1, _STRING, False, ""), ("value", 2, _MESSAGE, False, "TensorInfo")],
    "TensorInfo": [("dtype", 2, _INT32, False, ""), ("shape", 3, _MESSAGE, False, "Shape")],
    "Shape": [("dims", 2, _MESSAGE, True, "Dim")],
    "Dim": [("size", 1, _INT64, False, "")],
}
# tensorflow/core/framework/types.proto
_TYPES = {
    1: "FP32", 2: "FP64", 3: "INT32", 4: "UINT8", 5: "INT16", 6: "INT8", 9: "INT64", 10: "BOOL", 17: "UINT16",
    19: "FP16", 22: "UINT32", 23: "UINT64",
}  # fmt: skip


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a signature: name to type and shape, the batch dimension included."""

    inputs: dict[str, tuple[str, tuple[int, ...]]]
    outputs: dict[str, tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class SavedModelHead:
    """What is read of a SavedModel."""

    tensorflow_version: str
    signatures: dict[str, Signature]


def read_saved_model(path: Path) -> SavedModelHead | None:
    """Read a saved_model.pb; None where the bytes are no such message or hold no graph tagged `serve`."""
    from google.protobuf.message import DecodeError

    message = _message_class()()
    try:
        message.ParseFromString(path.read_bytes())
    except DecodeError:
        return None
    for graph in message.meta_graphs:
        if "serve" in graph.meta_info.tags:
            found = {entry.key: _signature(entry.value) for entry in graph.signatures}
            return SavedModelHead(graph.meta_info.tensorflow_version, found)
    return None


def _signature(message: Any) -> Signature:
    def tensors(entries: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {
            entry.key: (_TYPES.get(entry.value.dtype, "other"), tuple(d.size for d in entry.value.shape.dims))
            for entry in entries
        }

    return Signature(tensors(message.inputs), tensors(message.outputs))


@cache
def _message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="release_gate_savedmodel.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated, of in fields:
            added = message.field.add(name=field, number=number, type=kind, label=3 if repeated else 1)
            if of:
                added.type_name = f".{_PACKAGE}.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.SavedModel"))
