"""The demo's users: starts their program under supervisord and reads what they got."""

from __future__ import annotations

import contextlib
import json
import time
import xmlrpc.client
from dataclasses import dataclass
from pathlib import Path

from local import supervisor
from local.http import get_json
from local.paths import Paths
from local.plan import write_traffic
from release_tasks.errors import ComponentDown, ReleaseError
from release_tasks.settings import load_settings

START_S = 90


@dataclass(frozen=True)
class Users:
    """Live users of one running stack."""

    paths: Paths

    @property
    def stats(self) -> Path:
        """File that the program keeps up to date."""
        return self.paths.run / "traffic.json"

    def start(self, rate: int, data: Path) -> None:
        """Let them come; returns when the first requests were answered.

        Raises:
            ComponentDown: no request was sent in time.
        """
        self.stats.unlink(missing_ok=True)
        write_traffic(self.paths, data, rate)
        server = supervisor.connect(self.paths).supervisor
        with contextlib.suppress(xmlrpc.client.Fault):  # it was not running
            server.stopProcess("traffic")
        server.startProcess("traffic", True)
        until = time.monotonic() + START_S
        while self.count("requests") == 0:
            if time.monotonic() > until:
                log = self.paths.log("traffic")
                raise ComponentDown("traffic: no request was sent", remedy=f"see {log}", log_tail=supervisor.tail(log))
            time.sleep(0.5)

    def count(self, name: str) -> int:
        """A counter of the program; 0 before it has written any."""
        try:
            return int(json.loads(self.stats.read_text(encoding="utf-8")).get(name, 0))
        except (OSError, ValueError):
            return 0


def served_release(paths: Paths, model: str) -> str:
    """Release id that the server on the users' path says it serves; empty when nobody answers there."""
    try:
        base = load_settings(paths.settings).traffic.http.rstrip("/")
        parameters = get_json(f"{base}/v2/models/{model}/config").get("parameters", {})
    except (OSError, ValueError, ReleaseError):
        return ""
    return str(parameters.get("release_id", {}).get("string_value", ""))
