"""Who answered what, and what silence or a hand-marked task is worth."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import ROOT


class Ti:
    """Hand-over values of one task instance."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.id = "0"

    def xcom_pull(self, task_ids: str = "", key: str = "return_value") -> Any:
        return self.values.get(f"{task_ids}.{key}")

    def xcom_push(self, key: str, value: Any) -> None:
        self.values[f"approval.{key}"] = value


def gate(**changes: Any) -> Any:
    from airflow.sdk import DAG

    from plugins.approval import ReleaseApproval

    options = {"report": "", "approvers": ["alice"], "timeout_s": 60, **changes}
    with DAG("d", schedule=None):
        return ReleaseApproval(task_id="approval", subject="?", **options)


def event(**changes: Any) -> dict[str, Any]:
    given = {
        "chosen_options": ["Approve"],
        "params_input": {},
        "responded_at": datetime(2026, 1, 1, tzinfo=UTC),
        "responded_by_user": {"id": "alice", "name": "alice"},
    }
    return {**given, **changes}


def answered(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = gate().execute_complete({"ti": Ti({"approval.asked_digest": "abc"})}, event(**changes))
    return found


def test_no_default_answers() -> None:
    assert gate().defaults is None and gate().options == ["Approve", "Reject"]


def test_an_answer_is_bound_to_the_digest_that_was_shown() -> None:
    found = answered(params_input={"reason": "fine"})
    assert (found["approver"], found["decision"], found["digest"], found["reason"]) == (
        "alice",
        "approve",
        "abc",
        "fine",
    )


def test_a_rejection_names_who_rejected() -> None:
    found = answered(chosen_options=["Reject"], params_input={"reason": "baby food"})
    assert (found["approver"], found["decision"], found["reason"]) == ("alice", "reject", "baby food")


def test_silence_rejects() -> None:
    found = gate().execute_complete(
        {"ti": Ti({"approval.asked_digest": "abc"})}, {"error": "timed out", "error_type": "timeout"}
    )
    assert (found["approver"], found["decision"]) == ("", "reject")
    assert "nobody answered" in found["reason"]


def test_an_answer_by_nobody_never_approves() -> None:
    assert answered(responded_by_user=None)["decision"] == "reject"


@pytest.mark.parametrize("reason", [3, "x" * 501, ["a"]])
def test_words_are_checked_again(reason: Any) -> None:
    from airflow.sdk.exceptions import AirflowException

    with pytest.raises(AirflowException, match="reason"):
        answered(params_input={"reason": reason})


def test_nobody_to_ask_fails() -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="approvers"):
        gate(approvers=[]).execute({"ti": Ti({})})


def test_nothing_to_show_fails(tmp_path: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="rerun"):
        gate(report=str(tmp_path / "reports" / "regression.json")).execute({"ti": Ti({})})


def rendered(values: dict[str, Any]) -> dict[str, str]:
    import jinja2

    from plugins.approval import approve_options

    return {k: jinja2.Template(v).render(ti=Ti(values)) for k, v in approve_options().items()}


def test_a_task_marked_successful_by_hand_signs_nothing() -> None:
    assert rendered({}) == {"approver": "", "decision": "reject", "digest": "", "reason": "no answer was given"}


def test_the_stage_gets_what_was_answered() -> None:
    found = rendered({"approval.return_value": answered(params_input={"reason": "fine"})})
    assert found == {"approver": "alice", "decision": "approve", "digest": "abc", "reason": "fine"}


def test_the_page_is_read_from_the_record(tmp_path: Path) -> None:
    from plugins.approval import read_shown

    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "regression.json").write_text(json.dumps({"markdown": "| a |", "digest": "abc", "x": 1}))
    assert read_shown(tmp_path / "reports" / "regression.json") == {"markdown": "| a |", "digest": "abc"}
    assert ROOT.exists()
