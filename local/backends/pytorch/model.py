"""Python-based backend `pytorch`: TorchScript on the CPU, with the LibTorch backend's positional names NAME__INDEX."""

from __future__ import annotations

import pathlib
import re
import sys

import torch
import triton_python_backend_utils as pb

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from batching import BatchedModel


class TritonPythonModel(BatchedModel):
    """Arguments of forward() by index; a single output or a tuple of them."""

    default_file = "model.pt"

    def load(self, path):
        """One thread: the server's instances share the machine."""
        torch.set_num_threads(1)
        self.arguments = sorted(self.inputs, key=_index)
        self.results = sorted(self.outputs, key=_index)
        self.module = torch.jit.load(str(path), map_location="cpu").eval()

    def compute(self, arrays):
        """Call forward()."""
        with torch.inference_mode():
            found = self.module(*[torch.tensor(arrays[name]) for name in self.arguments])
        tensors = found if isinstance(found, (tuple, list)) else (found,)
        if len(tensors) < len(self.results):
            raise pb.TritonModelException(
                f"forward() gave {len(tensors)} outputs, config.pbtxt names {len(self.results)}"
            )
        # strict is off on purpose: a model may give more outputs than the configuration names.
        return {name: tensor.numpy() for name, tensor in zip(self.results, tensors, strict=False)}


def _index(name):
    found = re.fullmatch(r".+__(\d+)", name)
    if not found:
        raise pb.TritonModelException(f"the name {name} does not end in __<index>, as the LibTorch backend requires")
    return int(found.group(1))
