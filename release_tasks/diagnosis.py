"""Name the component behind an error, with the last lines of its log, where the profile has the logs at hand."""

from __future__ import annotations

from release_tasks.errors import InvalidInput, MetricsError, ReleaseError, StorageError, TrafficError
from release_tasks.platforms.local_logs import log_tail
from release_tasks.settings import Settings, load_settings

# Exact classes: their subclasses speak of bytes and preconditions, which no log explains.
LOCAL_COMPONENT: dict[type[ReleaseError], str] = {
    StorageError: "fake-gcs-server",
    MetricsError: "prometheus",
    TrafficError: "envoy",
}


def explain(error: ReleaseError, settings: Settings | None) -> None:
    """Add the component's last log lines to an error that has none. Never raises."""
    component = LOCAL_COMPONENT.get(type(error))
    if component is None or error.log_tail:
        return
    try:
        local = (settings or load_settings()).local
    except InvalidInput:
        return  # no stack is configured, so there is no log either
    if local is not None:
        path = local.run_dir / "logs" / f"{component}.log"
        error.log_tail = f"({component}, {path})\n{log_tail(path) or 'its log is empty'}"
