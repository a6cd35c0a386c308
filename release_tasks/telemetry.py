"""From Prometheus to counter readings: one query per look, the same PromQL in every profile.

All series come from ONE expression, evaluated at one instant: two queries with a scrape between them would show
requests without their bucket, which reads as slow. Samples older than three scrape intervals are left out by the
expression itself, since an instant query would repeat them for five minutes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from release_tasks.clients.prometheus import Prometheus, Sample
from release_tasks.errors import MetricsError
from release_tasks.judge.evidence import ATTEMPTS, ERRORS, SLOW, Kind, Reading, Role, Scrape
from release_tasks.platforms.state import LiveModel

STALE_INTERVALS = 3
_REQUESTS, _COUNT, _WITHIN, _TRIES, _RETRIES = "requests", "count", "within", "tries", "retries"
_ROLELESS = {"__name__", "reading"}

# Refused before a model was reached: no fault of any release.
_HTTP_REFUSED = {"401", "403"}
_GRPC_FINE = {"", "0", "7", "16"}  # absent (HTTP), OK, PERMISSION_DENIED, UNAUTHENTICATED


@dataclass(frozen=True)
class Telemetry:
    """What to read.

    Attributes:
        prometheus: where to ask.
        models: the candidate's models with their SLA in milliseconds.
        stable_models: names of the stable release's models.
        slots: role by production slot.
        scrape_interval_s: of Prometheus, seconds.
    """

    prometheus: Prometheus
    models: tuple[LiveModel, ...]
    stable_models: frozenset[str]
    slots: dict[str, Role]
    scrape_interval_s: float

    def look(self) -> Scrape:
        """All counters now. A Prometheus that does not answer is a look without evidence, not an error."""
        at = time.time()
        try:
            samples = self.prometheus.query(self.expression())
        except MetricsError as error:
            return Scrape(at=at, fault=f"Prometheus: {error.message}")
        return Scrape(at=at, readings=tuple(r for s in samples for r in self._readings(s)))

    def expression(self) -> str:
        """The PromQL of one look."""
        workload = f'destination_workload=~"{"|".join(self.slots)}"'
        # Of both releases: a model that the candidate no longer has is answered 404 to users who still ask for it.
        models = "|".join([*sorted({m.name for m in self.models} | self.stable_models), "grpc"])
        base = f'reporter="source",{workload},'
        parts = {
            _REQUESTS: [f'istio_requests_total{{{base}model=~"{models}"}}'],
            _COUNT: [f'istio_request_duration_milliseconds_count{{{base}model=~"{models}"}}'],
            _WITHIN: [
                f'istio_request_duration_milliseconds_bucket{{{base}model="{m.name}",le=~"{m.sla_ms}|{m.sla_ms}\\\\.0"}}'
                for m in self.models
            ],
            _TRIES: [f'envoy_cluster_upstream_rq_total{{envoy_cluster_name=~"{"|".join(self.slots)}"}}'],
            _RETRIES: [f'envoy_cluster_upstream_rq_retry{{envoy_cluster_name=~"{"|".join(self.slots)}"}}'],
        }
        marked = [self._fresh(selector, name) for name, selectors in parts.items() for selector in selectors]
        return " or ".join(marked)

    def _fresh(self, selector: str, name: str) -> str:
        # `or` and `and` compare labels without the metric's name, so every part gets a label of its own.
        oldest = STALE_INTERVALS * self.scrape_interval_s
        fresh = f"({selector} and (time() - timestamp({selector}) <= {oldest:g}))"
        return f'label_replace({fresh}, "reading", "{name}", "", "")'

    def _readings(self, sample: Sample) -> list[Reading]:
        labels = sample.labels
        what = labels.get("reading", "")
        role = self.slots.get(labels.get("destination_workload") or labels.get("envoy_cluster_name", ""))
        if role is None:
            return []
        series = what + ",".join(f"{k}={v}" for k, v in sorted(labels.items()) if k not in _ROLELESS)

        def reading(metric: str, kind: Kind) -> Reading:
            return Reading(role=role, metric=metric, kind=kind, series=series, value=sample.value)

        if what == _REQUESTS:
            if role is Role.stable and labels.get("model") not in self.stable_models | {"grpc"}:
                return []  # stable cannot answer for a model that is new: its 404s excuse no failure of the candidate
            total = reading(ERRORS, Kind.total)
            return [total, reading(ERRORS, Kind.bad)] if is_bad(labels) else [total]
        if what in (_COUNT, _WITHIN):
            if labels.get("model") == "grpc":  # its model, and so its SLA, is unknown
                return []
            if labels.get("model") not in {m.name for m in self.models}:
                return []
            return [reading(f"{SLOW}{labels['model']}", Kind.total if what == _COUNT else Kind.good)]
        # A retry that reached no server is not among the requests, so it counts as an attempt of its own.
        tried = reading(ATTEMPTS, Kind.total)
        return [tried, reading(ATTEMPTS, Kind.bad)] if what == _RETRIES else [tried]


def is_bad(labels: dict[str, str]) -> bool:
    """Whether users saw a failure: an HTTP code outside 2xx and 3xx, no answer at all (0), or a gRPC status."""
    code = labels.get("response_code", "")
    if labels.get("grpc_response_status", "") not in _GRPC_FINE:
        return True
    return code[:1] not in ("2", "3") and code not in _HTTP_REFUSED
