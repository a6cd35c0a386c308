"""Bad input at the command line: an own exit code, a clear message, no traceback, nothing half-written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from release_tasks.cli import main
from release_tasks.spec.yaml_text import read_yaml
from tests.build_samples import onnx_model, write_candidate

GOLDEN = "golden/plain.npz"
CASES = "cases.json"
Change = Callable[[Path], object]


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    root = tmp_path / "candidate"
    root.mkdir()
    write_candidate(root, onnx_model(root))
    return root


def bomb(levels: int = 12) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines) + f"\nname: *a{levels - 1}\n"


def source(name: str) -> Change:
    def change(root: Path) -> None:
        spec = yaml.safe_load((root / "release.yaml").read_text())
        spec["models"][0]["source"] = name
        (root / "release.yaml").write_text(yaml.safe_dump(spec))

    return change


def spec_text(text: str) -> Change:
    return lambda root: (root / "release.yaml").write_text(text)


def bare_array(root: Path) -> None:
    with (root / GOLDEN).open("wb") as file:
        np.save(file, np.zeros(3))


def folder_for_cases(root: Path) -> None:
    (root / CASES).unlink()
    (root / CASES).mkdir()


def validate(candidate: Path, workspace: Path) -> int:
    return main(["validate", "--spec", str(candidate / "release.yaml"), "--workspace", str(workspace)])


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (spec_text(bomb()), 10, "more than 100000 values"),
        (spec_text("[" * 20_000), 10, "nested too deeply"),
        (spec_text("&a {name: *a}"), 10, "an alias holds itself"),
        (spec_text("schema_version: " + "9" * 5000), 10, "digits"),
        (spec_text("name: 2020-13-45"), 10, "month must be in 1..12"),
        (spec_text("name: one\nname: two"), 10, "`name` is given twice"),
        (source("a\0b"), 11, "models.plain.source"),
        (source("a" * 5000), 11, "models.plain.source"),
        (bare_array, 12, "one bare array"),
        (lambda root: (root / CASES).write_bytes(b"\xff\xfe"), 11, "readable text file"),
        (folder_for_cases, 11, "Is a directory"),
    ],
    ids=["bomb", "deep", "recursive", "digits", "date", "twice", "nul", "long", "npy", "bytes", "folder"],
)
def test_candidate(
    candidate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Change, code: int, words: str
) -> None:
    change(candidate)
    workspace = tmp_path / "workspace"
    assert validate(candidate, workspace) == code
    said = capsys.readouterr().err
    assert words in said
    assert "remedy:" in said
    left = {p.name for p in workspace.rglob("*")}
    assert left <= {"reports", "validate.json"}


def test_aliases_and_merge_keys_stay_usable() -> None:
    text = "base: &b {absolute: 1, relative: 2}\none: {<<: *b, relative: 3}\ntwo: *b\n"
    assert read_yaml(text) == yaml.safe_load(text)


def test_a_wrong_item_is_not_also_a_short_list(candidate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (candidate / "release.yaml").read_text().replace("name: plain", "name: Plain")
    (candidate / "release.yaml").write_text(text)
    assert main(["plan", "--spec", str(candidate)]) == 10
    said = capsys.readouterr().err
    assert "'Plain' is not accepted" in said
    assert "at least 1" not in said


def test_workspace_is_a_file(candidate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (candidate / CASES, candidate / CASES / "below"):
        assert validate(candidate, place) == 9
        assert "--workspace" in capsys.readouterr().err


@pytest.mark.parametrize("step", ["0", "-1"])
def test_step_before_the_first(candidate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], step: str) -> None:
    spec = ["--spec", str(candidate), "--workspace", str(tmp_path / "workspace")]
    assert main(["canary", *spec, "--step", step]) == 9
    assert "steps are counted from 1" in capsys.readouterr().err
    assert not (tmp_path / "workspace").exists()


def test_settings_name_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELEASE_SETTINGS", str(tmp_path))
    assert main(["plan", "--spec", "gs://bucket/release.yaml"]) == 9
    assert "RELEASE_SETTINGS" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["a\0b", "a" * 5000])
def test_address_that_no_file_can_have(capsys: pytest.CaptureFixture[str], address: str) -> None:
    assert main(["plan", "--spec", address]) == 11
    assert "nothing lies there" in capsys.readouterr().err


def test_damaged_record(candidate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "workspace" / "records" / "candidate.json"
    record.parent.mkdir(parents=True)
    record.write_text("{")
    assert main(["export", "--spec", str(candidate), "--workspace", str(tmp_path / "workspace")]) == 45
    assert "is damaged" in capsys.readouterr().err
