"""Python-based backend `tensorflow`: one signature of a SavedModel on the CPU."""

from __future__ import annotations

import pathlib
import sys

import tensorflow as tf
import triton_python_backend_utils as pb

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from batching import BatchedModel


class TritonPythonModel(BatchedModel):
    """Inputs and outputs by the signature's names; the signature is the parameter TF_SIGNATURE_DEF."""

    default_file = "model.savedmodel"

    def load(self, path):
        """One thread: the server's instances share the machine."""
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        name = self.config.get("parameters", {}).get("TF_SIGNATURE_DEF", {}).get("string_value", "serving_default")
        self.model = tf.saved_model.load(str(path))  # keeps the variables alive
        if name not in self.model.signatures:
            raise pb.TritonModelException(f"there is no signature {name}, only {sorted(self.model.signatures)}")
        self.signature = self.model.signatures[name]
        found = set(self.signature.structured_input_signature[1])
        if set(self.inputs) != found:
            raise pb.TritonModelException(
                f"inputs in config.pbtxt {sorted(self.inputs)}, in the signature {sorted(found)}"
            )

    def compute(self, arrays):
        """Call the signature."""
        found = self.signature(**{name: tf.constant(array) for name, array in arrays.items()})
        return {name: found[name].numpy() for name in self.outputs}
