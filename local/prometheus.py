"""Prometheus, with the series named as Istio names them, so that the gates' PromQL is the production one."""

from __future__ import annotations

from typing import Any

import yaml

from local.component import Component
from local.http import probe
from local.paths import Paths
from local.tools import prometheus_binary
from release_tasks.settings import PRODUCTION_SLOTS, STAGING

SCRAPE_INTERVAL_S = 1

# Users' requests, and the attempts behind them (retries mask a bad candidate in what users see).
_ENVOY_SERIES = r"(^istio\.|^cluster\.(blue|green)\.(upstream_rq|retry|membership|upstream_cx_none))"


def component(paths: Paths, ports: dict[str, int]) -> Component:
    """Write the configuration and describe the process."""
    file = paths.config / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration(ports), sort_keys=False), encoding="utf-8")
    address = f"127.0.0.1:{ports['prometheus']}"
    return Component(
        name="prometheus",
        command=[
            str(prometheus_binary()),
            f"--config.file={file}",
            f"--storage.tsdb.path={paths.run / 'prometheus'}",
            "--storage.tsdb.retention.time=2d",
            f"--web.listen-address={address}",
            "--log.level=warn",
        ],
        healthy=probe(f"http://{address}/-/ready"),
    )


def configuration(ports: dict[str, int]) -> dict[str, Any]:
    """Scrapes Envoy and every slot each second."""
    servers = [
        {"targets": [f"127.0.0.1:{ports[f'{slot}_metrics']}"], "labels": {"destination_workload": slot}}
        for slot in (STAGING, *PRODUCTION_SLOTS)
    ]
    interval = f"{SCRAPE_INTERVAL_S}s"
    return {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        "scrape_configs": [
            {
                "job_name": "envoy",
                "metrics_path": "/stats/prometheus",
                "params": {"filter": [_ENVOY_SERIES]},
                "static_configs": [{"targets": [f"127.0.0.1:{ports['envoy_admin']}"]}],
                "metric_relabel_configs": [
                    {
                        "source_labels": ["__name__"],
                        "regex": "envoy_(istio_.+)",
                        "target_label": "__name__",
                        "replacement": "$1",
                    },
                    # Envoy writes "-" where a request was not gRPC; Istio leaves the label out.
                    {
                        "source_labels": ["grpc_response_status"],
                        "regex": "-",
                        "target_label": "grpc_response_status",
                        "replacement": "",
                    },
                ],
            },
            {"job_name": "triton", "static_configs": servers},
        ],
    }
