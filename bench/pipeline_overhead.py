"""Where the time of stages 1 to 12 goes, for the example's three models: work, process start, Airflow.

One real release runs through Airflow on the embedded stack (started when it is down) until it asks for the signature.
Work is what each stage's report measured; process start is the rest of its process's life (interpreter, imports); a
task's life beyond its process is Airflow's start and end of it. These three are summed over tasks, some of which run
side by side. The time in which no task ran at all is Airflow's scheduling. The load test's own phases and the wait for
the staging server are left out, as they are waiting by design.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.table import Figure, publish
from local.demo_client import OVER, Airflow
from release_tasks.spec import load_spec

ROOT = Path(__file__).parents[1]
RUN_DIR = ROOT / ".local" / "run"
CANDIDATE = ROOT / ".local" / "bench" / "candidate"
PATIENCE_S = 900


def main() -> int:
    """Run one release and print where its time went."""
    for command in (["local", "up"], ["examples.recsys.train", "--recipe", "good", "--out", str(CANDIDATE)]):
        subprocess.run([sys.executable, "-m", *command], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    access = json.loads((RUN_DIR / "airflow.json").read_text())
    airflow = Airflow(access["url"], "admin", access["users"]["admin"])
    airflow.unpause("model_release")
    run = f"bench__{int(time.time())}"
    airflow.trigger("model_release", run, {"candidate": str(CANDIDATE)})
    tasks = _until_question(airflow, run)
    try:
        publish("pipeline_overhead", _figures(airflow, run, tasks))
    finally:
        airflow.set_run("model_release", run, "failed")
    return 0


def _until_question(airflow: Airflow, run: str) -> list[dict[str, Any]]:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if any(q["task_instance"]["dag_run_id"] == run for q in airflow.questions()):
            return airflow.tasks("model_release", run)
        if airflow.run("model_release", run)["state"] in OVER:
            break
        time.sleep(0.5)
    states = {t["task_id"]: t["state"] for t in airflow.tasks("model_release", run)}
    raise SystemExit(f"the release did not reach the signature: {states}")


def _figures(airflow: Airflow, run: str, tasks: list[dict[str, Any]]) -> list[Figure]:
    ended = [t for t in tasks if t["end_date"]]
    by_id = {t["task_id"]: t for t in ended}
    wall = max(map(_end, ended)) - min(map(_start, ended))
    waiting = _load_phases() + (_end(by_id["staging_turn"]) - _start(by_id["staging_turn"]))
    handed = [(t, _hand_over(airflow, run, t)) for t in ended]
    pairs = [(t, v) for t, v in handed if isinstance(v, dict) and "process_seconds" in v]
    stages = [v for _, v in pairs]
    around = sum(_end(t) - _start(t) - v["process_seconds"] for t, v in pairs)
    around += sum(_end(t) - _start(t) for t, v in handed if (t, v) not in pairs and t["task_id"] != "staging_turn")
    figures = [
        Figure("stages 1-12 without load test and waiting", wall - waiting, "s", "<= 120"),
        Figure("work, summed over tasks", sum(s["seconds"] for s in stages) - _load_phases(), "s"),
        Figure("process start, summed", sum(s["process_seconds"] - s["seconds"] for s in stages), "s"),
        Figure("Airflow's start and end of tasks, summed", around, "s"),
        Figure("Airflow's scheduling, nothing running", wall - _covered(ended), "s"),
    ]
    for stage in stages:
        name = f"{stage['stage']} {stage['model'] or ''}".strip()
        figures.append(Figure(f"  work of {name}", stage["seconds"], "s"))
        figures.append(Figure(f"  process start of {name}", stage["process_seconds"] - stage["seconds"], "s"))
    return figures


def _hand_over(airflow: Airflow, run: str, task: dict[str, Any]) -> Any:
    return airflow.xcom("model_release", run, task["task_id"], map_index=task["map_index"])


def _load_phases() -> float:
    profile = load_spec(CANDIDATE / "release.yaml").load_test
    return profile.baseline_s + profile.ramp_s + profile.soak_s


def _covered(tasks: list[dict[str, Any]]) -> float:
    """Seconds in which at least one task ran."""
    covered, reached = 0.0, 0.0
    for begin, end in sorted((_start(t), _end(t)) for t in tasks):
        covered += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return covered


def _start(task: dict[str, Any]) -> float:
    return datetime.fromisoformat(task["start_date"]).timestamp()


def _end(task: dict[str, Any]) -> float:
    return datetime.fromisoformat(task["end_date"]).timestamp()


if __name__ == "__main__":
    sys.exit(main())
