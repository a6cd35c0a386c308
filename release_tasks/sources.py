"""Read a candidate or a release from where it lies: a local path, file:// or gs://."""

from __future__ import annotations

from pathlib import Path

from release_tasks.errors import CandidateError, SpecError
from release_tasks.spec import ReleaseSpec, load_spec, parse_spec


def local_path(uri: str) -> Path | None:
    """The local path behind a path or a file:// URI; None for object storage.

    Raises:
        CandidateError: any other scheme.
    """
    if uri.startswith("gs://"):
        return None
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return Path(uri)
    if scheme == "file":
        return Path(rest)
    raise CandidateError(field="uri", value=uri, rule="the scheme is unknown", remedy="use a path, file:// or gs://")


def open_spec(uri: str) -> ReleaseSpec:
    """Read and check the spec at a path, file:// or gs:// address.

    Raises:
        SpecError: it breaks a rule.
        CandidateError: nothing lies there.
    """
    path = local_path(uri)
    if path is None:
        from release_tasks.clients.storage import open_store

        try:
            text = open_store().read_text(uri)
        except UnicodeDecodeError as error:
            raise SpecError(
                field=uri, value="the bytes", rule=f"it must be UTF-8 text ({error})", remedy="write it as UTF-8"
            ) from error
        return parse_spec(text, source=uri)
    if not _exists(path):
        raise CandidateError(
            field="--spec", value=uri, rule="nothing lies there", remedy="check the address of the candidate"
        )
    return load_spec(path / "release.yaml" if path.is_dir() else path)


def _exists(path: Path) -> bool:
    """Whether something lies there; a name that no file can have, or one that may not be looked at, is not there."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
