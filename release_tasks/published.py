"""Hold a published release against its manifest: what the store says of every object, now."""

from __future__ import annotations

from release_tasks.artifacts import ReleaseManifest
from release_tasks.clients.storage import ObjectStore, same_bytes
from release_tasks.clients.uris import join_uri
from release_tasks.context import ReportDraft

MANIFEST = "release.json"


def check_published(store: ObjectStore, prefix: str, manifest: ReleaseManifest, draft: ReportDraft) -> bool:
    """Add one check: every object of the manifest is there with its size, MD5 and CRC32C, and no other is.

    An object without an MD5 (composite) proves nothing and counts as differing.
    """
    found = {info.uri: info for info in store.list(prefix)}
    wanted = {join_uri(prefix, f.path): f for f in manifest.files}
    faults = [f"missing {uri}" for uri in wanted if uri not in found]
    faults += [
        f"{uri} differs: md5 {found[uri].md5 or '(none)'}, crc32c {found[uri].crc32c or '(none)'}, "
        f"{found[uri].size} bytes"
        for uri, digest in wanted.items()
        if uri in found and not same_bytes(found[uri], digest)
    ]
    faults += [f"unknown object {uri}" for uri in found if uri not in wanted and uri != join_uri(prefix, MANIFEST)]
    if join_uri(prefix, MANIFEST) not in found:
        faults.append(f"missing {MANIFEST}")
    draft.check(
        "published.digests",
        not faults,
        f"{len(wanted) - len(faults)} of {len(wanted)} objects have the MD5 and CRC32C that were sent",
        "every object",
        detail="; ".join(faults[:5]),
    )
    return not faults
