"""What parsing our DAG files costs beyond importing Airflow.

In a fresh process a DAG file that only imports Airflow is parsed, then one of ours: what the second takes is what every
parse pays for the product. Both are timed in one process, since the first takes seconds that vary more than the second.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.table import Figure, publish

ROOT = Path(__file__).parents[1]
RUNS = 5
# Parses two files one after the other, and prints the seconds of each.
PARSE = """
import runpy, sys, time
for path in sys.argv[1:]:
    start = time.perf_counter()
    runpy.run_path(path)
    print(time.perf_counter() - start)
heavy = [m for m in ("torch", "tensorflow", "lightgbm", "onnxruntime", "google.cloud.storage") if m in sys.modules]
assert not heavy, heavy
"""
# The classes of Airflow that our DAGs use. The dag-processor has most of what they pull in (its models) loaded already.
BASELINE = """
from airflow.sdk import DAG, Asset, BaseOperator, BaseSensorOperator, Param, task_group, teardown
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
"""


def _seconds(baseline: Path, file: Path, home: str) -> tuple[float, float]:
    environment = os.environ | {"AIRFLOW_HOME": home, "PYTHONPATH": str(ROOT), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    command = [sys.executable, "-c", PARSE, str(baseline), str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    only_airflow, ours = done.stdout.strip().splitlines()[-2:]
    return float(only_airflow), float(ours)


def main() -> None:
    """Measure in turn, so that a drifting machine hits every file alike."""
    files = sorted(p for p in (ROOT / "dags").glob("*.py") if p.stem != "__init__")
    with tempfile.TemporaryDirectory() as home:
        baseline = Path(home) / "baseline.py"
        baseline.write_text(BASELINE, encoding="utf-8")
        _seconds(baseline, baseline, home)
        rounds = [[_seconds(baseline, file, home) for file in files] for _ in range(RUNS)]
    only = statistics.median(only for taken in rounds for only, _ in taken)
    figures = [Figure("a DAG file that only imports Airflow", only, "s")]
    for file, column in zip(files, zip(*rounds, strict=True), strict=True):
        figures.append(Figure(f"{file.name} beyond that", statistics.median(ours for _, ours in column), "s", "<= 0.3"))
    publish("dag_parse", figures)


if __name__ == "__main__":
    main()
