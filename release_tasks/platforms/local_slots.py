"""The server of one slot: its model repository, its process, its readiness.

slots/<slot>/<release>/repository/   downloaded and checked, then renamed into place
slots/<slot>/repository              link to the release that the server reads
"""

from __future__ import annotations

import json
import shutil
import time
import xmlrpc.client
from pathlib import Path

from release_tasks.artifacts import ReleaseManifest
from release_tasks.clients.direct import OPENER
from release_tasks.clients.triton import release_of
from release_tasks.errors import InvalidInput, ReleaseError, ServingError
from release_tasks.platforms.base import SlotPhase, SlotStatus
from release_tasks.platforms.local_logs import server_log_tail
from release_tasks.platforms.local_supervisor import Supervisor
from release_tasks.platforms.state import LiveRelease
from release_tasks.settings import Endpoints, Settings


class Slot:
    """One slot of the local stack."""

    def __init__(self, name: str, settings: Settings) -> None:
        assert settings.local is not None
        self.name = name
        self.folder = settings.local.run_dir / "slots" / name
        self._endpoints: Endpoints = settings.slots[name]
        self._settings = settings
        self._log = settings.local.run_dir / "logs" / f"{name}.log"
        self._supervisor = Supervisor(settings.local.supervisor_socket)

    @property
    def link(self) -> Path:
        """The link to the release that the server reads."""
        return self.folder / "repository"

    def release(self) -> str | None:
        """Id of the release that the slot was told to run."""
        try:
            return self.link.readlink().parts[0]
        except OSError:
            return None

    def fetch(self, release: LiveRelease) -> None:
        """Download a release's model repository, every byte checked against its manifest.

        Raises:
            InvalidInput: the prefix is no release, or another one.
            StorageError: it cannot be read, or bytes differ.
        """
        from release_tasks.clients.storage import open_store

        store = open_store(self._settings)
        manifest_uri = f"{release.uri}/release.json"
        if not store.exists(manifest_uri):
            raise _no_release(release, "the prefix holds no release.json, so its upload never finished")
        manifest = ReleaseManifest.model_validate_json(store.read_text(manifest_uri))
        if manifest.release != release.release:
            raise _no_release(release, f"its release.json is of {manifest.release}")
        files = tuple(file for file in manifest.files if file.path.startswith("repository/"))
        if not files:
            raise _no_release(release, "its release.json names no file below repository/")
        part = self.folder / f".{release.release}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        store.download(release.uri, part, files)
        target = self.folder / release.release
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)

    def switch(self, release: str) -> None:
        """Make the server read that release from its next start on."""
        new = self.folder / ".repository.new"
        new.unlink(missing_ok=True)
        new.symlink_to(Path(release) / "repository")
        new.replace(self.link)

    def restart(self, release: LiveRelease, deadline_s: float) -> None:
        """Start the server afresh and wait until it and every model are ready.

        Raises:
            ServingError: it ended or was not ready in time; it is stopped again.
            ComponentDown: supervisord does not answer.
        """
        self._supervisor.stop(self.name)
        offset = self._log.stat().st_size if self._log.exists() else 0
        began = time.monotonic()
        self._supervisor.start(self.name)
        pid = self._supervisor.info(self.name).pid
        while not self.ready(release):
            info = self._supervisor.info(self.name)
            waited = time.monotonic() - began
            ended = info.ended or info.pid != pid  # another pid: it died and was started again
            if ended or waited > deadline_s:
                what = "its server ended while loading" if ended else f"it was not ready within {deadline_s:.0f} s"
                tail = server_log_tail(self._log, since=offset)
                self._supervisor.stop(self.name)
                raise ServingError(
                    f"release {release.release} does not run in slot {self.name}: {what}",
                    remedy=f"the server's whole log: {self._log}",
                    log_tail=tail,
                )
            time.sleep(0.1)

    def forget_others(self, release: str) -> None:
        """Remove the folders of every other release."""
        for folder in self.folder.iterdir():
            if folder.is_dir() and not folder.is_symlink() and folder.name != release:
                shutil.rmtree(folder, ignore_errors=True)

    def clear(self) -> None:
        """Stop the server and remove its files."""
        self._supervisor.stop(self.name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        """Stop the server."""
        self._supervisor.stop(self.name)

    def ready(self, release: LiveRelease | None = None) -> bool:
        """Whether the server, and every model of the release, answers that it is ready, and says it is that release."""
        if not self._answers("/v2/health/ready"):
            return False
        if release is None:
            return True
        names = [model.name for model in release.models]
        return all(self._answers(f"/v2/models/{n}/ready") and self._served(n) == release.release for n in names)

    def status(self) -> SlotStatus:
        """What the slot does now; never raises."""
        release = self.release()
        try:
            info = self._supervisor.info(self.name)
        except (ReleaseError, xmlrpc.client.Fault) as error:
            return SlotStatus(slot=self.name, phase=SlotPhase.failed, release=release, message=str(error))
        if release is None:
            return SlotStatus(slot=self.name, phase=SlotPhase.empty)
        if info.state in ("RUNNING", "STARTING"):
            phase = SlotPhase.ready if self.ready() else SlotPhase.starting
            return SlotStatus(slot=self.name, phase=phase, release=release, message=info.description)
        message = f"tritonserver is {info.state.lower()}: {info.description}\n{server_log_tail(self._log)}"
        return SlotStatus(slot=self.name, phase=SlotPhase.failed, release=release, message=message)

    def _served(self, model: str) -> str:
        """Release id in the served configuration: the link may be ahead of the server."""
        try:
            with OPENER.open(f"{self._endpoints.http}/v2/models/{model}/config", timeout=2) as response:
                return release_of(json.load(response))
        except (OSError, ValueError):
            return ""

    def _answers(self, path: str) -> bool:
        try:
            with OPENER.open(f"{self._endpoints.http}{path}", timeout=2) as response:
                return bool(response.status == 200)
        except (OSError, ValueError):
            return False


def _no_release(release: LiveRelease, rule: str) -> InvalidInput:
    return InvalidInput(
        field="release.uri", value=release.uri, rule=rule, remedy="run the upload stage of that release to its end"
    )
