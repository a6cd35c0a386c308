"""The question to the business owner. It records what was answered; the stage after it decides what that is worth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowException, AirflowFailException

APPROVE, REJECT = "Approve", "Reject"
REASON_LIMIT = 500
ASKED = "asked_digest"


class ReleaseApproval(HITLOperator):  # type: ignore[misc]  # Airflow is not type-checked
    """Asks the approvers named by the spec, showing them the table of business cases.

    There is no default answer. Nobody answering in time is recorded as a rejection. A task that is marked successful by
    hand leaves no answer behind, and the stage `approve` then has nobody who signed.

    Args:
        report: path of the regression report; templated.
        approvers: user names that may answer; templated.
        timeout_s: seconds until silence counts as a rejection; templated.
    """

    template_fields: Sequence[str] = ("subject", "body", "report", "approvers", "timeout_s")

    def __init__(self, *, report: str, approvers: Any, timeout_s: Any, **kwargs: Any) -> None:
        reason = Param(None, type=["null", "string"], maxLength=REASON_LIMIT, description="Why, for the record.")
        kwargs.pop("params", None)  # those of the DAG, which Airflow hands to every operator
        super().__init__(options=[APPROVE, REJECT], multiple=False, params={"reason": reason}, **kwargs)
        self.report, self.approvers, self.timeout_s = report, approvers, timeout_s

    def execute(self, context: Context) -> None:
        """Ask, then wait without holding a worker.

        Raises:
            AirflowFailException: nobody may answer, or there is nothing to show.
        """
        names = [str(name) for name in self.approvers or ()]
        if not names:
            raise AirflowFailException("regression.approvers names nobody, so nobody may sign")
        shown = read_shown(Path(str(self.report)))
        self.body = shown["markdown"]
        self.assigned_users = [{"id": name, "name": name} for name in names]
        self.response_timeout = timedelta(seconds=float(self.timeout_s))
        # The answer is bound to what was shown now, whatever the report says when the answer comes.
        context["ti"].xcom_push(key=ASKED, value=shown["digest"])
        super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Check the answer again: the interface that takes it does not hold it against the schema."""
        digest = context["ti"].xcom_pull(task_ids=self.task_id, key=ASKED)
        if event.get("error_type") == "timeout":
            self.log.warning("nobody answered within %s s: rejected", self.timeout_s)
            reason = f"nobody answered within {float(self.timeout_s):g} s"
            return answer(None, REJECT, digest, reason, datetime.now(UTC))
        given = super().execute_complete(context, event)
        reason = checked_reason(given["params_input"])
        user = given["responded_by_user"] or {}
        return answer(user.get("id"), given["chosen_options"][0], digest, reason, given["responded_at"])


def read_shown(report: Path) -> dict[str, str]:
    """Table and digest of the regression record that lies beside the report.

    Raises:
        AirflowFailException: there is none.
    """
    record = report.parent.parent / "records" / "regression.json"
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        return {"markdown": str(found["markdown"]), "digest": str(found["digest"])}
    except (OSError, ValueError, KeyError) as error:
        raise AirflowFailException(
            f"{record}: nothing to show to the approver ({type(error).__name__}: {error}); rerun `regression`"
        ) from error


def checked_reason(params: dict[str, Any]) -> str:
    """The person's words.

    Raises:
        AirflowException: not a text, or too long; the question is asked again.
    """
    reason = params.get("reason")
    if reason is not None and (not isinstance(reason, str) or len(reason) > REASON_LIMIT):
        raise AirflowException(f"reason: {str(reason)[:60]!r} is not a text of at most {REASON_LIMIT} characters")
    return reason or ""


def answer(user: str | None, option: str, digest: str | None, reason: str, when: datetime) -> dict[str, Any]:
    """What goes on to `approve`."""
    return {
        "approver": user or "",
        "decision": "approve" if option == APPROVE and user else "reject",
        "digest": digest or "",
        "reason": reason,
        "responded_at": when.isoformat(),
    }


def approve_options(task_id: str = "approval") -> dict[str, str]:
    """Templates of the options of `approve`; where nobody answered, a rejection by nobody."""
    given = f"(ti.xcom_pull(task_ids='{task_id}') or {{}})"
    absent = {"approver": "", "decision": "reject", "digest": "", "reason": "no answer was given"}
    return {key: f"{{{{ {given}.get('{key}', '{default}') }}}}" for key, default in absent.items()}
