"""The spec of what is live, for commands that a person starts without knowing it."""

from __future__ import annotations

from release_tasks.errors import InvalidInput
from release_tasks.platforms import open_platform
from release_tasks.settings import load_settings


def live_spec_uri() -> str:
    """Address of the spec of the candidate in flight, else of the stable release.

    Raises:
        InvalidInput: nothing is live.
    """
    state = open_platform(load_settings()).state()
    live = state.candidate or state.stable
    if live is None:
        raise InvalidInput(
            field="--spec", value="(not given)", rule="no release is live", remedy="promote a release first"
        )
    return f"{live.uri.rstrip('/')}/release.yaml"
