"""The demo's approver: reads the page that Airflow shows and answers as a business owner would."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from local.demo_client import Airflow, Refused

PATIENCE_S = 8.0  # an answer that comes right after the question can fail the task
WARNING = "- ⚠"


def decide(page: str) -> tuple[str, str]:
    """Option and words: reject when a case or group dropped, approve otherwise."""
    warnings = [line.removeprefix(WARNING).strip(" *") for line in page.splitlines() if line.startswith(WARNING)]
    if warnings:
        return "Reject", f"I will not sign this: {'; '.join(warnings).replace('**', '')}"[:500]
    return "Approve", "No case and no group is worse."


@dataclass
class Approver:
    """Answers every open question once it has been open for a while.

    Attributes:
        session: the approver's own login.
        say: prints a line.
        interactive: a person answers; only say where.
    """

    session: Airflow
    say: Callable[[str], None]
    interactive: bool = False
    _seen: dict[tuple[str, str], float] = field(default_factory=dict)

    def look(self) -> None:
        """Answer what is due."""
        for question in self.session.questions():
            ti = question["task_instance"]
            key = (ti["dag_run_id"], f"{ti['id']}-{ti['try_number']}")
            if key not in self._seen:
                self._seen[key] = time.monotonic()
                self._announce(question)
            elif not self.interactive and time.monotonic() - self._seen[key] > PATIENCE_S:
                self._answer(question)

    def _announce(self, question: dict[str, Any]) -> None:
        ti = question["task_instance"]
        page = f"{self.session.url}/dags/{ti['dag_id']}/runs/{ti['dag_run_id']}/tasks/{ti['task_id']}/required_actions"
        self.say(f"approval asked: {question['subject']}  {page}")
        if self.interactive:
            self.say("waiting for a person: sign in as alice, read the table, and answer")

    def _answer(self, question: dict[str, Any]) -> None:
        option, words = decide(question["body"] or "")
        try:
            self.session.answer(question, option, words)
        except Refused as error:
            if error.status not in (404, 409):  # answered or cleared meanwhile
                raise
            return
        self.say(f"the demo answers as {self.session.user} through the REST API: {option}, “{words}”")
