"""LocalPlatform on the real tritonserver, Envoy and fake-gcs-server."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import READY_S, Publish, upload_release, wait_until, write_repository

from release_tasks.errors import Fenced, InvalidInput, ServingError, StorageError, TrafficError
from release_tasks.platforms.base import SlotPhase
from release_tasks.platforms.local import LocalPlatform
from release_tasks.platforms.state import Fence, LiveModel, LiveRelease, ServingState, begin, promote, renew, shift
from release_tasks.settings import Settings

HOLDER = "test"
LEASE_S = 600.0


def infer(
    url: str, rows: list[list[float]], name: str = "x", headers: dict[str, str] | None = None
) -> tuple[int, str | None, Any]:
    """Status, slot that answered, and the first output (or the error) of one request to the model `tiny`."""
    body = {"inputs": [{"name": name, "datatype": "FP32", "shape": [len(rows), 4], "data": rows}]}
    request = urllib.request.Request(
        f"{url}/v2/models/tiny/infer", data=json.dumps(body).encode(), headers=headers or {}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            status, served, text = response.status, response.headers.get("x-served-by"), response.read()
    except urllib.error.HTTPError as error:
        status, served, text = error.code, error.headers.get("x-served-by"), error.read()
    answer = json.loads(text) if text.startswith(b"{") else text.decode()
    return status, served, answer["outputs"][0]["data"] if status == 200 else answer


def go_live(platform: LocalPlatform, release: LiveRelease) -> Fence:
    """Begin and deploy; the fence of its promotion."""
    state = platform.apply(lambda s: begin(s, HOLDER, release, time.time(), LEASE_S))
    fence = Fence(HOLDER, state.epoch)
    platform.deploy(release, deadline_s=READY_S, fence=fence)
    return fence


def make_stable(platform: LocalPlatform, release: LiveRelease) -> None:
    fence = go_live(platform, release)
    platform.apply(lambda s: shift(s, fence, 100, time.time(), LEASE_S))
    platform.apply(lambda s: promote(s, fence, time.time()))


@contextmanager
def users(url: str, count: int = 4) -> Iterator[Counter[tuple[int, str | None]]]:
    """Users who ask without a pause; the counter holds (status, slot)."""
    seen: Counter[tuple[int, str | None]] = Counter()
    stop, lock = threading.Event(), threading.Lock()

    def ask() -> None:
        while not stop.is_set():
            status, slot, _ = infer(url, [[1, 2, 3, 4]])
            with lock:
                seen[status, slot] += 1

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_deploys_to_staging_and_answers_right_over_http_and_grpc(
    platform: LocalPlatform, publish: Publish, serving_stack: Settings
) -> None:
    import tritonclient.grpc as grpc

    release = publish("staged", slot="staging", factor=3.0)
    assert platform.deploy(release, deadline_s=READY_S).phase is SlotPhase.ready
    status, _, data = infer(serving_stack.slots["staging"].http, [[1, 2, 3, 4], [-5, 6.5, 0, 8]])
    assert (status, data) == (200, [3, 6, 9, 12, -15, 19.5, 0, 24])
    with grpc.InferenceServerClient(serving_stack.slots["staging"].grpc) as client:
        tensor = grpc.InferInput("x", [1, 4], "FP32")
        tensor.set_data_from_numpy(np.array([[1, np.nan, np.inf, 4]], dtype=np.float32))
        got = client.infer("tiny", [tensor]).as_numpy("score")
        config = client.get_model_config("tiny").config
    np.testing.assert_array_equal(got, [[3, np.nan, np.inf, 12]])
    assert config.parameters["release_id"].string_value == "staged"
    platform.remove("staging")
    assert platform.status("staging").phase is SlotPhase.empty


def test_a_bad_request_fails_alone_in_its_batch(
    platform: LocalPlatform, publish: Publish, serving_stack: Settings
) -> None:
    platform.deploy(publish("alone", slot="staging", kind="torch"), deadline_s=READY_S)
    url = serving_stack.slots["staging"].http
    results: list[tuple[bool, int, Any]] = []

    def ask(bad: bool) -> None:
        status, _, answer = infer(url, [[-1, -1, -1, -1]] if bad else [[1, 2, 3, 4]], name="x__0")
        results.append((bad, status, answer))

    threads = [threading.Thread(target=ask, args=(number % 4 == 0,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {(bad, status) for bad, status, _ in results} == {(True, 500), (False, 200)}
    assert all(answer == [2, 4, 6, 8] for bad, _, answer in results if not bad)
    assert all("negative input" in str(answer) for bad, _, answer in results if bad)
    platform.remove("staging")


def test_deploying_twice_starts_no_second_server(platform: LocalPlatform, publish: Publish) -> None:
    release = publish("twice", slot="staging")
    platform.deploy(release, deadline_s=READY_S)
    first = wait_until(lambda: "pid" in platform.status("staging").message and platform.status("staging").message)
    platform.deploy(release, deadline_s=READY_S)
    assert platform.status("staging").message.split(",")[0] == first.split(",")[0]  # "pid 123"
    platform.remove("staging")


def test_a_model_that_does_not_load_names_the_reason(
    platform: LocalPlatform, serving_stack: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "broken"
    write_repository(folder / "repository", release="broken", model="tiny", factor=1.0)
    (folder / "repository" / "tiny" / "1" / "model.onnx").write_bytes(b"no model")
    release = upload_release(serving_stack, folder, "broken", "staging", LiveModel(name="tiny", sla_ms=50))
    with pytest.raises(ServingError, match="broken does not run in slot staging") as caught:
        platform.deploy(release, deadline_s=READY_S)
    assert "INVALID_PROTOBUF" in caught.value.log_tail or "Protobuf" in caught.value.log_tail
    assert platform.status("staging").phase is SlotPhase.failed
    platform.remove("staging")


def test_a_prefix_without_manifest_is_no_release(platform: LocalPlatform, serving_stack: Settings) -> None:
    uri = f"gs://{serving_stack.storage.bucket}/tiny/releases/never-finished"
    release = LiveRelease(release="never-finished", uri=uri, slot="staging", models=())
    with pytest.raises(InvalidInput, match=r"release\.json"):
        platform.deploy(release, deadline_s=READY_S)


def test_changed_bytes_are_not_deployed(platform: LocalPlatform, publish: Publish, serving_stack: Settings) -> None:
    from release_tasks.clients.storage import open_store

    release = publish("tampered", slot="staging")
    open_store(serving_stack).write(f"{release.uri}/repository/tiny/1/model.onnx", b"other bytes")
    with pytest.raises(StorageError):
        platform.deploy(release, deadline_s=READY_S)
    assert platform.status("staging").release != "tampered"


def test_production_slots_are_fenced(platform: LocalPlatform, publish: Publish) -> None:
    first, second = publish("first", slot="blue"), publish("second", slot="green")
    with pytest.raises(InvalidInput, match="fence"):
        platform.deploy(first, deadline_s=READY_S)
    make_stable(platform, first)
    with pytest.raises(InvalidInput, match="stable release first"):
        platform.deploy(publish("third", slot="blue"), deadline_s=READY_S, fence=Fence(HOLDER, 1))
    with pytest.raises(Fenced):
        platform.deploy(second, deadline_s=READY_S, fence=Fence(HOLDER, platform.state().epoch))
    with pytest.raises(InvalidInput, match="100 % of the users' traffic"):
        platform.remove("blue")
    assert platform.status("green").phase is SlotPhase.empty


def test_fifty_weight_changes_lose_nothing_and_the_share_is_right(
    platform: LocalPlatform, publish: Publish, serving_stack: Settings
) -> None:
    make_stable(platform, publish("stable", slot="blue"))
    fence = go_live(platform, publish("candidate", slot="green"))
    with users(serving_stack.traffic.http) as seen:
        for number in range(50):
            weight = (5, 50, 100, 25)[number % 4]
            platform.apply(lambda s, weight=weight: shift(s, fence, weight, time.time(), LEASE_S))
            assert platform.weights() == {"blue": 100 - weight, "green": weight}
        platform.apply(lambda s: shift(s, fence, 20, time.time(), LEASE_S))
        time.sleep(0.2)  # answers to requests of the weight before
        before = Counter(seen)
        wait_until(lambda: (seen - before).total() > 2000, timeout=30)
        after = Counter(seen) - before
    assert {status for status, _ in seen} == {200}, seen
    share = after[200, "green"] / after.total()
    # Five standard deviations of a share of 20 % in 2000 requests.
    assert abs(share - 0.20) < 5 * (0.2 * 0.8 / after.total()) ** 0.5


def test_a_renewal_leaves_the_routes_alone(platform: LocalPlatform, publish: Publish, serving_stack: Settings) -> None:
    fence = go_live(platform, publish("renewed", slot="blue"))
    platform.apply(lambda s: shift(s, fence, 100, time.time(), LEASE_S))
    assert serving_stack.local is not None
    file = serving_stack.local.routes_dir / "rds.json"
    before = file.stat().st_mtime_ns
    after = platform.apply(lambda s: renew(s, fence, time.time(), 2 * LEASE_S))
    assert file.stat().st_mtime_ns == before
    assert platform.state() == after


def test_a_change_that_raises_changes_nothing(platform: LocalPlatform) -> None:
    before, weights = platform.state(), platform.weights()

    def refuse(state: ServingState) -> ServingState:
        raise Fenced("no")

    with pytest.raises(Fenced):
        platform.apply(refuse)
    assert (platform.state(), platform.weights()) == (before, weights)


def test_series_look_like_istio_and_probes_stay_out(
    platform: LocalPlatform, publish: Publish, serving_stack: Settings
) -> None:
    from release_tasks.spec import LATENCY_EDGES_MS

    make_stable(platform, publish("measured", slot="blue"))
    go_live(platform, publish("probed", slot="green", factor=5.0))
    users_of_blue, probes_of_green = _labels("blue", "tiny"), _labels("green", "probe")

    def count(labels: str) -> float:
        found = query(serving_stack, f"istio_requests_total{labels}")
        return float(found[0]["value"][1]) if found else 0.0

    seen, probed = count(users_of_blue), count(probes_of_green)
    for _ in range(7):
        assert infer(serving_stack.traffic.http, [[1, 2, 3, 4]])[:2] == (200, "blue")
    assert infer(serving_stack.traffic.http, [[1, 2, 3, 4]], headers={"x-force-slot": "green"}) == (
        200,
        "green",
        [5, 10, 15, 20],
    )
    wait_until(lambda: count(users_of_blue) == seen + 7 and count(probes_of_green) == probed + 1)
    buckets = query(serving_stack, f"istio_request_duration_milliseconds_bucket{users_of_blue}")
    edges = sorted(float(series["metric"]["le"]) for series in buckets)
    assert edges == [*map(float, LATENCY_EDGES_MS), float("inf")]
    # Attempts behind the users' requests, and the server's own counters, carry the slot too.
    assert query(serving_stack, 'envoy_cluster_upstream_rq{envoy_cluster_name="blue",envoy_response_code="200"}')
    assert query(serving_stack, 'nv_inference_request_success{destination_workload="blue",model="tiny"}')


def test_grpc_users_are_counted_by_slot_and_nothing_live_is_a_503(
    platform: LocalPlatform, publish: Publish, serving_stack: Settings
) -> None:
    import tritonclient.grpc as grpc

    status, served, text = infer(serving_stack.traffic.http, [[1, 2, 3, 4]])
    assert (status, served, text) == (503, None, "no release is live")
    make_stable(platform, publish("grpc-users", slot="blue"))
    tensor = grpc.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 4), dtype=np.float32))
    labels = '{destination_workload="blue",model="grpc",response_code="200",grpc_response_status="%s"}'

    def count(code: int) -> float:
        found = query(serving_stack, f"istio_requests_total{labels % code}")
        return float(found[0]["value"][1]) if found else 0.0

    fine, refused = count(0), count(3)
    with grpc.InferenceServerClient(serving_stack.traffic.grpc) as client:
        for _ in range(3):
            client.infer("tiny", [tensor])
        wrong = grpc.InferInput("unknown", [1, 4], "FP32")
        wrong.set_data_from_numpy(np.ones((1, 4), dtype=np.float32))
        with pytest.raises(grpc.InferenceServerException):
            client.infer("tiny", [wrong])
    # gRPC errors travel in an answer with HTTP status 200: only the gRPC status tells them apart.
    wait_until(lambda: (count(0), count(3)) == (fine + 3, refused + 1))


def test_two_deployments_at_once_start_one_server(platform: LocalPlatform, publish: Publish) -> None:
    release = publish("raced", slot="staging")
    phases: list[SlotPhase] = []
    threads = [
        threading.Thread(target=lambda: phases.append(platform.deploy(release, deadline_s=READY_S).phase))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert phases == [SlotPhase.ready] * 3
    assert platform.status("staging").release == "raced"
    platform.remove("staging")


def test_a_server_that_takes_too_long_is_stopped(platform: LocalPlatform, publish: Publish) -> None:
    with pytest.raises(ServingError, match="not ready within 0 s"):
        platform.deploy(publish("late", slot="staging"), deadline_s=0.2)
    assert platform.status("staging").phase is SlotPhase.failed
    platform.remove("staging")


def test_a_dead_envoy_is_a_traffic_error_and_nothing_is_recorded(
    platform: LocalPlatform, publish: Publish, serving_stack: Settings
) -> None:
    fence = go_live(platform, publish("unlucky", slot="blue"))
    before = platform.state()
    supervisor = _supervisor(serving_stack)
    supervisor.stop("envoy")
    try:
        with pytest.raises(TrafficError, match="Envoy's admin interface"):
            platform.apply(lambda s: shift(s, fence, 50, time.time(), LEASE_S))
        with pytest.raises(TrafficError):
            platform.weights()
        assert platform.state() == before
    finally:
        supervisor.start("envoy")
        wait_until(lambda: _answers(platform))
    assert platform.weights() == {"blue": 0, "green": 0}


def test_a_dead_server_shows_in_its_status(platform: LocalPlatform, publish: Publish, serving_stack: Settings) -> None:
    platform.deploy(publish("mortal", slot="staging"), deadline_s=READY_S)
    _supervisor(serving_stack).stop("staging")
    status = platform.status("staging")
    assert (status.phase, status.release) == (SlotPhase.failed, "mortal")
    assert "tritonserver is stopped" in status.message
    platform.remove("staging")


def _labels(slot: str, model: str) -> str:
    fine = 'response_code="200",grpc_response_status="",response_flags="-"'
    return f'{{reporter="source",destination_workload="{slot}",model="{model}",{fine}}}'


def _supervisor(settings: Settings) -> Any:
    from release_tasks.platforms.local_supervisor import Supervisor

    assert settings.local is not None
    return Supervisor(settings.local.supervisor_socket)


def _answers(platform: LocalPlatform) -> bool:
    try:
        platform.weights()
    except TrafficError:
        return False
    return True


def query(settings: Settings, expression: str) -> list[dict[str, Any]]:
    """Result of an instant query."""
    import urllib.parse

    url = f"{settings.prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    with urllib.request.urlopen(url, timeout=5) as response:
        result: list[dict[str, Any]] = json.load(response)["data"]["result"]
    return result
