"""Where the stack keeps its things."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".local" / "tools"

# Every process of a stack carries this variable, so that `down` finds orphans by it and never touches others.
RUN_DIR_VARIABLE = "RELEASE_RUN_DIR"

_LONGEST_SOCKET_PATH = 90  # the kernel's limit is 107 bytes; supervisord appends a suffix while it binds


@dataclass(frozen=True)
class Paths:
    """Files of one running stack."""

    run: Path

    @property
    def settings(self) -> Path:
        """Addresses for everything that uses the stack."""
        return self.run / "settings.json"

    @property
    def airflow(self) -> Path:
        """Address and logins of Airflow."""
        return self.run / "airflow.json"

    @property
    def logs(self) -> Path:
        """One log per component."""
        return self.run / "logs"

    @property
    def config(self) -> Path:
        """Generated configuration files."""
        return self.run / "config"

    @property
    def routes(self) -> Path:
        """Folder that Envoy watches."""
        return self.run / "routes"

    @property
    def secrets(self) -> Path:
        """Keys and passwords, readable by the owner only."""
        return self.run / "secrets"

    @property
    def slots(self) -> Path:
        """One folder per slot."""
        return self.run / "slots"

    @property
    def backends(self) -> Path:
        """Backend folder for tritonserver."""
        return self.run / "backends"

    @property
    def supervisor_socket(self) -> Path:
        """Control socket; in the temporary folder where the run folder's path is too long for one."""
        wanted = self.run / "supervisor.sock"
        if len(str(wanted)) <= _LONGEST_SOCKET_PATH:
            return wanted
        return Path(tempfile.gettempdir()) / f"release-gate-{self.tag}.sock"

    @property
    def tag(self) -> str:
        """Short name of this run folder, for things that live outside it."""
        return hashlib.sha256(str(self.run).encode()).hexdigest()[:10]

    def log(self, component: str) -> Path:
        """Log of a component."""
        return self.logs / f"{component}.log"

    def shared_memory_prefix(self, slot: str) -> str:
        """Prefix of the shared-memory regions that the server of a slot makes below /dev/shm."""
        return f"release_gate_{self.tag}_{slot}_"

    def make(self) -> None:
        """Create the folders."""
        for folder in (self.logs, self.config, self.routes, self.slots, self.run / "state"):
            folder.mkdir(parents=True, exist_ok=True)
        self.secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
