"""Replay real households through the proxy.

``python -m examples.recsys.traffic --url URL --data FILE --rate R --stats OUT [--seconds N]``

All three models get an equal share of a constant total rate; households come in the order of their real visits, from
the start again when the file is through. Stops on SIGTERM, or after ``--seconds``.
"""

# gevent replaces parts of the standard library; a module that has seen the original ssl breaks.
from gevent import monkey

monkey.patch_all()

import argparse  # noqa: E402
import itertools  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from dataclasses import dataclass, field  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
import numpy as np  # noqa: E402
from geventhttpclient.client import HTTPClientPool  # noqa: E402
from locust import task  # noqa: E402
from locust.contrib.fasthttp import FastHttpUser  # noqa: E402
from locust.env import Environment  # noqa: E402

from examples.recsys.traffic_stats import TrafficStats  # noqa: E402

TIMEOUT_S = 3.0
# Requests per second and user: so few that users who wait for a time-out do not lower the total rate.
PER_USER = 0.25
DATATYPES = {"int64": "INT64", "float32": "FP32"}
JSON_LENGTH = "Inference-Header-Content-Length"


@dataclass
class Requests:
    """The requests in their order, each body encoded once.

    Bodies are the v2 protocol's binary form: a JSON head, then each input's bytes; answers come as JSON.
    """

    arrays: dict[str, Any]
    order: Any
    models: tuple[str, ...]
    bodies: dict[tuple[str, int], tuple[bytes, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Requests":
        """Open the traffic file that training wrote."""
        with np.load(path) as stored:
            arrays = {n[3:]: stored[n] for n in stored.files if n.startswith("in:")}
            return cls(arrays, stored["order"], tuple(sorted({n.split(":")[0] for n in arrays})))

    def __iter__(self) -> Iterator[tuple[str, bytes, str]]:
        """(model, body, length of the JSON head), without end."""
        for household in itertools.cycle(self.order.tolist()):
            for model in self.models:
                yield (model, *self.body(model, household))

    def body(self, model: str, household: int) -> tuple[bytes, str]:
        """The encoded request of one household."""
        known = self.bodies.get((model, household))
        if known is None:
            known = self.bodies[model, household] = self._encode(model, household)
        return known

    def _encode(self, model: str, household: int) -> tuple[bytes, str]:
        inputs, data = [], b""
        for name, values in self.arrays.items():
            if not name.startswith(f"{model}:"):
                continue
            rows = values[household]
            raw = rows.tobytes()
            inputs.append(
                {
                    "name": name.split(":")[1],
                    "shape": list(rows.shape),
                    "datatype": DATATYPES[str(rows.dtype)],
                    "parameters": {"binary_data_size": len(raw)},
                }
            )
            data += raw
        head = json.dumps({"inputs": inputs}).encode()
        return head + data, str(len(head))


def valid(text: str) -> bool:
    """An answer with outputs, every number of which is finite."""
    try:
        outputs = json.loads(text)["outputs"]
        return bool(outputs) and all(o["data"] and all(map(math.isfinite, o["data"])) for o in outputs)
    except (ValueError, KeyError, TypeError):
        return False


def household_user(requests: Requests, stats: TrafficStats, rate: float) -> tuple[type[FastHttpUser], int]:
    """The user class and how many of them make up the rate: each sends the next request of the common sequence."""
    users = max(1, math.ceil(rate / PER_USER))
    period = users / rate
    sequence, numbers = iter(requests), itertools.count()
    began_at = time.monotonic()

    class Household(FastHttpUser):  # type: ignore[misc]
        # One pool for all: a few warm connections instead of one per user.
        client_pool = HTTPClientPool(concurrency=users, connection_timeout=TIMEOUT_S, network_timeout=TIMEOUT_S)
        max_retries = 0

        def on_start(self) -> None:
            # Users are spread evenly over the period. Locust's own pacing counts from the user's creation, so that
            # all of them would send at the same moment.
            self.due = began_at + next(numbers) % users * period / users
            gevent.sleep(max(0.0, self.due - time.monotonic()))

        def wait_time(self) -> float:
            """Seconds until this user's next turn. A turn missed in a stall is left out, not made up in a burst."""
            now = time.monotonic()
            self.due += period * max(1, math.ceil((now - self.due) / period))
            return max(0.0, self.due - now)

        @task  # type: ignore[untyped-decorator]
        def ask(self) -> None:
            model, body, head = next(sequence)
            headers = {JSON_LENGTH: head, "Content-Type": "application/octet-stream"}
            began = time.monotonic()
            url = f"/v2/models/{model}/infer"
            with self.client.post(url, data=body, headers=headers, name=model, catch_response=True) as answer:
                answer.success()  # counted here, by kind, not by Locust
                slot = (answer.headers or {}).get("x-served-by", "unknown")
                elapsed = 1000 * (time.monotonic() - began)
                stats.count(model, slot, _failure(answer), elapsed)

    return Household, users


def _failure(answer: Any) -> str | None:
    if not answer.status_code:
        return f"transport:{type(answer.error).__name__}"
    if answer.status_code != 200:
        return f"status:{answer.status_code}"
    return None if valid(answer.text) else "invalid"


def main(arguments: list[str] | None = None) -> int:
    """Run until stopped."""
    parser = argparse.ArgumentParser(prog="python -m examples.recsys.traffic", description="Replay real households.")
    parser.add_argument("--url", required=True, help="address of the proxy, e.g. http://127.0.0.1:8080")
    parser.add_argument("--data", required=True, type=Path, help="traffic.npz of the training cache")
    parser.add_argument("--rate", required=True, type=float, help="requests per second in all")
    parser.add_argument("--stats", required=True, type=Path, help="JSON file that is rewritten every second")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop by itself after this time")
    options = parser.parse_args(arguments)
    if not options.rate > 0:
        parser.error(f"--rate is {options.rate:g}; it must be more than 0")
    if not options.data.is_file():
        parser.error(f"--data {options.data} does not exist; python -m examples.recsys.train writes it to its cache")
    stats = TrafficStats(options.stats)
    user, users = household_user(Requests.read(options.data), stats, options.rate)
    environment = Environment(user_classes=[user], host=options.url)
    runner = environment.create_local_runner()
    stopped = gevent.event.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, stopped.set)
    runner.start(users, spawn_rate=min(users, 100))
    ends = time.monotonic() + options.seconds
    while not stopped.wait(timeout=max(0.0, min(1.0, ends - time.monotonic()))) and time.monotonic() < ends:
        stats.write()
    runner.quit()
    stats.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
