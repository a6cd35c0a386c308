"""gs:// addresses."""

from __future__ import annotations

from typing import NamedTuple

from release_tasks.errors import InvalidInput


class ObjectPath(NamedTuple):
    """Bucket and object name."""

    bucket: str
    name: str


def split_uri(uri: str) -> ObjectPath:
    """Split ``gs://bucket/name``.

    Raises:
        InvalidInput: another scheme, or no bucket.
    """
    scheme, separator, rest = uri.partition("://")
    bucket, _, name = rest.partition("/")
    if scheme != "gs" or not separator or not bucket:
        raise InvalidInput(
            field="uri", value=uri, rule="it must read gs://<bucket>/<object>", remedy="correct the address"
        )
    return ObjectPath(bucket, name)


def join_uri(prefix: str, *parts: str) -> str:
    """Join parts below a prefix with single slashes."""
    return "/".join([prefix.rstrip("/"), *(part.strip("/") for part in parts)])
