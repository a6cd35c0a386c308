"""Hand routes to Envoy through its watched file, and read from its admin interface what is in force."""

from __future__ import annotations

import json
import time
from typing import Any

from release_tasks.clients.direct import OPENER
from release_tasks.errors import TrafficError
from release_tasks.platforms.local_logs import log_tail
from release_tasks.platforms.local_routes import ROUTE_CONFIG, weights_of
from release_tasks.settings import LocalSettings
from release_tasks.workspace import write_atomic

CONFIRM_S = 2.0


class EnvoyRoutes:
    """Routes of the local Envoy."""

    def __init__(self, local: LocalSettings) -> None:
        self._admin = local.envoy_admin.rstrip("/")
        self._file = local.routes_dir / "rds.json"
        self._log = local.run_dir / "logs" / "envoy.log"

    def commanded(self) -> dict[str, Any]:
        """RouteConfiguration in the watched file; empty where there is none."""
        try:
            found: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))["resources"][0]
        except (OSError, ValueError, KeyError, IndexError):
            return {}
        return found

    def install(self, configuration: dict[str, Any]) -> None:
        """Write routes and wait until Envoy has them in force.

        Raises:
            TrafficError: it did not within two seconds; the routes before are back in the file.
        """
        before = self._file.read_bytes() if self._file.exists() else None
        version = str(time.time_ns())
        document = {"version_info": version, "resources": [configuration]}
        write_atomic(self._file, json.dumps(document, indent=1))
        try:
            self._confirm(version)
        except TrafficError:
            if before is not None:
                write_atomic(self._file, before)
            raise

    def weights(self) -> dict[str, int]:
        """Percent per slot that Envoy has in force.

        Raises:
            TrafficError: its admin interface does not answer.
        """
        return weights_of(self._in_force().get("route_config", {}))

    def _confirm(self, version: str) -> None:
        limit = time.monotonic() + CONFIRM_S
        while True:
            if self._in_force().get("version_info") == version:
                return
            if time.monotonic() > limit:
                raise TrafficError(
                    f"Envoy did not take the new routes within {CONFIRM_S:.0f} s; the old ones are in force",
                    remedy=f"look for `rds` in {self._log}, then run the stage again",
                    log_tail=log_tail(self._log),
                )
            time.sleep(0.005)

    def _in_force(self) -> dict[str, Any]:
        """The dynamic route configuration of Envoy's config dump: version_info and route_config."""
        url = f"{self._admin}/config_dump?resource=dynamic_route_configs"
        try:
            with OPENER.open(url, timeout=CONFIRM_S) as response:
                entries = json.load(response).get("configs", [])
        except (OSError, ValueError) as error:
            raise TrafficError(
                f"Envoy's admin interface {self._admin} does not answer: {error}",
                remedy="see `make status`; supervisord restarts Envoy, then run the stage again",
                log_tail=log_tail(self._log),
            ) from error
        for entry in entries:
            if entry.get("route_config", {}).get("name") == ROUTE_CONFIG:
                return dict(entry)
        return {}
