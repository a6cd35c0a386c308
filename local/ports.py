"""Free ports."""

from __future__ import annotations

import random
import socket

# Below the range that the kernel hands to outgoing connections: a slot binds its ports long after they were chosen,
# and an outgoing connection of any process could sit on them by then.
FIRST, LAST = 15000, 31999


def free_ports(names: list[str]) -> dict[str, int]:
    """One free loopback port per name. Somebody may still take one before it is bound: starting is retried."""
    held: list[socket.socket] = []
    found: dict[str, int] = {}
    try:
        for name in names:
            held.append(_bind_any())
            found[name] = held[-1].getsockname()[1]
        return found
    finally:
        for sock in held:
            sock.close()


def _bind_any() -> socket.socket:
    for port in random.sample(range(FIRST, LAST + 1), 200):
        sock = socket.socket()
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            sock.close()
        else:
            return sock
    raise OSError(f"no free port found between {FIRST} and {LAST}")
