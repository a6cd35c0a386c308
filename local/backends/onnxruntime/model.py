"""Python-based backend `onnxruntime`: an ONNX model through ONNX Runtime on the CPU."""

from __future__ import annotations

import pathlib
import sys

import onnxruntime as ort
import triton_python_backend_utils as pb

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from batching import BatchedModel


class TritonPythonModel(BatchedModel):
    """Inputs and outputs by the graph's own names."""

    default_file = "model.onnx"

    def load(self, path):
        """One thread: the server's instances share the machine."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        _compare("inputs", self.inputs, [item.name for item in self.session.get_inputs()])
        missing = set(self.outputs) - {item.name for item in self.session.get_outputs()}
        if missing:
            raise pb.TritonModelException(f"the model has no outputs {sorted(missing)}")

    def compute(self, arrays):
        """Run the graph."""
        return dict(zip(self.outputs, self.session.run(self.outputs, arrays), strict=True))


def _compare(what, configured, found):
    if set(configured) != set(found):
        raise pb.TritonModelException(f"{what} in config.pbtxt {sorted(configured)}, in the model {sorted(found)}")
