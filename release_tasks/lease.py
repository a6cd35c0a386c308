"""Keep a lease alive while something takes longer than the lease."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from release_tasks.errors import ReleaseError
from release_tasks.platforms import state as serving
from release_tasks.platforms.base import Platform
from release_tasks.platforms.state import Fence


class LeaseKeeper:
    """Renews in the background, under the writer's own fence: once fenced out it stops and says so at the end.

    Args:
        platform: whose state holds the lease.
        fence: what the writer shows.
        lease_s: seconds each renewal gives.
    """

    def __init__(self, platform: Platform, fence: Fence, lease_s: float) -> None:
        self._platform, self._fence, self._lease_s = platform, fence, lease_s
        self._stop = threading.Event()
        self._lost: ReleaseError | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def __enter__(self) -> LeaseKeeper:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=10)
        if error is None and self._lost is not None:
            raise self._lost

    def _run(self) -> None:
        while not self._stop.wait(self._lease_s / 3):
            try:
                self._platform.apply(lambda s: serving.renew(s, self._fence, time.time(), self._lease_s))
            except ReleaseError as error:
                self._lost = error
                return
