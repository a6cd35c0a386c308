"""The staging server, as the stages after `deploy_staging` see it."""

from __future__ import annotations

from release_tasks.artifacts import PublishedRelease
from release_tasks.clients.triton import TritonServer
from release_tasks.context import StageContext
from release_tasks.errors import ComponentDown, ServingError, StageOrderError
from release_tasks.platforms import open_platform
from release_tasks.platforms.base import SlotPhase
from release_tasks.settings import STAGING


def staging_server(context: StageContext) -> TritonServer:
    """The staging server, proved to run this release: its served configuration says so.

    Raises:
        ComponentDown: no server answers; with its last log lines.
        StageOrderError: it runs another release.
    """
    settings = context.need_settings()
    release = context.workspace.load(PublishedRelease).release
    server = TritonServer(settings.slots[STAGING])
    try:
        served = {server.server_release(model.name) for model in context.spec.models}
    except ServingError as error:
        raise staging_fault(context, error) from error
    if served != {release}:
        raise StageOrderError(
            f"staging runs {', '.join(sorted(served)) or 'an unnamed release'}, this run is about {release}",
            remedy="run `deploy_staging` again, and this stage after it",
        )
    return server


def staging_fault(context: StageContext, error: ServingError) -> ComponentDown | ServingError:
    """The error to raise when staging did not answer: a dead server is named, with its log."""
    status = open_platform(context.need_settings()).status(STAGING)
    if status.phase is SlotPhase.ready:
        return error
    return ComponentDown(
        f"the staging tritonserver is {status.phase.value}: {error.message}",
        remedy="run `deploy_staging` again; if it fails again, the log says why",
        log_tail=status.message,
    )
