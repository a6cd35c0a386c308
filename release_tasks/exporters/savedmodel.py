"""TensorFlow: a SavedModel folder as it is, or a .keras file exported to one; signature and output names kept."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from release_tasks.errors import ExportError
from release_tasks.exporters.base import FILE_NAMES, ExportedModel, Runner, Tensors
from release_tasks.exporters.faults import framework, head, wrong_source
from release_tasks.exporters.savedmodel_format import SavedModelHead, read_saved_model
from release_tasks.spec.model import Backend, ModelSpec

_SAVED_MODEL = "saved_model.pb"
_INDEX = Path("variables/variables.index")


class SavedModelExporter:
    """A SavedModel stays byte for byte what it was; a .keras file becomes one."""

    version = "1"

    def looks_right(self, model: ModelSpec, source: Path) -> str:
        """A folder with saved_model.pb and complete variables, or a .keras archive."""
        if source.is_file():
            if source.suffix != ".keras" or head(source, 4) != b"PK\x03\x04":
                raise wrong_source(model, "it is neither a SavedModel folder nor a .keras archive")
            return f"Keras archive, {source.stat().st_size} bytes"
        found = _head(model, source)
        if not (source / _INDEX).is_file() or not list(source.glob("variables/variables.data-*-of-*")):
            raise wrong_source(model, "the SavedModel's `variables` folder is missing or incomplete")
        return f"SavedModel of TensorFlow {found.tensorflow_version}"

    def export(self, model: ModelSpec, source: Path, target: Path) -> ExportedModel:
        """Copy the folder, or let Keras write one; then check the signature's names, types and shapes."""
        folder = target / FILE_NAMES[Backend.tensorflow]
        versions = {}
        if source.is_file():
            versions = _export_keras(model, source, folder)
        else:
            shutil.copytree(source, folder)
        found = _head(model, folder)
        check_signature(model, found)
        return ExportedModel(folder.name, {"tensorflow": found.tensorflow_version} | versions)

    def load_source(self, model: ModelSpec, source: Path) -> Runner:
        """The source, run by TensorFlow."""
        if source.is_file():
            return _keras_runner(model, source)
        return _runner(model, source)

    def load_exported(self, model: ModelSpec, exported: Path) -> Runner:
        """The exported signature, run by TensorFlow."""
        return _runner(model, exported)

    def probes(self, model: ModelSpec, source: Path, rows: Tensors) -> Tensors:
        """None: generated rows cover what a graph does."""
        return {name: array[:0] for name, array in rows.items()}


def check_signature(model: ModelSpec, found: SavedModelHead) -> None:
    """The served signature has the spec's names, types and row shapes.

    Raises:
        ExportError: no such signature, or something differs.
    """
    wanted = model.export.signature
    if wanted not in found.signatures:
        raise ExportError(
            f"models.{model.name}.export.signature: the SavedModel has no signature {wanted!r}",
            remedy=f"one of {sorted(s for s in found.signatures if not s.startswith('__'))}",
        )
    signature = found.signatures[wanted]
    for kind, tensors, have in (
        ("inputs", model.inputs, signature.inputs),
        ("outputs", model.outputs, signature.outputs),
    ):
        spec = {t.name: (str(t.dtype), (-1, *t.shape)) for t in tensors}
        wrong = {n for n in spec if n not in have or have[n][0] != spec[n][0] or not _fits(have[n][1], spec[n][1])}
        if wrong or (kind == "inputs" and set(have) != set(spec)):
            raise ExportError(
                f"models.{model.name}.{kind}: the spec says {spec}, signature {wanted!r} has {have}",
                remedy=f"name, type and shape the {kind} in the spec as the signature has them",
            )


def _fits(have: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Equal, where -1 in the model's shape accepts anything. A fixed batch dimension does not fit."""
    return len(have) == len(wanted) and all(h in (-1, w) for h, w in zip(have, wanted, strict=True))


def _head(model: ModelSpec, folder: Path) -> SavedModelHead:
    if not (folder / _SAVED_MODEL).is_file():
        raise wrong_source(model, f"the folder holds no {_SAVED_MODEL}, so it is no SavedModel")
    found = read_saved_model(folder / _SAVED_MODEL)
    if found is None:
        raise wrong_source(model, f"{_SAVED_MODEL} is truncated, or holds no graph tagged `serve`")
    return found


def _tensorflow() -> Any:
    # Read at import: TensorFlow would otherwise print its start-up notes and change results by oneDNN's reordering.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    import tensorflow

    return tensorflow


def _runner(model: ModelSpec, folder: Path) -> Runner:
    with framework("tensorflow", model, "loading"):
        tf = _tensorflow()
        loaded = tf.saved_model.load(str(folder))
        function = loaded.signatures[model.export.signature]

    def run(inputs: Tensors) -> Tensors:
        with framework("tensorflow", model, "running"):
            answer = function(**{name: tf.constant(array) for name, array in inputs.items()})
            return {t.name: answer[t.name].numpy() for t in model.outputs}

    run.keep = loaded  # type: ignore[attr-defined]  # the function holds its variables by weak reference only
    return run


def _load_keras(source: Path) -> Any:
    _tensorflow()
    from tensorflow import keras

    return keras.models.load_model(source, compile=False, safe_mode=True)


def _export_keras(model: ModelSpec, source: Path, folder: Path) -> dict[str, str]:
    with framework("keras", model, "exporting"):
        tf = _tensorflow()
        from tensorflow import keras

        loaded = _load_keras(source)
        signature = [
            tf.TensorSpec((None, *(None if s < 0 else s for s in t.shape)), t.dtype.numpy, t.name) for t in model.inputs
        ]

        @tf.function(input_signature=signature)  # type: ignore[untyped-decorator]
        def serve(*tensors: Any) -> Any:
            named = dict(zip([t.name for t in model.inputs], tensors, strict=True))
            return _named_outputs(model, loaded(_keras_inputs(loaded, named), training=False))

        tf.saved_model.save(loaded, str(folder), signatures={model.export.signature: serve})
        return {"tensorflow": tf.__version__, "keras": keras.__version__}


def _keras_runner(model: ModelSpec, source: Path) -> Runner:
    with framework("keras", model, "loading"):
        loaded = _load_keras(source)

    def run(inputs: Tensors) -> Tensors:
        with framework("keras", model, "running"):
            answer = _named_outputs(model, loaded(_keras_inputs(loaded, inputs), training=False))
            return {name: value.numpy() for name, value in answer.items()}

    return run


def _keras_inputs(loaded: Any, named: dict[str, Any]) -> Any:
    """The inputs as the Keras model takes them: one tensor, or by the names of its input layers."""
    if len(named) == 1:
        return next(iter(named.values()))
    return {tensor.name: named[tensor.name] for tensor in loaded.inputs}


def _named_outputs(model: ModelSpec, answer: Any) -> dict[str, Any]:
    """Outputs by the spec's names; a list is taken in the spec's order."""
    if isinstance(answer, dict):
        return {t.name: answer[t.name] for t in model.outputs}
    answers = answer if isinstance(answer, (list, tuple)) else [answer]
    return {t.name: value for t, value in zip(model.outputs, answers, strict=True)}
