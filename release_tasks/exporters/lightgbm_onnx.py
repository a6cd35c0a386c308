"""LightGBM → ONNX with plain tensors, so that a float32 row takes the same branches as in LightGBM."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from release_tasks.errors import ExportError
from release_tasks.exporters.base import FILE_NAMES, ExportedModel, Runner, Tensors
from release_tasks.exporters.faults import framework, head, wrong_source
from release_tasks.exporters.lightgbm_trees import round_down, split_points, with_float32_thresholds
from release_tasks.exporters.ort import check_interface, load_onnx
from release_tasks.spec.model import Backend, ModelSpec
from release_tasks.spec.tensors import Datatype

# Probe rows per model: enough for every split of some 600 leaves; more are thinned out evenly.
MAX_PROBES = 3000
_OPSET = 15  # the highest that onnxmltools 1.16 writes


class LightGBMExporter:
    """A booster's text file becomes one ONNX file with one input and one output, both float32.

    The output is a regressor's or ranker's score; of a binary classifier the probability of class 1, or of both
    classes where the spec's shape is [2]; else one probability per class.
    """

    version = "1"

    def looks_right(self, model: ModelSpec, source: Path) -> str:
        """LightGBM's text header and its end marker."""
        if not source.is_file():
            raise wrong_source(model, "a LightGBM model is one text file")
        if not re.match(rb"tree\r?\nversion=v\d", head(source, 64)):
            raise wrong_source(model, "it is no LightGBM text model", "write it with Booster.save_model(path)")
        text = source.read_bytes()
        if b"\nend of trees" not in text:
            raise wrong_source(model, "the text is truncated: its `end of trees` line is missing")
        return f"LightGBM text model, {text.count(b'Tree=')} trees"

    def export(self, model: ModelSpec, source: Path, target: Path) -> ExportedModel:
        """Round the thresholds down, convert, and shape the output as the spec says."""
        _check_interface(model)
        path = target / FILE_NAMES[Backend.onnxruntime]
        with framework("lightgbm and onnxmltools", model, "converting"):
            import lightgbm
            import onnx
            import onnxmltools

            text, rounded = with_float32_thresholds(source.read_text(encoding="utf-8"))
            booster = lightgbm.Booster(model_str=text)
            converted = _convert(booster, model)
            path.write_bytes(_with_spec_output(converted, model).SerializeToString(deterministic=True))
            onnx.checker.check_model(str(path))
            versions = {
                "lightgbm": lightgbm.__version__,
                "onnxmltools": onnxmltools.__version__,
                "onnx": onnx.__version__,
            }
        check_interface(model, path)
        return ExportedModel(path.name, versions, notes=(f"{rounded} thresholds rounded down to float32",))

    def load_source(self, model: ModelSpec, source: Path) -> Runner:
        """The booster, run by LightGBM on one thread."""
        with framework("lightgbm", model, "loading"):
            import lightgbm

            booster = lightgbm.Booster(model_file=str(source))
        (entry,), (output,) = model.inputs, model.outputs

        def run(inputs: Tensors) -> Tensors:
            with framework("lightgbm", model, "running"):
                answer = np.asarray(booster.predict(inputs[entry.name], num_threads=1))
            if answer.ndim == 1 and output.shape == (2,):
                answer = np.stack([1 - answer, answer], axis=1)
            return {output.name: np.asarray(answer, np.float32).reshape(-1, *output.shape)}

        return run

    def load_exported(self, model: ModelSpec, exported: Path) -> Runner:
        """The ONNX file, run by onnxruntime."""
        return load_onnx(model, exported)

    def probes(self, model: ModelSpec, source: Path, rows: Tensors) -> Tensors:
        """Rows at split thresholds, -1, 0 and +1 float32 steps away; the other features come from golden rows."""
        (entry,) = model.inputs
        points = split_points(source.read_text(encoding="utf-8"))
        step = max(1, -(-3 * len(points) // MAX_PROBES))
        points = points[::step]
        golden = rows[entry.name]
        made = golden[np.arange(3 * len(points)) % len(golden)].copy()
        features = np.repeat([f for f, _ in points], 3).astype(int)
        base = round_down(np.array([t for _, t in points], np.float64))
        near = np.stack([np.nextafter(base, np.float32(-np.inf)), base, np.nextafter(base, np.float32(np.inf))], axis=1)
        made[np.arange(len(made)), features] = near.reshape(-1)
        return {entry.name: made}


def _check_interface(model: ModelSpec) -> None:
    for kind, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        if len(tensors) != 1 or tensors[0].dtype is not Datatype.FP32 or len(tensors[0].shape) != 1:
            raise ExportError(
                f"models.{model.name}.{kind}: a LightGBM model has exactly one of them, FP32, of shape [size]; got "
                f"{[(t.name, str(t.dtype), t.shape) for t in tensors]}",
                remedy="use one input with all features and one output with the score, or one probability per class",
            )


def _convert(booster: Any, model: ModelSpec) -> Any:
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType

    (entry,) = model.inputs
    if booster.num_feature() != entry.shape[0]:
        raise ExportError(
            f"models.{model.name}.inputs.{entry.name}.shape: the spec says {list(entry.shape)}, the booster has "
            f"{booster.num_feature()} features",
            remedy="mend the shape in the spec",
        )
    wanted = [(entry.name, FloatTensorType([None, entry.shape[0]]))]
    return convert_lightgbm(booster, name=model.name, initial_types=wanted, zipmap=False, target_opset=_OPSET)


def _with_spec_output(converted: Any, model: ModelSpec) -> Any:
    """Replace the converter's outputs by the one of the spec, of shape (rows, size)."""
    from onnx import TensorProto, helper

    (output,) = model.outputs
    graph = converted.graph
    scores = graph.output[-1].name  # a classifier's outputs are label and probabilities; all others have one
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    if output.name in taken:
        _rename(graph, output.name, f"{output.name}_inner")
        scores = f"{output.name}_inner" if scores == output.name else scores
    if len(graph.output) == 2 and output.shape == (1,):
        graph.initializer.append(helper.make_tensor("positive_class", TensorProto.INT64, [1], [1]))
        graph.node.append(helper.make_node("Gather", [scores, "positive_class"], [output.name], axis=1))
    else:
        graph.initializer.append(helper.make_tensor("row_shape", TensorProto.INT64, [2], [-1, output.shape[0]]))
        graph.node.append(helper.make_node("Reshape", [scores, "row_shape"], [output.name]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(output.name, TensorProto.FLOAT, [None, output.shape[0]]))
    return converted


def _rename(graph: Any, old: str, new: str) -> None:
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]
