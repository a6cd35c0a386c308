"""The rendered repository of one model per framework, loaded by the real tritonserver, answers the golden outputs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import numpy as np
import pytest

from local import triton
from local.paths import Paths
from local.ports import free_ports
from local.processes import remove_shared_memory
from release_tasks.artifacts import CandidateRecord, RepositoryRecord
from release_tasks.clients.digests import digest_tree
from release_tasks.clients.triton import TritonServer
from release_tasks.context import StageContext
from release_tasks.golden import load_golden
from release_tasks.outcome import Verdict
from release_tasks.settings import Endpoints
from release_tasks.stages import export, parity, repository, size_gate, validate
from tests import build_samples as samples
from tests.integration.conftest import wait_until

READY_S = 180


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> StageContext:
    """The five build stages, run on four tiny models."""
    root = tmp_path_factory.mktemp("candidate")
    spec = samples.write_candidate(
        root,
        samples.tensorflow_model(root),
        samples.lightgbm_model(root),
        samples.torch_model(root),
        samples.onnx_model(root),
    )
    context = samples.context_for(spec, tmp_path_factory.mktemp("build") / "run")
    for stage in (validate, export, parity, size_gate, repository):
        report = stage.run(context)
        assert report.verdict is Verdict.passed, report.reason()
    return context


@pytest.fixture(scope="module")
def server(built: StageContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """tritonserver on the rendered repository, with the flags of a slot."""
    paths = Paths(tmp_path_factory.mktemp("triton"))
    paths.make()
    triton.assemble_backends(paths.backends)
    (paths.slots / "staging").mkdir()
    (paths.slots / "staging" / "repository").symlink_to(built.workspace.repository)
    ports = free_ports(["http", "grpc", "metrics"])
    endpoints = Endpoints(http=f"http://127.0.0.1:{ports['http']}", grpc=f"127.0.0.1:{ports['grpc']}")
    client = TritonServer(endpoints)
    log = paths.log("staging")
    with log.open("wb") as out:
        command = triton.command(paths, "staging", ports)
        process = subprocess.Popen(command, env=triton.environment(), stdout=out, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: process.poll() is not None or client.ready(), READY_S, 0.2)
            assert process.poll() is None, log.read_text()[-4000:]
            yield client
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            remove_shared_memory(paths.shared_memory_prefix("staging"))


@pytest.mark.parametrize("model", ["tower", "trees", "branch", "plain"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_served_outputs_equal_the_golden_ones(
    built: StageContext, server: TritonServer, model: str, protocol: str
) -> None:
    spec = built.spec.model(model)
    golden = load_golden(built.workspace.candidate, spec)
    (output,) = spec.outputs
    for rows in (1, 2, spec.max_batch_size):
        inputs = {name: array[:rows] for name, array in golden.inputs.items()}
        got = server.infer(model, inputs, (output.name,), protocol=protocol)[output.name]
        np.testing.assert_allclose(got, golden.outputs[output.name][:rows], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("model", ["tower", "trees", "branch", "plain"])
def test_server_knows_the_release_and_what_the_spec_says(built: StageContext, server: TritonServer, model: str) -> None:
    assert server.server_release(model) == built.workspace.load(CandidateRecord).release
    config = server.model_config(model)
    assert int(config["max_batch_size"]) == built.spec.model(model).max_batch_size
    assert int(config["dynamic_batching"]["max_queue_delay_microseconds"]) == 1000
    assert not config["dynamic_batching"].get("default_queue_policy")
    assert len(config["model_warmup"]) == 2
    assert int(config["instance_group"][0]["rate_limiter"]["priority"]) == 1


def test_a_rerun_renders_the_same_bytes(built: StageContext) -> None:
    before = built.workspace.load(RepositoryRecord)
    assert repository.run(built).verdict is Verdict.passed
    assert built.workspace.load(RepositoryRecord) == before
    assert digest_tree(built.workspace.repository) == before.files
