"""Envoy's routes for a serving state, pure.

x-force-slot: <slot>            -> that slot, route `probe`: never part of the evidence
/v2/models/<model>/…infer       -> by weight, route named like the model
gRPC                            -> by weight, route `grpc`: the model's name is in the message, not in the path
anything else                   -> by weight, route `other`
no weights at all               -> 503, route `other`
"""

from __future__ import annotations

import re
from typing import Any

from release_tasks.platforms.state import LiveModel, ServingState
from release_tasks.settings import PRODUCTION_SLOTS

ROUTE_CONFIG = "traffic"
FORCE_SLOT_HEADER = "x-force-slot"
SERVED_BY_HEADER = "x-served-by"

# The top edge of the latency histogram: a slower answer is one that nobody waits for.
_TIMEOUT = "5s"

# Only attempts that reached no server are tried again. Retrying a failed answer would hide a bad candidate from its
# users and, worse, from the judge; the attempts stay visible as envoy_cluster_upstream_rq and envoy_cluster_…retry.
_RETRIES = {"retry_on": "connect-failure,refused-stream", "num_retries": 1}


def route_configuration(state: ServingState) -> dict[str, Any]:
    """Envoy's RouteConfiguration for a state.

    While nothing is stable, the only release takes all traffic whatever its weight: Envoy's weights are relative, and
    an answer from it is better than none.
    """
    weights = {slot: weight for slot, weight in state.slot_weights().items() if weight > 0}
    routes = [route for slot in PRODUCTION_SLOTS for route in _probes(slot)]
    if weights:
        routes.extend(_model_route(model, weights) for model in _models(state))
        routes.append(_route("grpc", {"prefix": "/", "grpc": {}}, _split(weights, "_grpc")))
        routes.append(_route("other", {"prefix": "/"}, _split(weights, "")))
    else:
        answer = {"status": 503, "body": {"inline_string": "no release is live"}}
        routes.append({"name": "other", "match": {"prefix": "/"}, "direct_response": answer})
    return {
        "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        "name": ROUTE_CONFIG,
        # Without it a wrong cluster name is accepted and its share of the users gets 503.
        "validate_clusters": True,
        "virtual_hosts": [{"name": "traffic", "domains": ["*"], "routes": routes}],
    }


def weights_of(configuration: dict[str, Any]) -> dict[str, int]:
    """Percent per production slot in a RouteConfiguration, however it came about."""
    weights = dict.fromkeys(PRODUCTION_SLOTS, 0)
    for host in configuration.get("virtual_hosts", []):
        for route in host.get("routes", []):
            if route.get("name") != "other":
                continue
            split = route.get("route", {}).get("weighted_clusters", {})
            for cluster in split.get("clusters", []):
                weights[cluster["name"]] = int(cluster.get("weight", 0))
    return weights


def _models(state: ServingState) -> list[LiveModel]:
    releases = [release for release in (state.stable, state.candidate) if release]
    return sorted({model.name: model for release in releases for model in release.models}.values(), key=_by_name)


def _by_name(model: LiveModel) -> str:
    return model.name


def _model_route(model: LiveModel, weights: dict[str, int]) -> dict[str, Any]:
    path = rf"/v2/models/{re.escape(model.name)}(/versions/[0-9]+)?/infer"
    return _route(model.name, {"safe_regex": {"regex": path}}, _split(weights, ""))


def _probes(slot: str) -> list[dict[str, Any]]:
    header = {"name": FORCE_SLOT_HEADER, "string_match": {"exact": slot}}
    match = {"prefix": "/", "headers": [header]}
    grpc = _route("probe", {**match, "grpc": {}}, _split({slot: 100}, "_grpc"))
    return [grpc, _route("probe", match, _split({slot: 100}, ""))]


def _split(weights: dict[str, int], suffix: str) -> dict[str, Any]:
    clusters = [
        {
            "name": f"{slot}{suffix}",
            "weight": weight,
            "response_headers_to_add": [{"header": {"key": SERVED_BY_HEADER, "value": slot}}],
        }
        for slot, weight in weights.items()
    ]
    return {"weighted_clusters": {"clusters": clusters}}


def _route(name: str, match: dict[str, Any], action: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "match": match, "route": {**action, "timeout": _TIMEOUT, "retry_policy": _RETRIES}}
