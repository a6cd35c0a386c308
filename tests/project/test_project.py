"""The project's own promises: import contracts, pinned requirements, one list of stages."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from release_tasks.stages import STAGES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MISSION = (
    "apache-airflow",
    "apache-airflow-providers-cncf-kubernetes",
    "apache-airflow-providers-google",
    "torch",
    "tensorflow-cpu",
    "lightgbm",
    "onnxmltools",
    "tritonclient",
    "great-expectations",
)


def _pins() -> dict[str, set[str]]:
    pins: dict[str, set[str]] = {}
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        found = re.match(r"^([a-z0-9._-]+)(?:\[[a-z0-9,-]+\])?==([^ ;]+)", line)
        if found:
            pins.setdefault(found[1], set()).add(found[2])
    return pins


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split()]


def test_import_contracts_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_every_direct_dependency_is_pinned_to_what_it_asks_for() -> None:
    pins = _pins()
    extras = [d for group in PROJECT["optional-dependencies"].values() for d in group]
    for requirement in PROJECT["dependencies"] + extras:
        name, _, exact = re.sub(r"\[.*?\]", "", requirement).partition("==")
        name = re.split(r"[><=]", name)[0]
        assert name in pins, f"{name} is not in requirements.txt; run `make lock`"
        if exact:
            assert exact in pins[name]


def test_the_mission_packages_are_in_the_one_list() -> None:
    assert set(MISSION) <= set(_pins())


def test_every_requirement_line_is_a_pin() -> None:
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        assert line.startswith("#") or "==" in line, line


def test_every_stage_has_its_module_with_run() -> None:
    for stage in STAGES:
        source = (ROOT / "release_tasks" / "stages" / f"{stage}.py").read_text()
        assert "\ndef run(context: StageContext) -> StageReport:" in source, stage


@pytest.mark.parametrize("module", ["release_tasks.cli", "release_tasks.platforms", "release_tasks.spec"])
def test_light_modules_load_no_framework(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "heavy = [m for m in ('torch', 'tensorflow', 'lightgbm', 'onnxruntime', 'great_expectations', 'airflow',"
        " 'google.cloud.storage', 'locust') if m in sys.modules]\n"
        "print(heavy); sys.exit(bool(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_secret_and_no_private_path_is_committed() -> None:
    # The words are put together here so that this file does not find itself.
    banned = re.compile("BEGIN (RSA |EC )?PRIVATE " + "KEY|/work" + "/(main|shared)|/tmp" + "/h-")
    for path in _tracked():
        if path.suffix in {".png", ".npz", ".pt", ".onnx"} or not path.is_file():
            continue
        found = banned.search(path.read_text(encoding="utf-8", errors="replace"))
        assert not found, f"{path}: {found}"


def test_make_help_lists_the_promised_targets() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("demo", "test", "lint", "bench", "up", "down", "help"):
        assert re.search(rf"^  {target} ", done.stdout, re.MULTILINE), target


def test_ci_calls_exactly_make_test() -> None:
    lines = [ln for ln in (ROOT / ".ci" / "run").read_text().splitlines() if ln and not ln.startswith("#")]
    assert lines[-1] == "make test"
