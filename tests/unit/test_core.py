"""Errors, outcome, artefacts, workspace, settings, command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from release_tasks.artifacts import CandidateRecord, ExportRecord, FileDigest, files_digest, release_digest
from release_tasks.cli import main
from release_tasks.context import StageContext
from release_tasks.errors import InvalidInput, StageOrderError, all_errors
from release_tasks.outcome import Check, StageReport, Verdict
from release_tasks.settings import load_settings
from release_tasks.sources import local_path
from release_tasks.stages import OPTIONS, PER_MODEL, STAGES
from release_tasks.workspace import Workspace, write_atomic
from tests.unit.samples import SPEC, as_spec

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def test_exit_codes_are_unique_and_leave_the_shell_its_own() -> None:
    codes = {e: e.exit_code for e in all_errors()}
    assert len(set(codes.values())) == len(codes)
    assert all(3 <= code < 100 for code in codes.values())


def test_invalid_input_reads_as_field_value_rule_remedy() -> None:
    error = InvalidInput(field="a.b", value="x" * 500, rule="it must be short", remedy="shorten it")
    assert str(error).startswith("a.b: 'xxx")
    assert "…" in str(error)
    assert str(error).endswith("is not accepted: it must be short\nremedy: shorten it")


def test_nothing_looked_at_is_never_a_pass() -> None:
    assert Verdict.worst([]) is Verdict.inconclusive
    assert Verdict.worst([Verdict.passed, Verdict.inconclusive]) is Verdict.inconclusive
    assert Verdict.worst([Verdict.failed, Verdict.error, Verdict.passed]) is Verdict.error
    assert Verdict.worst([Verdict.passed]) is Verdict.passed


def _digest(path: str, sha: str = "00") -> FileDigest:
    return FileDigest(path=path, size=1, md5="m", crc32c="c", sha256=sha)


def test_files_digest_ignores_order_and_sees_bytes_and_names() -> None:
    one, two = _digest("a"), _digest("b", "11")
    assert files_digest((one, two)) == files_digest((two, one))
    assert files_digest((one, two)) != files_digest((one, _digest("b", "12")))
    assert files_digest((one,)) != files_digest((_digest("c"),))


def _report(stage: str, measured: str, started: datetime = WHEN) -> StageReport:
    check = Check(name="c", verdict=Verdict.passed, measured=measured)
    return StageReport(stage=stage, release="r", verdict=Verdict.passed, checks=(check,), started=started, seconds=1)


def test_release_digest_is_bound_to_results_not_to_the_clock() -> None:
    base = release_digest("m", [_report("a", "1"), _report("b", "2")])
    assert base == release_digest("m", [_report("b", "2"), _report("a", "1", started=datetime.now(UTC))])
    assert base != release_digest("m", [_report("a", "1"), _report("b", "3")])
    assert base != release_digest("n", [_report("a", "1"), _report("b", "2")])


def test_workspace_keeps_records_apart_and_names_what_is_missing(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    record = CandidateRecord(release="r", uri="u", digest="d", files=(_digest("a"),))
    workspace.save(record)
    assert workspace.load(CandidateRecord) == record
    with pytest.raises(StageOrderError, match="export record of ranker"):
        workspace.load(ExportRecord, "ranker")


def test_a_failing_write_keeps_the_old_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    write_atomic(path, "old")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_report_draft_takes_the_worst_and_says_every_check(tmp_path: Path) -> None:
    said: list[str] = []
    context = StageContext(
        spec=as_spec(SPEC), spec_uri="x", workspace=Workspace(tmp_path), now=lambda: WHEN, say=said.append
    )
    draft = context.draft("parity", "r")
    draft.check("one", True, "1 ms", "2 ms")
    draft.check("two", Verdict.inconclusive, "no data", detail="Prometheus was silent")
    report = draft.finish()
    assert report.verdict is Verdict.inconclusive
    assert report.reason() == "two: no data: Prometheus was silent"
    assert len(said) == 2


def test_settings_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RELEASE_SETTINGS", raising=False)
    with pytest.raises(InvalidInput, match="make up"):
        load_settings()
    broken = tmp_path / "s.json"
    broken.write_text("{")
    with pytest.raises(InvalidInput, match="malformed"):
        load_settings(broken)


def test_candidate_addresses() -> None:
    assert local_path("/a/b") == Path("/a/b")
    assert local_path("file:///a/b") == Path("/a/b")
    assert local_path("gs://bucket/x") is None
    with pytest.raises(InvalidInput, match="scheme"):
        local_path("ftp://x/y")


def test_every_option_and_per_model_stage_exists() -> None:
    assert set(OPTIONS) <= set(STAGES)
    assert set(PER_MODEL) <= set(STAGES)


def test_help_lists_the_stages_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    places = [text.index(f"{number}. ") for number in range(1, len(STAGES) + 1)]
    assert places == sorted(places)
    assert all(f"    {stage}" in text for stage in STAGES)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [({"name": "BAD"}, 10, "name"), ({"typo": 1}, 10, "no such key"), (None, 11, "nothing lies there")],
)
def test_bad_spec_ends_with_its_exit_code_and_no_traceback(
    change: dict[str, object] | None, code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "release.yaml"
    if change is not None:
        path.write_text(yaml.safe_dump(SPEC | change))
    workspace = tmp_path / "w"
    assert main(["validate", "--spec", str(path), "--workspace", str(workspace)]) == code
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
    assert not workspace.exists()


def test_unknown_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "release.yaml"
    path.write_text(yaml.safe_dump(SPEC))
    code = main(["export", "--spec", str(path), "--workspace", str(tmp_path / "w"), "--model", "nobody"])
    assert code == InvalidInput.exit_code
    assert "ranker" in capsys.readouterr().err


def test_schema_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "ReleaseSpec"
