"""Triton over HTTP and gRPC, through the official client, with errors that name the server and the model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from release_tasks.errors import ServingError
from release_tasks.settings import Endpoints

Protocol = Literal["http", "grpc"]
PROTOCOLS: tuple[Protocol, ...] = ("http", "grpc")
Tensors = dict[str, NDArray[Any]]
CONNECT_S = 5.0
ANSWER_S = 30.0
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class MetricSample:
    """One line of a server's metrics page."""

    name: str
    labels: dict[str, str]
    value: float


class TritonServer:
    """One server: a slot, or the users' entrance in front of the slots."""

    def __init__(self, endpoints: Endpoints) -> None:
        self.endpoints = endpoints

    def live(self) -> bool:
        """Whether the server process answers; a server that is down is False."""
        return self._asks(lambda: self._http.is_server_live())

    def ready(self) -> bool:
        """Whether every model is ready; a server that is down is False."""
        return self._asks(lambda: self._http.is_server_ready())

    def model_ready(self, model: str) -> bool:
        """Whether that model is ready. A dead backend process may still report ready: a gate must infer."""
        return self._asks(lambda: self._http.is_model_ready(model))

    def model_metadata(self, model: str) -> dict[str, Any]:
        """Names, datatypes and shapes (batch dimension included, -1) as the server states them."""
        with self._errors("metadata", model):
            found: dict[str, Any] = self._http.get_model_metadata(model)
        return found

    def model_config(self, model: str) -> dict[str, Any]:
        """The configuration in force, as JSON."""
        with self._errors("config", model):
            found: dict[str, Any] = self._http.get_model_config(model)
        return found

    def server_release(self, model: str) -> str:
        """The release id that the served configuration carries; empty where it carries none."""
        return release_of(self.model_config(model))

    def infer(
        self,
        model: str,
        inputs: Mapping[str, NDArray[Any]],
        outputs: tuple[str, ...],
        protocol: Protocol = "http",
        headers: dict[str, str] | None = None,
    ) -> Tensors:
        """One request with the binary protocol, which keeps NaN and Inf as they are.

        Args:
            inputs: arrays with the batch dimension first.
            outputs: names to ask for; empty asks for all that the model has.

        Raises:
            ServingError: no answer, an error answer, or an output missing from the answer.
        """
        module = _module(protocol)
        sent = []
        for name, array in inputs.items():
            tensor = module.InferInput(name, list(array.shape), _datatype(array))
            tensor.set_data_from_numpy(np.ascontiguousarray(array))
            sent.append(tensor)
        wanted = [module.InferRequestedOutput(name) for name in outputs] or None
        client = self._http if protocol == "http" else self._grpc
        limit = {"client_timeout": ANSWER_S} if protocol == "grpc" else {}
        with self._errors(f"inference over {protocol}", model):
            answer = client.infer(model, sent, outputs=wanted, headers=headers, **limit)
        names = outputs or tuple(o["name"] for o in self.model_metadata(model)["outputs"])
        return {name: self._output(answer, model, name) for name in names}

    def metrics(self) -> list[MetricSample]:
        """The server's metrics page, parsed.

        Raises:
            ServingError: it does not answer.
        """
        import requests

        try:
            answer = requests.get(self.endpoints.metrics, timeout=CONNECT_S)
            answer.raise_for_status()
        except requests.RequestException as error:
            raise ServingError(
                f"the metrics of tritonserver at {self.endpoints.metrics} do not answer: {error}",
                remedy="check that the server runs",
            ) from error
        return list(parse_metrics(answer.text))

    @cached_property
    def _http(self) -> Any:
        module = _module("http")
        address = self.endpoints.http.partition("://")[2].rstrip("/")
        return module.InferenceServerClient(address, connection_timeout=CONNECT_S, network_timeout=ANSWER_S)

    @cached_property
    def _grpc(self) -> Any:
        return _module("grpc").InferenceServerClient(self.endpoints.grpc)

    def _output(self, answer: Any, model: str, name: str) -> NDArray[Any]:
        array: NDArray[Any] | None = answer.as_numpy(name)
        if array is None:
            raise ServingError(
                f"{model} on tritonserver at {self.endpoints.http} answered without the output {name}",
                remedy="compare the spec's outputs with the model's",
            )
        return array

    def _asks(self, question: Any) -> bool:
        try:
            return bool(question())
        except Exception as error:  # the client raises gevent, socket and its own errors alike
            if isinstance(error, AssertionError | TypeError):
                raise
            return False

    @contextmanager
    def _errors(self, what: str, model: str) -> Iterator[None]:
        from tritonclient.utils import InferenceServerException

        try:
            yield
        except (InferenceServerException, OSError) as error:
            raise ServingError(
                f"tritonserver at {self.endpoints.http} (gRPC {self.endpoints.grpc}): {what} of {model} failed: "
                f"{str(error)[:500]}",
                remedy="look at the server's log; check that the model is loaded",
            ) from error


def release_of(config: dict[str, Any]) -> str:
    """The release id in a served model configuration (its JSON form); empty where it carries none."""
    return str(config.get("parameters", {}).get("release_id", {}).get("string_value", ""))


def parse_metrics(text: str) -> Iterator[MetricSample]:
    """Samples of a Prometheus text page; comments are passed over."""
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if found:
            labels = dict(_LABEL.findall(found["labels"] or ""))
            yield MetricSample(found["name"], labels, _number(found["value"]))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _datatype(array: NDArray[Any]) -> str:
    from tritonclient.utils import np_to_triton_dtype

    return str(np_to_triton_dtype(array.dtype))


def _module(protocol: Protocol) -> Any:
    if protocol == "http":
        import tritonclient.http as module
    else:
        import tritonclient.grpc as module
    return module
