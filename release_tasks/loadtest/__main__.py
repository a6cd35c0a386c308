"""``python -m release_tasks.loadtest PLAN RESULT``: the load process."""

# gevent patches sockets and threads; it must come before anything that imports ssl.
import gevent.monkey

gevent.monkey.patch_all()

import itertools
import random
import sys
from pathlib import Path
from typing import Any

import gevent
from locust import FastHttpUser, LoadTestShape, constant_throughput, task
from locust.env import Environment

from release_tasks.loadtest.plan import PHASES, LoadPlan, LoadResult, ModelLoad
from release_tasks.workspace import write_atomic


class Recorder:
    """Keeps latencies and failures by phase and model."""

    def __init__(self, plan: LoadPlan) -> None:
        self.phase = PHASES[0]
        self.seen = {p: {t.model: ModelLoad() for t in plan.targets} for p in PHASES}

    def add(self, model: str, milliseconds: float, fault: str) -> None:
        """Count one request; ``fault`` is empty for a good answer."""
        load = self.seen[self.phase][model]
        if fault:
            load.failures[fault] = load.failures.get(fault, 0) + 1
        else:
            load.latencies_ms.append(round(milliseconds, 3))

    def line(self, users: int) -> str:
        """One line for a person."""
        loads = self.seen[self.phase].values()
        answered, failed = sum(len(m.latencies_ms) for m in loads), sum(m.failed for m in loads)
        return f"  {self.phase:<8} {users:>4} users  {answered:>6} answered  {failed:>4} failed"


def user_class(plan: LoadPlan, recorder: Recorder) -> type[FastHttpUser]:
    """A user that asks all models in turn at the plan's rate."""
    turns = {t.model: itertools.cycle(t.bodies) for t in plan.targets}

    class Shopper(FastHttpUser):  # type: ignore[misc]  # Locust is not type-checked
        host = plan.host
        wait_time = constant_throughput(plan.requests_per_user_s)
        network_timeout = 10.0
        connection_timeout = 5.0

        def on_start(self) -> None:
            # Users who were spawned together would go on asking at the same instants: real ones do not.
            self.order = itertools.cycle(random.sample(plan.targets, len(plan.targets)))
            gevent.sleep(random.random() / plan.requests_per_user_s)

        @task  # type: ignore[untyped-decorator]
        def infer(self) -> None:
            target = next(self.order)
            headers = {"Content-Type": "application/json"}
            with self.client.post(
                target.path, data=next(turns[target.model]), headers=headers, name=target.model, catch_response=True
            ) as answer:
                recorder.add(target.model, answer.request_meta["response_time"], _fault(answer))
                answer.success()

    return Shopper


def _fault(answer: Any) -> str:
    if answer.status_code != 200:
        return f"status {answer.status_code}" if answer.status_code else "no answer"
    # Triton writes NaN and Infinity as bare words, which are no JSON and no answer.
    return "not finite" if "NaN" in answer.text or "Infinity" in answer.text else ""


def shape_of(plan: LoadPlan, recorder: Recorder) -> LoadTestShape:
    """One user, then a ramp to all, then all."""
    ends = list(itertools.accumulate(plan.seconds[p] for p in PHASES))

    class Phases(LoadTestShape):  # type: ignore[misc]  # Locust is not type-checked
        def tick(self) -> tuple[int, float] | None:
            now = self.get_run_time()
            for phase, end in zip(PHASES, ends, strict=True):
                if now < end:
                    recorder.phase = phase
                    if phase == "baseline":
                        return 1, 1
                    return plan.users, max(1.0, plan.users / plan.seconds["ramp"])
            return None

    return Phases()


def main() -> int:
    """Run the plan and write the result."""
    plan = LoadPlan.model_validate_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    random.seed(0)
    recorder = Recorder(plan)
    environment = Environment(user_classes=[user_class(plan, recorder)], shape_class=shape_of(plan, recorder))
    runner = environment.create_local_runner()

    def speak() -> None:
        while True:
            gevent.sleep(1)
            print(recorder.line(runner.user_count), file=sys.stderr, flush=True)

    speaker = gevent.spawn(speak)
    runner.start_shape()
    runner.shape_greenlet.join()
    speaker.kill()
    runner.quit()
    write_atomic(Path(sys.argv[2]), LoadResult(phases=recorder.seen).model_dump_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())
