"""From an asset event or a parameter to the candidate that a run releases."""

from __future__ import annotations

import hashlib
from typing import Any

from airflow.sdk import Asset, Context
from airflow.sdk.exceptions import AirflowFailException

# Without a URI of its own: to check one, Airflow imports every provider's handlers, Google's storage client among them.
RELEASE_CANDIDATES = Asset(name="release_candidates")
URI_PATTERN = r"^(gs://|file:///|/)\S+$"


def announce(context: Context, uri: str, recipe: str) -> str:
    """Put the candidate's address into the event of this run."""
    context["outlet_events"][RELEASE_CANDIDATES].extra = {"candidate": uri, "recipe": recipe}
    return uri


def resolve(context: Context) -> dict[str, Any]:
    """The candidate of this run, and runs to start for the others where several events came in one.

    Raises:
        AirflowFailException: there is no candidate.
    """
    told = context["params"].get("candidate")
    uris = [told] if told else _from_events(context)
    if not uris:
        raise AirflowFailException('no candidate: trigger with {"candidate": "gs://… or a folder"} or by the asset')
    run_id = context["run_id"]
    others = [
        {"conf": {"candidate": uri}, "trigger_run_id": f"batched__{_short(run_id)}__{_short(uri)}"} for uri in uris[1:]
    ]
    return {"uri": uris[0], "spec": spec_of(uris[0]), "others": others}


def spec_of(uri: str) -> str:
    """Address of the candidate's release.yaml."""
    return uri if uri.endswith((".yaml", ".yml")) else f"{uri.rstrip('/')}/release.yaml"


def describe(workspace: str) -> dict[str, Any]:
    """What the wiring needs of the checked spec: models, and who signs, until when."""
    from pathlib import Path

    from release_tasks.spec import load_spec

    spec = load_spec(Path(workspace) / "candidate" / "release.yaml")
    return {
        "name": spec.name,
        "models": [model.name for model in spec.models],
        "approvers": list(spec.regression.approvers),
        "timeout_s": spec.regression.timeout_s,
        "promote": spec.promote,
    }


def _from_events(context: Context) -> list[str]:
    found = [event.extra for events in context["triggering_asset_events"].values() for event in events]
    wanted = [str(extra["candidate"]) for extra in found if extra.get("candidate")]
    return list(dict.fromkeys(wanted))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
