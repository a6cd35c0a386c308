"""Which components a stack has, on which ports, in which order."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from local import airflow, envoy, gcs, postgres, prometheus, triton
from local.component import Component
from local.paths import ROOT, Paths
from local.ports import free_ports
from local.secrets import make_secret
from release_tasks.settings import Endpoints, LocalSettings, Settings, StorageSettings

_PORTS = ["gcs", "prometheus", "traffic", "envoy_admin"]
REQUESTS = ROOT / ".local" / "recsys-cache" / "traffic.npz"  # written by the example's training
OPTIONAL = ("airflow", "guard")


@dataclass(frozen=True)
class Prepared:
    """A stack that is configured and not yet started."""

    ports: dict[str, int]
    components: list[Component]

    def groups(self) -> list[list[Component]]:
        """Components to start, in order; those of one group start side by side."""
        started = [component for component in self.components if component.start]
        together = [
            [component for component in started if component.name in triton.SLOTS],
            [component for component in started if component.name.startswith("airflow-")],
        ]
        single = [[component] for component in started if not any(component in group for group in together)]
        return [group for group in (*single, *together) if group]


def prepare(paths: Paths, without: frozenset[str]) -> Prepared:
    """Choose ports, write every configuration file and the settings."""
    names = [*_PORTS, *(f"{slot}_{kind}" for slot in triton.SLOTS for kind in ("http", "grpc", "metrics"))]
    ports = free_ports([*names, "postgres", "airflow"])
    make_secret(paths.secrets / "approval.key")
    paths.settings.write_text(_settings(paths, ports).model_dump_json(indent=1), encoding="utf-8")
    components = [
        gcs.component(paths, ports),
        prometheus.component(paths, ports),
        envoy.component(paths, ports),
        *triton.components(sys.executable, paths, ports),
        _traffic(paths, ports),
    ]
    if "guard" not in without:
        components.append(_guard())
    if "airflow" not in without:
        components.append(postgres.component(paths, ports))
        components.extend(airflow.components(paths, ports))
    return Prepared(ports=ports, components=components)


def _settings(paths: Paths, ports: dict[str, int]) -> Settings:
    def url(name: str) -> str:
        return f"http://127.0.0.1:{ports[name]}"

    slots = {
        slot: Endpoints(
            http=url(f"{slot}_http"),
            grpc=f"127.0.0.1:{ports[f'{slot}_grpc']}",
            metrics=f"{url(f'{slot}_metrics')}/metrics",
        )
        for slot in triton.SLOTS
    }
    return Settings(
        profile="local",
        storage=StorageSettings(bucket=gcs.BUCKET, endpoint=url("gcs")),
        prometheus=url("prometheus"),
        scrape_interval_s=prometheus.SCRAPE_INTERVAL_S,
        traffic=Endpoints(
            http=url("traffic"),
            grpc=f"127.0.0.1:{ports['traffic']}",
            metrics=f"{url('envoy_admin')}/stats/prometheus",
        ),
        slots=slots,
        workspace_root=str(paths.run / "workspaces"),
        approval_key_file=paths.secrets / "approval.key",
        local=LocalSettings(
            run_dir=paths.run,
            supervisor_socket=paths.supervisor_socket,
            routes_dir=paths.routes,
            envoy_admin=url("envoy_admin"),
        ),
    )


def _guard() -> Component:
    return Component(name="guard", command=[sys.executable, "-m", "release_tasks", "guard", "--every", "2"])


def write_traffic(paths: Paths, data: Path, rate: float) -> Path:
    """Choose what the `traffic` program sends from its next start on; the file it reads."""
    variables = paths.config / "traffic.env"
    variables.write_text(f"TRAFFIC_DATA='{data}'\nTRAFFIC_RATE='{rate:g}'\n", encoding="utf-8")
    return variables


def _traffic(paths: Paths, ports: dict[str, int]) -> Component:
    """Live users. Data and rate stand in a file, so that whoever starts it chooses them at that moment."""
    data = Path(os.environ.get("TRAFFIC_DATA", str(REQUESTS)))
    variables = write_traffic(paths, data, float(os.environ.get("TRAFFIC_RATE", "40")))
    url = f"http://127.0.0.1:{ports['traffic']}"
    script = (
        f". {variables}; exec {sys.executable} -m examples.recsys.traffic --url {url} --data $TRAFFIC_DATA"
        f" --rate $TRAFFIC_RATE --stats {paths.run / 'traffic.json'}"
    )
    return Component(name="traffic", command=["/bin/sh", "-c", script], start=False)
