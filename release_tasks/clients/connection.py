"""The connection to Google Cloud Storage or to an emulator of it, and how long it is tried."""

from __future__ import annotations

from functools import cache
from typing import Any

WORKERS = 8
# The client's own default goes on for two minutes when nothing listens.
DEADLINE_S = 12.0


def retry_policy() -> Any:
    """Retries with back-off until the deadline."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(DEADLINE_S).with_delay(initial=0.2, maximum=3.0)


@cache
def connect(endpoint: str | None) -> Any:
    """One client per process and endpoint, with a connection per worker."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage
    from requests.adapters import HTTPAdapter

    if endpoint is None:
        client = storage.Client()
    else:
        client = storage.Client(
            project="local", credentials=AnonymousCredentials(), client_options={"api_endpoint": endpoint}
        )
    adapter = HTTPAdapter(pool_connections=WORKERS, pool_maxsize=WORKERS)
    client._http.mount("http://", adapter)
    client._http.mount("https://", adapter)
    return client
