"""Command lines, workspaces and names. No Airflow in here: both profiles and the tests read it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from release_tasks.stages import PER_MODEL

ROOT = Path(__file__).resolve().parent.parent
PROFILE_VARIABLE = "RELEASE_PROFILE"
PROFILES = ("local", "kubernetes")


def profile() -> str:
    """Profile in use, from ``RELEASE_PROFILE``.

    Raises:
        ValueError: it names none of ``PROFILES``.
    """
    name = os.environ.get(PROFILE_VARIABLE, "local")
    if name not in PROFILES:
        raise ValueError(f"{PROFILE_VARIABLE}: {name!r} is not accepted: it must be one of {PROFILES}")
    return name


def slug(run_id: str) -> str:
    """A run id as a folder name: letters, digits, dot, hyphen and underscore."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", run_id).strip(".-") or "run"


def workspace_root() -> str:
    """Folder or URI below which every run has its workspace, from the settings of the profile.

    Raises:
        InvalidInput: no settings, or malformed ones.
    """
    from release_tasks.settings import load_settings

    return load_settings().workspace_root.rstrip("/")


def workspace_of(dag_id: str, run_id: str) -> str:
    """Workspace of one DAG run. The same for every try, so that a rerun goes on where it was."""
    return f"{workspace_root()}/{dag_id}/{slug(run_id)}"


# What templates may call. Evaluated when a task runs, so parsing a DAG needs no settings.
MACROS = {"workspace_of": workspace_of, "workspace_root": workspace_root, "slug": slug}

WORKSPACE = "{{ workspace_of(dag.dag_id, run_id) }}"
HOLDER = "{{ run_id }}"


@dataclass(frozen=True)
class StageCall:
    """One call of the stage command line.

    Attributes:
        stage: name out of ``STAGES``.
        spec: address of release.yaml.
        workspace: folder of the run.
        holder: who acts, for the release's lease.
        release: gs:// prefix of a published release, for stages that start from it.
        model: only this model, for stages that run per model.
        step: number of the canary step, from 1.
        options: further options of this stage.
    """

    stage: str
    spec: str
    workspace: str = WORKSPACE
    holder: str = HOLDER
    release: str | None = None
    model: str | None = None
    step: int | None = None
    options: dict[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """What follows ``python -m``. Options are written ``--flag=value``, so that no value is taken for a flag."""
        if self.model is not None and self.stage not in PER_MODEL:
            raise ValueError(f"{self.stage} does not run per model; only {sorted(PER_MODEL)} do")
        line = ["release_tasks", self.stage, f"--spec={self.spec}", f"--workspace={self.workspace}"]
        line.append(f"--holder={self.holder}")
        single = {"release": self.release, "model": self.model, "step": self.step}
        line += [f"--{flag}={value}" for flag, value in single.items() if value is not None]
        return line + [f"--{flag}={value}" for flag, value in self.options.items()]
