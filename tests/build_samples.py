"""Tiny candidates, each model trained or written in its own framework, with golden rows recorded there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from release_tasks.context import StageContext
from release_tasks.sources import open_spec
from release_tasks.workspace import Workspace

ROWS = 12


def features(rows: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, width), dtype=np.float32)


def save_golden(root: Path, model: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    (root / "golden").mkdir(parents=True, exist_ok=True)
    arrays = {f"in:{k}": v for k, v in inputs.items()} | {f"out:{k}": v for k, v in outputs.items()}
    np.savez(root / "golden" / f"{model}.npz", **arrays)


def entry(name: str, framework: str, source: str, inputs: list[Any], outputs: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "framework": framework,
        "source": f"models/{name}/{source}",
        "golden": f"golden/{name}.npz",
        "inputs": inputs,
        "outputs": outputs,
        "sla_ms": 100,
        "max_batch_size": 8,
        "config": {"warm_up": {"batch_sizes": [1, 8]}},
        **more,
    }


def torch_model(root: Path, how: str = "script") -> dict[str, Any]:
    """A module with a data-dependent branch; `how` is script, trace, part_traced or training."""
    import torch

    class Branch(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 1)
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, x: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
            score = self.drop(self.linear(x))
            if bool((known > 0).all()):
                return score
            return torch.where(known > 0, score, -score)

    class Outer(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
            return self.inner(x, known) * 2

    torch.manual_seed(0)
    module = Branch().eval()
    x, known = torch.from_numpy(features(ROWS, 3)), torch.from_numpy(np.arange(ROWS)[:, None] % 3)
    folder = root / "models" / "branch"
    folder.mkdir(parents=True)
    if how == "training":
        made = torch.jit.script(Branch().train())
    elif how == "trace":
        made = torch.jit.trace(module, (x, torch.ones_like(known)))
    elif how == "part_traced":
        made = torch.jit.script(Outer(torch.jit.trace(module, (x, torch.ones_like(known)))).eval())
    else:
        made = torch.jit.script(module)
    made.save(str(folder / "model.pt"))
    with torch.inference_mode():
        save_golden(
            root, "branch", {"x__0": x.numpy(), "known__1": known.numpy()}, {"score__0": module(x, known).numpy()}
        )
    inputs = [{"name": "x__0", "shape": [3]}, {"name": "known__1", "shape": [1], "dtype": "INT64"}]
    return entry("branch", "pytorch", "model.pt", inputs, [{"name": "score__0", "shape": [1]}])


def lightgbm_model(root: Path, objective: str = "binary", shape: int = 1) -> dict[str, Any]:
    """A booster with some hundred splits and one categorical feature."""
    import lightgbm

    x = features(3000, 5).copy()
    x[:, 4] = np.random.default_rng(1).integers(0, 6, len(x))
    noise = np.random.default_rng(2).standard_normal(len(x))
    score = x[:, 0] + x[:, 1] * x[:, 2] + 0.1 * x[:, 4] + 0.1 * noise
    labels = {"binary": score > 1, "regression": score, "multiclass": np.digitize(score, [0.8, 1.2])}[objective]
    options = {"objective": objective, "verbose": -1, "num_threads": 1, "num_leaves": 15, "seed": 3}
    if objective == "multiclass":
        options["num_class"] = 3
    booster = lightgbm.train(options, lightgbm.Dataset(x, labels.astype(float), categorical_feature=[4]), 30)
    folder = root / "models" / "trees"
    folder.mkdir(parents=True)
    booster.save_model(folder / "model.txt")
    answer = np.asarray(booster.predict(x[:ROWS]))
    if shape == 2:
        answer = np.stack([1 - answer, answer], axis=1)
    save_golden(root, "trees", {"features": x[:ROWS]}, {"score": answer.reshape(ROWS, -1).astype(np.float32)})
    inputs, outputs = [{"name": "features", "shape": [5]}], [{"name": "score", "shape": [shape]}]
    return entry("trees", "lightgbm", "model.txt", inputs, outputs)


def onnx_model(root: Path, factor: float = 2.0) -> dict[str, Any]:
    """`score = factor * sum(x)`."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["x", "axes"], ["sum"], keepdims=1),
            helper.make_node("Mul", ["sum", "factor"], ["score"]),
        ],
        "plain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["rows", 1])],
        [
            numpy_helper.from_array(np.array([1], np.int64), "axes"),
            numpy_helper.from_array(np.array([factor], np.float32), "factor"),
        ],
    )
    folder = root / "models" / "plain"
    folder.mkdir(parents=True)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, str(folder / "model.onnx"))
    x = features(ROWS, 4)
    save_golden(root, "plain", {"x": x}, {"score": 2 * x.sum(axis=1, keepdims=True, dtype=np.float32)})
    return entry("plain", "onnx", "model.onnx", [{"name": "x", "shape": [4]}], [{"name": "score", "shape": [1]}])


def tensorflow_model(root: Path, keras_file: bool = False) -> dict[str, Any]:
    """A dense layer served by a signature of its own name, or the same layer as a .keras file."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(0)
    layers = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(4, activation="tanh")])
    x = features(ROWS, 6)
    folder = root / "models" / "tower"
    folder.mkdir(parents=True)
    if keras_file:
        layers.save(folder / "model.keras")
    else:

        @tf.function(input_signature=[tf.TensorSpec((None, 6), tf.float32, "profile")])
        def embed(profile: Any) -> Any:
            return {"embedding": layers(profile)}

        tf.saved_model.save(layers, str(folder / "saved"), signatures={"embed": embed})
    save_golden(root, "tower", {"profile": x}, {"embedding": layers(x).numpy()})
    source = "model.keras" if keras_file else "saved"
    inputs, outputs = [{"name": "profile", "shape": [6]}], [{"name": "embedding", "shape": [4]}]
    return entry("tower", "tensorflow", source, inputs, outputs, export={"signature": "embed"})


def write_candidate(root: Path, *models: dict[str, Any], **serving: Any) -> Path:
    """release.yaml and cases.json around the models; answers the spec's path."""
    spec = {
        "schema_version": 1,
        "name": "tiny",
        "models": list(models),
        "serving": {"triton_release": "24.12", **serving},
        "regression": {"approvers": ["alice"]},
    }
    (root / "release.yaml").write_text(yaml.safe_dump(spec))
    first = next((m for m in models if m["outputs"][0]["shape"] == [1]), None)
    if first:
        with np.load(root / first["golden"]) as golden:
            inputs = {t["name"]: golden[f"in:{t['name']}"][:3].tolist() for t in first["inputs"]}
        case = {"id": "one", "title": "One", "model": first["name"], "inputs": inputs, "relevant": [0]}
        case["output"] = first["outputs"][0]["name"]
        (root / "cases.json").write_text(json.dumps({"version": 1, "cases": [case]}))
    return root / "release.yaml"


def context_for(spec_path: Path, workspace: Path) -> StageContext:
    return StageContext(
        spec=open_spec(str(spec_path)), spec_uri=str(spec_path), workspace=Workspace(workspace), say=lambda text: None
    )


def change_golden(root: Path, model: str, key: str, change: Any) -> None:
    """Rewrite one golden array."""
    path = root / "golden" / f"{model}.npz"
    with np.load(path) as data:
        arrays = {name: data[name] for name in data.files}
    arrays[key] = change(arrays[key])
    np.savez(path, **arrays)
