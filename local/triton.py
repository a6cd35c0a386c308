"""tritonserver from the nvidia-pytriton wheel, with backends that answer to the production names."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from local.component import Component
from local.http import probe
from local.paths import ROOT, Paths
from release_tasks.errors import DependencyMissing
from release_tasks.settings import PRODUCTION_SLOTS, STAGING

SLOTS = (STAGING, *PRODUCTION_SLOTS)
_READY_S = 180  # three models load in 8 s on an idle machine and in a minute on a loaded one
_BACKENDS = ROOT / "local" / "backends"


def components(python: str, paths: Paths, ports: dict[str, int]) -> list[Component]:
    """The three slots. A deployment starts them; a production slot that served when the stack went down comes back."""
    live = _live_slots(paths)
    return [
        Component(
            name=slot,
            command=[python, "-m", "local.slot", slot],
            healthy=probe(f"http://127.0.0.1:{ports[f'{slot}_http']}/v2/health/ready"),
            start=slot in live,
            stop_wait_s=8,
            deadline_s=_READY_S,
        )
        for slot in SLOTS
    ]


def _live_slots(paths: Paths) -> set[str]:
    """Production slots that the recorded serving state names and whose model repository is still there."""
    try:
        state = json.loads((paths.run / "state" / "serving.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    named = {(state.get(role) or {}).get("slot") for role in ("stable", "previous", "candidate")}
    return {slot for slot in PRODUCTION_SLOTS if slot in named and (paths.slots / slot / "repository").exists()}


def wheel() -> Path:
    """Folder of the wheel's tritonserver.

    Raises:
        DependencyMissing: the wheel is not installed, or not for this Python.
    """
    # find_spec: importing the package would pull in its client and warn about numpy.
    found = importlib.util.find_spec("pytriton")
    if found is None or not found.submodule_search_locations:
        raise DependencyMissing(
            "the package nvidia-pytriton, which carries tritonserver, is not installed",
            remedy="run `make setup`, or pip install --no-deps nvidia-pytriton",
        )
    return Path(next(iter(found.submodule_search_locations))) / "tritonserver"


def assemble_backends(target: Path) -> None:
    """Build the backend folder: the wheel's Python backend with this Python's stub, and ours beside it."""
    server = wheel()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = server / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.exists():
        raise DependencyMissing(
            f"nvidia-pytriton carries no Python backend for Python {version}", remedy="use Python 3.11 or 3.12"
        )
    shutil.rmtree(target, ignore_errors=True)
    python = target / "python"
    python.mkdir(parents=True)
    for file in (server / "backends" / "python").iterdir():
        if file.is_file():
            # Copied, not linked: the server refuses a library that lies outside its backend folder.
            shutil.copy2(file, python / file.name)
    shutil.copy2(stub, python / stub.name)
    for folder in _BACKENDS.iterdir():
        if (folder / "model.py").exists():
            (target / folder.name).mkdir()
            shutil.copy2(folder / "model.py", target / folder.name)
            shutil.copy2(_BACKENDS / "batching.py", target / folder.name)


def environment() -> dict[str, str]:
    """Environment in which the server finds its libraries and the stubs find this Python's packages."""
    libraries = [str(wheel().parent.parent / "nvidia_pytriton.libs"), sysconfig.get_config_var("LIBDIR")]
    scripts = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(":"),
        "PATH": f"{scripts}:{os.environ.get('PATH', '')}",
        "VIRTUAL_ENV": sys.prefix,
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "",
    }


def command(paths: Paths, slot: str, ports: dict[str, int]) -> list[str]:
    """Command line of the server of a slot, all on loopback."""
    return [
        str(wheel() / "bin" / "tritonserver"),
        f"--model-repository={paths.slots / slot / 'repository'}",
        f"--backend-directory={paths.backends}",
        # Without it a model whose config.pbtxt is missing loads, with zero inputs.
        "--disable-auto-complete-config",
        "--model-control-mode=none",
        "--strict-readiness=true",
        "--exit-on-error=true",
        # It would wait for idle keep-alive connections far longer.
        "--exit-timeout-secs=2",
        "--metrics-config=summary_latencies=true",
        "--metrics-interval-ms=1000",
        "--allow-gpu-metrics=false",
        f"--backend-config=python,shm-region-prefix-name={paths.shared_memory_prefix(slot)}",
        *(f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")),
        *(f"--{kind}-port={ports[kind]}" for kind in ("http", "grpc", "metrics")),
    ]
