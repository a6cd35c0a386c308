"""What parsing our DAG files costs beyond importing Airflow.

A DAG file that only imports the Airflow SDK is parsed in a fresh process, then each of ours; the difference of the
medians is what every parse loop pays for the product.
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
# Parses one file in a process that has imported nothing else, and prints the seconds.
PARSE = """
import runpy, sys, time
start = time.perf_counter()
runpy.run_path(sys.argv[1])
print(time.perf_counter() - start)
heavy = [m for m in ("torch", "tensorflow", "lightgbm", "onnxruntime", "google.cloud.storage") if m in sys.modules]
assert not heavy, heavy
"""
BASELINE = "from airflow.sdk import DAG, task\nfrom airflow.providers.standard.operators.bash import BashOperator\n"


def _seconds(file: Path, home: str) -> float:
    environment = os.environ | {"AIRFLOW_HOME": home, "PYTHONPATH": str(ROOT), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(file)], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return float(done.stdout.strip().splitlines()[-1])


def main() -> None:
    """Measure in turn, so that a drifting machine hits every file alike."""
    with tempfile.TemporaryDirectory() as home:
        baseline = Path(home) / "baseline.py"
        baseline.write_text(BASELINE, encoding="utf-8")
        files = [baseline, *sorted(p for p in (ROOT / "dags").glob("*.py") if p.stem != "__init__")]
        for file in files:
            _seconds(file, home)
        rounds = [[_seconds(file, home) for file in files] for _ in range(RUNS)]
    medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
    figures = [Figure("a DAG file that only imports Airflow", medians[0], "s")]
    for file, seconds in zip(files[1:], medians[1:], strict=True):
        figures.append(Figure(f"{file.name} beyond that", seconds - medians[0], "s", "<= 0.3"))
    publish("dag_parse", figures)


if __name__ == "__main__":
    main()
