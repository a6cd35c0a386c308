"""Airflow's REST API, as far as the demo and the end-to-end tests need it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from local.http import OPENER
from release_tasks.errors import ComponentDown, InvalidInput

OVER = ("success", "failed")
Json = dict[str, Any]


class Refused(InvalidInput):
    """Airflow refused a request; ``status`` is the HTTP status."""

    exit_code = 46

    def __init__(self, status: int, path: str, text: str) -> None:
        self.status = status
        super().__init__(field=path, value=status, rule=text[:400], remedy="see the message of Airflow's API")


@dataclass
class Airflow:
    """One user's session.

    Attributes:
        url: base URL of the api-server.
        user: name of the user.
        password: their password.
    """

    url: str
    user: str
    password: str
    _token: str = field(default="", repr=False)

    def call(self, method: str, path: str, body: Json | None = None, **query: Any) -> Any:
        """One request below /api/v2; signs in when needed.

        Raises:
            Refused: an answer of 400 or above.
            ComponentDown: nobody answers.
        """
        if not self._token:
            self._sign_in()
        address = f"{self.url}/api/v2{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        try:
            return _request(method, address, body, self._token)
        except Refused as error:
            if error.status != 401:
                raise
            self._sign_in()
            return _request(method, address, body, self._token)

    def unpause(self, dag: str, patience_s: float = 120) -> None:
        """Let the DAG run; waits until Airflow knows it."""
        until = time.monotonic() + patience_s
        while True:
            try:
                self.call("PATCH", f"/dags/{dag}", {"is_paused": False})
                return
            except Refused as error:
                if error.status != 404 or time.monotonic() > until:
                    raise
                time.sleep(2)

    def trigger(self, dag: str, run_id: str, conf: Json) -> Json:
        """Start a run."""
        body = {"dag_run_id": run_id, "conf": conf, "logical_date": None}
        found: Json = self.call("POST", f"/dags/{dag}/dagRuns", body)
        return found

    def run(self, dag: str, run_id: str) -> Json:
        """A run."""
        found: Json = self.call("GET", f"/dags/{dag}/dagRuns/{quote(run_id)}")
        return found

    def runs(self, dag: str) -> list[Json]:
        """The latest runs of a DAG, oldest first."""
        found = self.call("GET", f"/dags/{dag}/dagRuns", order_by="-run_after", limit=100)["dag_runs"]
        return list(reversed(found))

    def tasks(self, dag: str, run_id: str) -> list[Json]:
        """Task instances of a run."""
        path = f"/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances"
        found: list[Json] = self.call("GET", path, limit=100)["task_instances"]
        return found

    def xcom(self, dag: str, run_id: str, task: str, key: str = "return_value", map_index: int = -1) -> Any:
        """A hand-over value, or None where there is none."""
        path = f"/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances/{task}/xcomEntries/{key}"
        try:
            return self.call("GET", path, map_index=map_index, deserialize="true")["value"]
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def set_task(self, dag: str, run_id: str, task: str, state: str) -> None:
        """Mark a task by hand."""
        path = f"/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances/{task}"
        self.call("PATCH", path, {"new_state": state})

    def set_run(self, dag: str, run_id: str, state: str) -> None:
        """Mark a run by hand."""
        self.call("PATCH", f"/dags/{dag}/dagRuns/{quote(run_id)}", {"state": state})

    def questions(self) -> list[Json]:
        """Approvals that wait for an answer, with the text that the person is shown."""
        path = "/dags/~/dagRuns/~/hitlDetails"
        found: list[Json] = self.call("GET", path, response_received="false", limit=50)["hitl_details"]
        return found

    def answer(self, question: Json, option: str, reason: str) -> None:
        """Answer an approval as this user."""
        ti = question["task_instance"]
        path = f"/dags/{ti['dag_id']}/dagRuns/{quote(ti['dag_run_id'])}/taskInstances/{ti['task_id']}"
        body = {"chosen_options": [option], "params_input": {"reason": reason}}
        self.call("PATCH", f"{path}/{ti['map_index']}/hitlDetails", body)

    def changes(self, dag: str, run_id: str, seen: dict[str, str]) -> Iterator[tuple[str, str, Json]]:
        """Task name, state and instance of every task whose state is new; ``seen`` is brought up to date."""
        for ti in self.tasks(dag, run_id):
            index = f"[{ti['map_index']}]" if ti["map_index"] >= 0 else ""
            name, state = ti["task_id"] + index, ti["state"] or "none"
            if seen.get(name, "none") != state:
                seen[name] = state
                yield name, state, ti

    def _sign_in(self) -> None:
        body = {"username": self.user, "password": self.password}
        self._token = _request("POST", f"{self.url}/auth/token", body, "")["access_token"]


def _request(method: str, address: str, body: Json | None, token: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(address, data=data, method=method, headers=headers)
    last: Exception | None = None
    for wait in (0.5, 2, 5, 0):  # a busy api-server may drop a connection; requests here may be repeated
        try:
            with OPENER.open(request, timeout=60) as response:
                text = response.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            raise Refused(error.code, address, error.read().decode(errors="replace")) from error
        except OSError as error:
            last = error
            time.sleep(wait)
    raise ComponentDown(f"Airflow does not answer at {address}: {last}", remedy="see `make status`") from last
