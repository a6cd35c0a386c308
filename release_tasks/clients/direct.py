"""HTTP without the environment's proxies, for addresses inside the stack or the cluster."""

from __future__ import annotations

import urllib.request

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
