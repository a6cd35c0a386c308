"""Real components for the integration tests: one serving stack a session, and tiny releases to put on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from release_tasks.artifacts import ReleaseManifest, files_digest
from release_tasks.platforms.local import LocalPlatform
from release_tasks.platforms.state import LiveModel, LiveRelease, ServingState
from release_tasks.settings import SETTINGS_VARIABLE, Settings, load_settings

ROOT = Path(__file__).resolve().parents[2]
SERVICE = "tiny"
READY_S = 120.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.integration)


def run_local(*arguments: str, run_dir: Path, timeout: float = 180) -> subprocess.CompletedProcess[str]:
    """Run `python -m local …` on a stack of its own."""
    command = [sys.executable, "-m", "local", *arguments, "--run-dir", str(run_dir)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop(SETTINGS_VARIABLE, None)
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.fixture(scope="session")
def serving_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """fake-gcs-server, Prometheus, Envoy and three empty slots. RELEASE_SETTINGS names it while it runs."""
    run_dir = tmp_path_factory.mktemp("stack")
    started = run_local("up", "--without", "airflow", "--without", "guard", run_dir=run_dir)
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        before = os.environ.get(SETTINGS_VARIABLE)
        os.environ[SETTINGS_VARIABLE] = str(run_dir / "settings.json")
        yield load_settings(run_dir / "settings.json")
        if before is None:
            os.environ.pop(SETTINGS_VARIABLE)
        else:
            os.environ[SETTINGS_VARIABLE] = before
    finally:
        stopped = run_local("down", run_dir=run_dir)
        assert stopped.returncode == 0, stopped.stdout + stopped.stderr


@pytest.fixture
def platform(serving_stack: Settings) -> Iterator[LocalPlatform]:
    """The platform of the stack, with nothing live before and after."""
    platform = LocalPlatform(serving_stack)
    reset(platform)
    yield platform
    reset(platform)


def reset(platform: LocalPlatform) -> None:
    """Forget what is live and empty the production slots."""
    platform.apply(lambda state: ServingState(epoch=state.epoch + 1, last_event="reset by a test"))
    for slot in ("blue", "green"):
        platform.remove(slot)


Publish = Callable[..., LiveRelease]


@pytest.fixture
def publish(serving_stack: Settings, tmp_path: Path) -> Publish:
    """Publish a tiny release: ``publish("r1", slot="blue", factor=2.0, kind="onnx", model="tiny")`` answers
    ``score = factor * x`` for one float input ``x`` of four values (names ``x__0``/``score__0`` for kind "torch")."""

    def call(
        release: str,
        *,
        slot: str = "blue",
        factor: float = 2.0,
        kind: str = "onnx",
        model: str = "tiny",
        sla_ms: int = 50,
    ) -> LiveRelease:
        folder = tmp_path / release
        write_repository(folder / "repository", release=release, model=model, factor=factor, kind=kind)
        return upload_release(serving_stack, folder, release, slot, LiveModel(name=model, sla_ms=sla_ms))

    return call


def upload_release(settings: Settings, folder: Path, release: str, slot: str, model: LiveModel) -> LiveRelease:
    """Upload ``folder`` (with ``repository/`` in it) as a release, its manifest last."""
    from release_tasks.clients.digests import digest_tree
    from release_tasks.clients.storage import open_store

    uri = f"gs://{settings.storage.bucket}/{SERVICE}/releases/{release}"
    files = digest_tree(folder)
    store = open_store(settings)
    store.upload_files(folder, files, uri, lambda text: None)
    manifest = ReleaseManifest(
        release=release,
        name=SERVICE,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        candidate_uri="file:///none",
        candidate_digest="0" * 64,
        files=files,
        digest=files_digest(files),
    )
    store.write_new(f"{uri}/release.json", manifest.model_dump_json().encode())
    return LiveRelease(release=release, uri=uri, slot=slot, models=(model,))


def write_repository(folder: Path, *, release: str, model: str, factor: float, kind: str = "onnx") -> None:
    """A model repository with one model."""
    shutil.rmtree(folder, ignore_errors=True)
    version = folder / model / "1"
    version.mkdir(parents=True)
    if kind == "onnx":
        _write_onnx(version / "model.onnx", factor)
        backend, source, target = "onnxruntime", "x", "score"
    else:
        _write_torch(version / "model.pt", factor)
        backend, source, target = "pytorch", "x__0", "score__0"
    (folder / model / "config.pbtxt").write_text(
        f'name: "{model}"\nbackend: "{backend}"\nmax_batch_size: 8\n'
        f'input [{{ name: "{source}" data_type: TYPE_FP32 dims: [ 4 ] }}]\n'
        f'output [{{ name: "{target}" data_type: TYPE_FP32 dims: [ 4 ] }}]\n'
        "dynamic_batching { max_queue_delay_microseconds: 200 }\n"
        f'parameters {{ key: "release_id" value: {{ string_value: "{release}" }} }}\n'
    )


def _write_onnx(path: Path, factor: float) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "factor"], ["score"])],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["rows", 4])],
        [numpy_helper.from_array(np.array([factor], dtype=np.float32), "factor")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, str(path))


def _write_torch(path: Path, factor: float) -> None:
    import torch

    class Scale(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = torch.nn.Parameter(torch.tensor([factor]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if bool((x < 0).any()):
                raise RuntimeError("negative input")
            return x * self.factor

    torch.jit.script(Scale().eval()).save(str(path))


def wait_until(condition: Callable[[], Any], timeout: float = 15, every: float = 0.05) -> Any:
    """Wait until the condition is truthy and return it; fail after the time-out."""
    limit = time.monotonic() + timeout
    while True:
        found = condition()
        if found or time.monotonic() > limit:
            assert found, f"not within {timeout} s"
            return found
        time.sleep(every)
