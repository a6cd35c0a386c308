"""Where a release runs. One small protocol, one implementation per profile."""

from __future__ import annotations

from release_tasks.errors import InvalidInput
from release_tasks.platforms.base import Platform
from release_tasks.settings import Settings


def open_platform(settings: Settings) -> Platform:
    """The platform of the profile in use.

    Raises:
        InvalidInput: the profile has no platform in this version.
    """
    if settings.profile == "local":
        from release_tasks.platforms.local import LocalPlatform

        return LocalPlatform(settings)
    raise InvalidInput(
        field="settings.profile", value=settings.profile, rule="only `local` is available", remedy="use profile `local`"
    )
