"""Outside Airflow: put the weights back when a canary's lease has run out.

It needs the platform alone. Storage, Prometheus and Airflow may be down; what they would add is said, not waited for.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime

from release_tasks import recovery
from release_tasks.errors import ReleaseError
from release_tasks.platforms import open_platform
from release_tasks.platforms.state import lease_ran_out
from release_tasks.production import Production
from release_tasks.settings import load_settings


def watch(every_s: float) -> int:
    """Look every so many seconds, for ever; 0 looks once and returns the exit code of that look."""
    production: Production | None = None
    while True:
        code = 0
        try:
            production = production or _open()
            look(production)
        except ReleaseError as error:
            code = error.exit_code
            _say(f"{type(error).__name__}: {error}")
        except Exception as error:  # the guard must outlive every fault of what it watches
            code = 1
            _say(f"unexpected {type(error).__name__}: {error}")
        if every_s <= 0:
            return code
        time.sleep(every_s)


def look(production: Production) -> bool:
    """Roll back if the lease has run out; whether it had to.

    Raises:
        RollbackFailed: a person must act; while the weights could not be written, the next look tries again.
    """
    state = production.platform.state()
    if not lease_ran_out(state, production.now().timestamp()):
        return False
    assert state.candidate is not None
    owner = state.lease.holder if state.lease else "nobody"
    recovery.roll_back(
        production,
        f"guard: the lease of {owner} ran out at {state.weight} %",
        # Asked again under the lock: the holder may have come back meanwhile.
        when=lambda s: lease_ran_out(s, production.now().timestamp()),
    )
    return True


def _open() -> Production:
    settings = load_settings()
    return Production(
        settings=settings,
        platform=open_platform(settings),
        now=lambda: datetime.now(UTC),
        sleep=time.sleep,
        say=_say,
    )


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} guard: {text}", file=sys.stderr, flush=True)
