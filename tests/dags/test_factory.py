"""One factory, two profiles, the same command line."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from plugins.commands import StageCall, slug
from plugins.failures import ERRORS, failure, reason, retryable
from plugins.process import Command
from tests.dags.conftest import ROOT, run_python

POD = """
import json
from airflow.sdk import DAG
from plugins.commands import MACROS, StageCall
from plugins.stage_operator import stage_task
with DAG("d", schedule=None, user_defined_macros={"workspace_of": lambda d, r: f"/w/{d}/{r}"}) as dag:
    task = stage_task(StageCall("parity", spec="gs://b/release.yaml", model="ranker"))
class TI:
    dag_id, task_id, run_id, map_index, try_number = "d", "parity", "run-1", -1, 1
task.render_template_fields({"dag": dag, "run_id": "run-1", "ti": TI(), "params": {}})
found = {"kind": type(task).__name__, "arguments": task.arguments}
if hasattr(task, "build_pod_request_obj"):
    pod = task.build_pod_request_obj(dry_run=True)
    main, count = pod.spec.containers[0], len(pod.spec.containers)
    found |= {"image": main.image, "args": main.args, "containers": count, "namespace": pod.metadata.namespace}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def built() -> dict[str, dict[str, Any]]:
    variables = {"RELEASE_TASK_IMAGE": "registry/task:7", "RELEASE_TASK_NAMESPACE": "gate"}
    return {
        profile: json.loads(run_python(POD, RELEASE_PROFILE=profile, **variables).splitlines()[-1])
        for profile in ("local", "kubernetes")
    }


def test_both_profiles_run_the_same_command_line(built: dict[str, dict[str, Any]]) -> None:
    assert built["local"]["kind"] == "StageOperator"
    assert built["kubernetes"]["kind"] == "KubernetesPodOperator"
    assert built["local"]["arguments"] == built["kubernetes"]["arguments"] == built["kubernetes"]["args"]
    assert built["local"]["arguments"] == [
        "release_tasks",
        "parity",
        "--spec=gs://b/release.yaml",
        "--workspace=/w/d/run-1",
        "--holder=run-1",
        "--model=ranker",
    ]


def test_the_pod_has_the_image_and_a_sidecar_for_its_result(built: dict[str, dict[str, Any]]) -> None:
    pod = built["kubernetes"]
    assert (pod["image"], pod["namespace"], pod["containers"]) == ("registry/task:7", "gate", 2)


def test_the_command_line_is_one_that_the_stages_accept() -> None:
    from release_tasks.cli import _parser

    for call in (
        StageCall("validate", spec="s"),
        StageCall("export", spec="s", model="m"),
        StageCall("canary", spec="s", release="gs://b/n/releases/i", step=2),
        StageCall("approve", spec="s", options={"approver": "", "decision": "reject", "digest": "", "reason": "--x y"}),
    ):
        parsed = _parser().parse_args(call.arguments()[1:])
        assert parsed.stage == call.stage
    assert parsed.reason == "--x y"


def test_a_stage_for_all_models_takes_no_model() -> None:
    with pytest.raises(ValueError, match="does not run per model"):
        StageCall("smoke", spec="s", model="m").arguments()


def test_an_unknown_profile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from plugins.stage_operator import module_task

    monkeypatch.setenv("RELEASE_PROFILE", "swarm")
    with pytest.raises(ValueError, match="RELEASE_PROFILE"):
        module_task("x", ["release_tasks"])


def test_run_ids_become_folder_names() -> None:
    assert slug("manual__2026-01-01T00:00:00+00:00") == "manual__2026-01-01T00-00-00-00-00"
    assert slug("../..") == "run"


def python(code: str, said: list[str] | None = None) -> Any:
    return Command([sys.executable, "-c", code], cwd=str(ROOT), say=(said if said is not None else []).append).run()


def test_the_last_line_is_the_result_and_everything_is_logged() -> None:
    said: list[str] = []
    finished = python("import sys; print('a', file=sys.stderr); print('{}'); print('{\"x\": 1}')", said)
    assert finished.exit_code == 0 and finished.result == {"x": 1}
    assert sorted(said) == ["a", '{"x": 1}', "{}"]


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_exit_codes_retry_or_fail(code: int) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    message = f"Fault (exit code {code}): broken\\nremedy: mend it"
    finished = python(f"import sys; print('noise\\n{message}', file=sys.stderr); sys.exit({code})")
    error = failure("stage", finished)
    assert retryable(code) is ERRORS[code].retryable
    assert isinstance(error, AirflowFailException) is not ERRORS[code].retryable
    assert "broken" in str(error) and "mend it" in str(error) and "noise" not in str(error)


def test_a_gate_that_failed_tells_what_it_measured() -> None:
    finished = python("""import sys; print('{"verdict": "failed", "reason": "disk: 9 MiB (limit 3)"}'); sys.exit(21)""")
    assert reason("size_gate", finished) == "size_gate: failed: disk: 9 MiB (limit 3)"


def test_unexpected_exceptions_are_not_retried_and_signals_are() -> None:
    assert not retryable(1) and not retryable(2) and retryable(-signal.SIGKILL)


def test_stopping_ends_the_whole_group(tmp_path: Path) -> None:
    """A child that ignores SIGTERM, started by the command, is gone afterwards."""
    mark = tmp_path / "pid"
    child = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )
    code = f"import subprocess,sys; subprocess.run([sys.executable, '-c', {child!r}])"
    command = Command([sys.executable, "-c", code], cwd=str(ROOT), say=lambda _: None)
    runner = threading.Thread(target=command.run)
    runner.start()
    until = time.monotonic() + 20
    while not (mark.exists() and mark.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    command.stop(grace_s=0.5)
    runner.join(timeout=10)
    assert not runner.is_alive()
    pid = int(mark.read_text())
    until = time.monotonic() + 5
    while _alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_task_entry_point_leaves_the_result_for_the_sidecar(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; sys.argv=['x']; sys.path.insert(0, 'docker'); import task_entrypoint as t;"
        f"p = pathlib.Path({str(tmp_path)!r});"
        "assert t.main(['json.tool', '--compact', str(p / 'in.json')], p) == 0;"
        "assert t.main(['json.tool', str(p / 'absent.json')], pathlib.Path('/absent')) != 0"
    )
    (tmp_path / "in.json").write_text('{"verdict": "passed"}')
    run_python(code)
    assert json.loads((tmp_path / "return.json").read_text()) == {"verdict": "passed"}
