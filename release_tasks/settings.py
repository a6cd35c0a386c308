"""Where everything is: one JSON file, named by ``RELEASE_SETTINGS``, written by the profile.

The local stack writes it at start with the ports it found free; on Kubernetes it is a mounted ConfigMap.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from release_tasks.errors import InvalidInput

SETTINGS_VARIABLE = "RELEASE_SETTINGS"

STAGING = "staging"
PRODUCTION_SLOTS = ("blue", "green")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StorageSettings(_Part):
    """Object storage."""

    bucket: str
    endpoint: str | None = Field(default=None, description="Base URL of an emulator; null for Google Cloud Storage.")


class Endpoints(_Part):
    """Addresses of one server or of the users' entrance."""

    http: str = Field(description="Base URL, e.g. http://127.0.0.1:8000")
    grpc: str = Field(description="host:port")
    metrics: str = Field(default="", description="URL of the Prometheus metrics, empty where there are none.")


class LocalSettings(_Part):
    """What only the embedded stack has."""

    run_dir: Path = Field(description="Folder of the running stack: state, slots, logs, sockets.")
    supervisor_socket: Path
    routes_dir: Path = Field(description="Folder that Envoy watches for rds.json.")
    envoy_admin: str = Field(description="Base URL of Envoy's admin interface.")


class Settings(_Part):
    """Addresses and paths of the profile in use."""

    profile: Literal["local", "kubernetes"]
    storage: StorageSettings
    prometheus: str = Field(description="Base URL of Prometheus.")
    scrape_interval_s: float = Field(default=15, gt=0, description="Prometheus' scrape interval, seconds.")
    traffic: Endpoints = Field(description="Where users' requests enter.")
    slots: dict[str, Endpoints] = Field(description="Server endpoints by slot: staging, blue, green.")
    workspace_root: str = Field(description="Folder or URI below which every run has its workspace.")
    approval_key_file: Path = Field(description="File with the key that signs approvals.")
    local: LocalSettings | None = None


def load_settings(path: Path | None = None) -> Settings:
    """Read the settings file.

    Raises:
        InvalidInput: there is none, or it is malformed.
    """
    name = str(path) if path else os.environ.get(SETTINGS_VARIABLE, "")
    if not name:
        raise InvalidInput(
            field=SETTINGS_VARIABLE,
            value="(unset)",
            rule="it must name the settings file of a running stack",
            remedy="run `make up`, then export RELEASE_SETTINGS=.local/run/settings.json",
        )
    try:
        return Settings.model_validate_json(Path(name).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InvalidInput(
            field=SETTINGS_VARIABLE, value=name, rule="the file does not exist", remedy="start the stack: `make up`"
        ) from error
    except OSError as error:
        raise InvalidInput(
            field=SETTINGS_VARIABLE,
            value=name,
            rule=f"the file cannot be read: {error.strerror}",
            remedy="name the settings file itself, and be allowed to read it",
        ) from error
    except (ValidationError, ValueError) as error:
        raise InvalidInput(
            field=SETTINGS_VARIABLE, value=name, rule=f"the file is malformed: {error}", remedy="run `make down up`"
        ) from error
