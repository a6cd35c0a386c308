"""Start the release on the staging server."""

from __future__ import annotations

from release_tasks.artifacts import PublishedRelease
from release_tasks.context import StageContext
from release_tasks.outcome import StageReport
from release_tasks.platforms import open_platform
from release_tasks.platforms.base import SlotPhase
from release_tasks.production import live_release, place_of
from release_tasks.settings import STAGING


def run(context: StageContext) -> StageReport:
    """Deploy and wait until every model is ready. The release running there already is no change.

    Raises:
        ServingError: not ready before `serving.ready_deadline_s`, with the server's last log lines.
    """
    settings, spec = context.need_settings(), context.spec
    published = context.workspace.load(PublishedRelease)
    draft = context.draft("deploy_staging", published.release)
    deadline = spec.serving.ready_deadline_s
    began = context.monotonic()
    status = open_platform(settings).deploy(live_release(place_of(context), spec, STAGING), deadline_s=deadline)
    seconds = context.monotonic() - began
    draft.check(
        "staging.ready",
        status.phase is SlotPhase.ready and seconds <= deadline,
        f"{len(spec.models)} models ready in {seconds:.1f} s",
        f"{deadline} s",
        detail=status.message,
    )
    draft.numbers["ready_s"] = round(seconds, 3)
    draft.outputs = {"http": settings.slots[STAGING].http, "grpc": settings.slots[STAGING].grpc}
    return draft.finish()
