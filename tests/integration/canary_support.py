"""Given, when and then of promotions on the real stack: a spec, signed releases, users, and their failed requests."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlparse

import numpy as np
import yaml

from release_tasks.artifacts import Approval
from release_tasks.clients.storage import open_store
from release_tasks.context import StageContext
from release_tasks.ledger import Place, digest_of
from release_tasks.platforms import state as serving
from release_tasks.platforms.base import Platform
from release_tasks.platforms.state import Fence, LiveModel, LiveRelease
from release_tasks.settings import Settings
from release_tasks.signing import read_key, sign
from release_tasks.spec import ReleaseSpec, parse_spec
from release_tasks.workspace import Workspace
from tests.integration.conftest import upload_release, write_repository

MODEL = "tiny"
RAISES_AT = 5.0  # the value that a failing candidate cannot answer
BAD_SHARE = 5  # one request in so many carries it


def spec_text(**canary: Any) -> str:
    """release.yaml of the tiny service, with a policy for short tests."""
    policy = {
        "weights": [10, 50, 100],
        "min_bake_s": 1,
        "deadline_s": 60,
        "poll_s": 0.5,
        "lease_s": 8,
        "max_error_share": 0.05,
        "max_slow_share": 0.5,
        **canary,
    }
    return yaml.safe_dump(
        {
            "schema_version": 1,
            "name": MODEL,
            "models": [
                {
                    "name": MODEL,
                    "framework": "onnx",
                    "source": "models/tiny/model.onnx",
                    "golden": "golden/tiny.npz",
                    "inputs": [{"name": "x", "shape": [4]}],
                    "outputs": [{"name": "score", "shape": [4]}],
                    "sla_ms": 250,
                    "max_batch_size": 8,
                }
            ],
            "serving": {"triton_release": "24.12", "ready_deadline_s": 120},
            "canary": policy,
            "regression": {"approvers": ["alice"]},
        }
    )


@dataclass
class Story:
    """One production with its releases."""

    settings: Settings
    platform: Platform
    folder: Path
    run: str = field(default_factory=lambda: f"{time.time_ns():x}")

    def spec(self, **canary: Any) -> ReleaseSpec:
        """The spec with a changed policy."""
        return parse_spec(spec_text(**canary))

    def release(self, name: str, slot: str, *, factor: float = 2.0, kind: str = "") -> LiveRelease:
        """Publish a release with its spec and a golden row; kind `failing` or `ranker` instead of the tiny model."""
        release = f"{name}-{self.run}"
        folder = self.folder / release
        write_repository(folder / "repository", release=release, model=MODEL, factor=factor)
        if kind:
            KINDS[kind](folder / "repository" / MODEL, factor)
        (folder / "release.yaml").write_text(spec_text())
        (folder / "golden").mkdir()
        row = np.full((1, 4), 0.5, dtype=np.float32)
        np.savez(folder / "golden" / f"{MODEL}.npz", **{"in:x": row, "out:score": row * factor})
        return upload_release(self.settings, folder, release, slot, LiveModel(name=MODEL, sla_ms=250))

    def sign(self, release: LiveRelease, **changes: Any) -> Approval:
        """Alice approves it."""
        store, place = open_store(self.settings), Place.of(release.uri)
        fields = {
            "release": release.release,
            "uri": release.uri,
            "digest": digest_of(store, place),
            "approver": "alice",
            "approved": True,
            "decided": datetime.now(UTC),
        }
        approval = sign(Approval.model_validate({**fields, **changes}), read_key(self.settings.approval_key_file))
        store.write(place.approval, approval.model_dump_json().encode())
        return approval

    def stable(self, release: LiveRelease) -> LiveRelease:
        """Make a release stable without a canary."""
        began = self.platform.apply(lambda s: serving.begin(s, "setup", release, time.time(), 120))
        fence = Fence(holder="setup", epoch=began.epoch)
        self.platform.deploy(release, deadline_s=120, fence=fence)
        self.platform.apply(lambda s: serving.shift(s, fence, 100, time.time(), 120))
        self.platform.apply(lambda s: serving.promote(s, fence, time.time()))
        return release

    def in_flight(self, release: LiveRelease, weight: int, *, holder: str = "run-1", lease_s: float = 60) -> Fence:
        """Put a candidate beside stable at that weight."""
        began = self.platform.apply(lambda s: serving.begin(s, holder, release, time.time(), 60))
        fence = Fence(holder=holder, epoch=began.epoch)
        self.platform.deploy(release, deadline_s=120, fence=fence)
        self.platform.apply(lambda s: serving.shift(s, fence, weight, time.time(), lease_s))
        return fence

    def context(self, release: LiveRelease, step: int = 1, *, holder: str = "run-1", **canary: Any) -> StageContext:
        """What a stage of this promotion gets; ``step`` counts from 1 as on the command line."""
        return StageContext(
            spec=self.spec(**canary),
            spec_uri=f"{release.uri}/release.yaml",
            workspace=Workspace(self.folder / f"run-{release.release}"),
            settings=self.settings,
            holder=holder,
            release_uri=release.uri,
            step=step - 1,
        )

    def outcome(self, release: LiveRelease) -> str | None:
        """How its promotion ended, from storage."""
        store, place = open_store(self.settings), Place.of(release.uri)
        if not store.exists(place.outcome):
            return None
        return str(json.loads(store.read_text(place.outcome))["outcome"])

    def served(self) -> float:
        """The factor that answers on the users' path."""
        answer = Users(self.settings).ask(0.5)
        return float(answer["outputs"][0]["data"][0]) / 0.5


def write_failing(model: Path, factor: float) -> None:
    """A model that answers ``factor * x`` for x in [0, 1) and fails at run time for larger values."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Cast", ["x"], ["index"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "index"], ["factors"]),
        helper.make_node("Mul", ["x", "factors"], ["score"]),
    ]
    graph = helper.make_graph(
        nodes,
        "failing",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["rows", 4])],
        [numpy_helper.from_array(np.array([factor], dtype=np.float32), "table")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, str(model / "1" / "model.onnx"))


def write_ranker(model: Path, factor: float) -> None:
    """One score per row: ``factor * mean(x)``; a factor below zero turns the order of the rows round."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["mean", "factor"], ["score"]),
    ]
    graph = helper.make_graph(
        nodes,
        "ranker",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["rows", 1])],
        [numpy_helper.from_array(np.array([factor], dtype=np.float32), "factor")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, str(model / "1" / "model.onnx"))
    config = model / "config.pbtxt"
    head, output, tail = config.read_text().partition("output")
    config.write_text(head + output + tail.replace("[ 4 ]", "[ 1 ]", 1))


KINDS = {"failing": write_failing, "ranker": write_ranker}


class Users:
    """Users who keep asking: a few threads, a fixed rate in all, one request in five with a difficult value."""

    def __init__(self, settings: Settings, rate: float = 120, threads: int = 6) -> None:
        self._address = urlparse(settings.traffic.http).netloc
        self._pause = threads / rate
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask_on, args=(i,), daemon=True) for i in range(threads)]
        self.answers: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def __enter__(self) -> Users:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)

    @property
    def failed(self) -> int:
        """Requests without a usable answer."""
        return sum(self.failures.values())

    def ask(self, value: float) -> dict[str, Any]:
        """One request; raises AssertionError where it fails."""
        connection = http.client.HTTPConnection(self._address, timeout=10)
        status, _, body = self._request(connection, value)
        assert status == 200, body
        return dict(json.loads(body))

    def _ask_on(self, number: int) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=10)
        count = number
        while not self._stop.wait(self._pause):
            count += 1
            value = RAISES_AT if count % BAD_SHARE == 0 else 0.5
            try:
                status, slot, _ = self._request(connection, value)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self.failures[type(error).__name__] += 1
                continue
            self.answers[slot] += 1
            if status != 200:
                self.failures[f"{slot} {status}"] += 1

    def _request(self, connection: http.client.HTTPConnection, value: float) -> tuple[int, str, bytes]:
        tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [value] * 4}
        body = json.dumps({"inputs": [tensor]})
        connection.request("POST", f"/v2/models/{MODEL}/infer", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.getheader("x-served-by", "?"), answer.read()
