"""The embedded stack as a platform: real tritonserver slots under supervisord, a real Envoy in front of them."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from release_tasks.errors import ComponentDown, InvalidInput
from release_tasks.platforms.base import SlotPhase, SlotStatus
from release_tasks.platforms.local_envoy import EnvoyRoutes
from release_tasks.platforms.local_routes import route_configuration
from release_tasks.platforms.local_slots import Slot
from release_tasks.platforms.state import Fence, LiveRelease, ServingState, check_fence
from release_tasks.settings import PRODUCTION_SLOTS, Settings
from release_tasks.workspace import write_atomic


class LocalPlatform:
    """See ``platforms.base.Platform``."""

    def __init__(self, settings: Settings) -> None:
        if settings.local is None:
            raise InvalidInput(
                field="settings.local", value=None, rule="the local profile needs it", remedy="run `make down up`"
            )
        self._folder = settings.local.run_dir / "state"
        self._envoy = EnvoyRoutes(settings.local)
        self._settings = settings

    def deploy(self, release: LiveRelease, *, deadline_s: float, fence: Fence | None = None) -> SlotStatus:
        """Run a release in its slot; see the protocol. A lock per slot keeps two deployments apart."""
        slot = self._slot(release.slot)
        self._check_writer(release.slot, fence)
        with self._locked(f"slot-{release.slot}"):
            if slot.release() == release.release and slot.ready(release):
                return slot.status()
            slot.fetch(release)
            # The download took its time: whoever lost the lease meanwhile must not touch the slot.
            self._check_writer(release.slot, fence)
            slot.stop()  # before the link moves, so that no server runs under another release's name
            slot.switch(release.release)
            slot.restart(release, deadline_s)
            slot.forget_others(release.release)
            return SlotStatus(slot=release.slot, phase=SlotPhase.ready, release=release.release)

    def status(self, slot: str) -> SlotStatus:
        """What the slot does now; never raises."""
        try:
            return self._slot(slot).status()
        except InvalidInput as error:
            return SlotStatus(slot=slot, phase=SlotPhase.failed, message=str(error))

    def remove(self, slot: str) -> None:
        """Stop the slot and free its memory; refused while it has traffic, by record or in force."""
        target = self._slot(slot)
        # The slot's lock first, as in `deploy`. Then the state's, so that no weight can move to the slot while it goes.
        with self._locked(f"slot-{slot}"), self._locked("serving"):
            if slot in PRODUCTION_SLOTS:
                share = max(self._read().slot_weights()[slot], self._envoy.weights()[slot])
                if share > 0:
                    raise InvalidInput(
                        field="slot",
                        value=slot,
                        rule=f"it has {share} % of the users' traffic",
                        remedy="promote or roll back first; then the slot has none",
                    )
            target.clear()

    def state(self) -> ServingState:
        """The recorded serving state."""
        with self._locked("serving"):
            return self._read()

    def apply(self, change: Callable[[ServingState], ServingState]) -> ServingState:
        """Change the state and make Envoy follow, in this order, all under one lock.

        A crash between the two leaves Envoy ahead of the record; the next ``apply`` finds the difference and mends it,
        since it compares with what Envoy was last told and not with the record.
        """
        with self._locked("serving"):
            before = self._read()
            after = change(before)
            routes = route_configuration(after)
            if routes != self._envoy.commanded():
                self._envoy.install(routes)
            if after != before:
                write_atomic(self._file, after.model_dump_json(indent=1))
            return after

    def weights(self) -> dict[str, int]:
        """Percent of traffic per production slot, as Envoy reports it."""
        return self._envoy.weights()

    @property
    def _file(self) -> Path:
        return self._folder / "serving.json"

    def _slot(self, name: str) -> Slot:
        if name not in self._settings.slots:
            raise InvalidInput(
                field="slot", value=name, rule="there is no such slot", remedy=f"one of {sorted(self._settings.slots)}"
            )
        return Slot(name, self._settings)

    def _check_writer(self, slot: str, fence: Fence | None) -> None:
        """Refuse a writer who may not deploy to that slot now."""
        if slot not in PRODUCTION_SLOTS:
            return
        state = self.state()
        if state.stable is not None and state.stable.slot == slot:
            raise InvalidInput(
                field="release.slot",
                value=slot,
                rule=f"it serves the stable release {state.stable.release}",
                remedy=f"deploy to the idle slot {state.idle_slot()}",
            )
        if fence is None:
            raise InvalidInput(
                field="fence", value=None, rule="a production slot needs one", remedy="begin a promotion first"
            )
        check_fence(state, fence, time.time())

    def _read(self) -> ServingState:
        try:
            return ServingState.model_validate_json(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return ServingState()
        except ValidationError as error:
            raise ComponentDown(
                f"the serving state {self._file} is malformed: {error}",
                remedy="nothing was changed; restore the file, or start afresh with `make clean up`",
            ) from error

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Hold a lock that the kernel gives back when its holder dies."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
