"""Shared by the Python-based backends: one model call per batch of requests, one response per request.

tritonserver hands over all requests that its dynamic batcher put together; batching pays only when they are
concatenated into one call of the model.
"""

from __future__ import annotations

import ctypes
import json
import pathlib

import numpy as np
import triton_python_backend_utils as pb

_set_destructor = ctypes.pythonapi.PyCapsule_SetDestructor
_set_destructor.argtypes = [ctypes.py_object, ctypes.c_void_p]


class _Export:
    """An array as from_dlpack wants it.

    tritonserver marks a consumed capsule with another name than numpy expects, so that numpy's capsule destructor would
    print a traceback for every response. The consumer owns the memory by then: the destructor has nothing to do.
    """

    def __init__(self, array):
        self._array = np.require(array, requirements=["C", "W"])

    def __dlpack__(self, *_, **__):
        capsule = self._array.__dlpack__()
        _set_destructor(capsule, None)
        return capsule

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class BatchedModel:
    """Base of the backends. A subclass loads the model in ``load`` and computes in ``compute``."""

    default_file = ""

    @staticmethod
    def auto_complete_config(config):
        """The configuration is complete as it is: the release's linter saw to that."""
        return config

    def initialize(self, args):
        """Load the model file of this version; an exception here makes the model fail to load, with its text."""
        self.config = json.loads(args["model_config"])
        self.inputs = [item["name"] for item in self.config["input"]]
        self.outputs = [item["name"] for item in self.config["output"]]
        self.batched = int(self.config.get("max_batch_size", 0)) > 0
        name = self.config.get("default_model_filename") or self.default_file
        path = pathlib.Path(args["model_repository"]) / args["model_version"] / name
        if not path.exists():
            raise pb.TritonModelException(f"there is no {name} in version {args['model_version']}")
        self.load(path)

    def load(self, path):
        """Load the model."""
        raise NotImplementedError

    def compute(self, arrays):
        """Arrays by input name, rows first, to arrays by output name."""
        raise NotImplementedError

    def execute(self, requests):
        """One response per request, in order."""
        rows = [self._arrays(request) for request in requests]
        if self.batched and len(rows) > 1 and _same_shapes(rows):
            try:
                return self._together(rows)
            except Exception:
                # One bad request must not fail those that happened to share its batch: find it by running each alone.
                pass
        return [self._alone(row) for row in rows]

    def _arrays(self, request):
        # from_dlpack: under numpy 2 as_numpy() gives arrays with strides of zero, that is the first value everywhere.
        return {name: np.from_dlpack(pb.get_input_tensor_by_name(request, name)) for name in self.inputs}

    def _together(self, rows):
        joined = {name: np.concatenate([row[name] for row in rows]) for name in self.inputs}
        computed = self.compute(joined)
        responses, start = [], 0
        for row in rows:
            stop = start + len(row[self.inputs[0]])
            responses.append(self._response({name: computed[name][start:stop] for name in self.outputs}))
            start = stop
        return responses

    def _alone(self, row):
        try:
            return self._response(self.compute(row))
        except Exception as error:
            # An error response reaches exactly this client, as HTTP 500 or gRPC INTERNAL. Raising would fail the whole
            # batch. The server's own failure counter does not see it: the traffic layer's counters do.
            return pb.InferenceResponse(error=pb.TritonError(f"{type(error).__name__}: {error}"))

    def _response(self, arrays):
        # from_dlpack: under numpy 2 the constructor of Tensor miscounts the bytes of an array.
        tensors = [pb.Tensor.from_dlpack(name, _Export(arrays[name])) for name in self.outputs]
        return pb.InferenceResponse(output_tensors=tensors)


def _same_shapes(rows):
    """Whether the requests agree in everything but the number of rows."""
    return len({tuple((name, array.shape[1:]) for name, array in row.items()) for row in rows}) == 1
