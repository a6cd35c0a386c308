"""Back to the last good release, and the proof that users are served by it."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from release_tasks.clients.direct import OPENER
from release_tasks.clients.triton import TritonServer, release_of
from release_tasks.errors import ReleaseError, RollbackFailed, ServingError, TrafficError
from release_tasks.platforms.state import LiveRelease, ServingState
from release_tasks.platforms.state import roll_back as rolled_back
from release_tasks.production import Production
from release_tasks.settings import Endpoints
from release_tasks.spec import Datatype

WRITE_TRIES = 5
PROOF_S = 10.0


@dataclass(frozen=True)
class Proof:
    """What was seen on the users' path."""

    release: str | None
    slot: str | None
    seconds: float
    lines: tuple[str, ...]

    def text(self) -> str:
        """In one line."""
        return "; ".join(self.lines)


def always(state: ServingState) -> bool:
    """Whatever is live."""
    return True


def roll_back(production: Production, why: str, when: Callable[[ServingState], bool] = always) -> Proof | None:
    """End the candidacy, give all traffic to the last good release and prove that it answers.

    Without a candidate nothing is changed, and the stable release is proved all the same. None when `when` was asked
    and there was nothing that it meant: the state has moved on, and the caller must look again.

    Args:
        production: what is rolled back.
        why: for the record.
        when: asked again under the state's lock; a candidate that it does not mean is left alone.

    Raises:
        RollbackFailed: a person must act; the message says what to do.
    """
    began = time.monotonic()
    taken: list[LiveRelease] = []

    def change(state: ServingState) -> ServingState:
        taken[:] = [state.candidate] if state.candidate and when(state) else []
        return rolled_back(state, why) if taken else state

    after = _write(production, change)
    stable = after.stable
    if not taken and when is not always:
        return None
    for candidate in taken:
        production.say(f"rolled back {candidate.release}: {why}")
        # The last good release is a candidate only while a rollback brings it back: that is no judgement on it.
        if after.previous is None or candidate.release != after.previous.release:
            production.record_if_possible(candidate.uri, "rolled_back", why)
    if stable is None:
        line = "no release was live before this one, so users get 503 until one is"
        return Proof(release=None, slot=None, seconds=time.monotonic() - began, lines=(line,))
    return prove_or_fail(production, stable, began)


def prove_or_fail(production: Production, release: LiveRelease, began: float) -> Proof:
    """``prove`` for a rollback: keep trying for some seconds, then call for a person.

    Raises:
        RollbackFailed: it says what was seen and what to do.
    """
    limit = time.monotonic() + PROOF_S
    while True:
        try:
            proof = prove(production, release, began)
            production.say(f"proved in {proof.seconds:.1f} s: {proof.text()}")
            return proof
        except ReleaseError as error:
            if time.monotonic() > limit:
                raise RollbackFailed(
                    f"all traffic was given to {release.release} in slot {release.slot}, but it is not proved that "
                    f"it answers: {error.message}",
                    remedy=_by_hand(production, release),
                    log_tail=error.log_tail,
                ) from error
            production.sleep(0.5)


def prove(production: Production, release: LiveRelease, began: float | None = None) -> Proof:
    """See on the users' path that this release, and only it, is served.

    Raises:
        TrafficError: the weights in force are others, or another slot answered.
        ServingError: another release answered, or an answer is unusable.
    """
    start = time.monotonic() if began is None else began
    lines = [
        _weights(production, release),
        _served(production, release),
        _answers(production, release, production.settings.traffic),
    ]
    return Proof(release.release, release.slot, time.monotonic() - start, tuple(lines))


def _write(production: Production, change: Callable[[ServingState], ServingState]) -> ServingState:
    attempt = 1
    while True:
        try:
            return production.platform.apply(change)
        except TrafficError as error:
            production.say(f"the traffic layer refused the rollback ({attempt} of {WRITE_TRIES}): {error.message}")
            if attempt == WRITE_TRIES:
                raise RollbackFailed(
                    f"the weights could not be put back: {error.message}",
                    remedy=_by_hand(production, production.platform.state().stable),
                    log_tail=error.log_tail,
                ) from error
            attempt += 1
            production.sleep(0.5)


def _by_hand(production: Production, release: LiveRelease | None) -> str:
    where = f"slot {release.slot} with release {release.release}" if release else "no slot at all"
    local = production.settings.local
    stack = (
        f"`make status` shows what is down; logs are in {local.run_dir / 'logs'}"
        if local
        else "look at the pods of the traffic layer and of the slot"
    )
    return (
        f"all traffic must go to {where}. 1. {stack}; restart what is down. 2. Run `python -m release_tasks guard` or "
        "the rollback command again, until it prints the proof. 3. Start no promotion before that"
    )


def _weights(production: Production, release: LiveRelease) -> str:
    found = production.platform.weights()
    wanted = {slot: 100 if slot == release.slot else 0 for slot in found}
    if found != wanted or release.slot not in found:
        raise TrafficError(f"the weights in force are {found}, wanted are {wanted}", remedy="look at the traffic layer")
    return f"weights in force {found}"


def _served(production: Production, release: LiveRelease) -> str:
    for model in release.models:
        url = f"{production.settings.traffic.http.rstrip('/')}/v2/models/{model.name}/config"
        try:
            with OPENER.open(url, timeout=5) as answer:
                slot, config = answer.headers.get("x-served-by", ""), json.load(answer)
        except (OSError, ValueError) as error:
            raise ServingError(
                f"{url} on the users' path does not answer: {error}", remedy="look at Envoy and the slot's server"
            ) from error
        if slot != release.slot:
            raise TrafficError(f"slot {slot or '?'} answered {url}, wanted is {release.slot}", remedy="look at Envoy")
        served = release_of(config)
        if served != release.release:
            raise ServingError(
                f"{model.name} is served as release {served or '?'}, wanted is {release.release}",
                remedy=f"slot {release.slot} must be redeployed",
            )
    return f"the server behind the entrance says release {release.release} for {len(release.models)} models"


def answers_in_slot(production: Production, release: LiveRelease) -> str:
    """See that every model of the release answers in its slot, past the traffic layer.

    Raises:
        ServingError: one does not, or not with finite values.
    """
    return _answers(production, release, production.settings.slots[release.slot])


def _answers(production: Production, release: LiveRelease, endpoints: Endpoints) -> str:
    server = TritonServer(endpoints)
    sources = set()
    for model in release.models:
        metadata = server.model_metadata(model.name)
        inputs, source = _one_row(production, release, model.name, metadata)
        names = tuple(output["name"] for output in metadata["outputs"])
        for name, values in server.infer(model.name, inputs, names).items():
            if values.size == 0 or not np.all(np.isfinite(values)):
                raise ServingError(f"{model.name}.{name} answers no finite values", remedy="look at the model's inputs")
        sources.add(source)
    return f"every model answered {' and '.join(sorted(sources))} with finite values"


def _one_row(
    production: Production, release: LiveRelease, model: str, metadata: dict[str, Any]
) -> tuple[dict[str, NDArray[Any]], str]:
    """A golden row of the release; zeros where storage cannot be read, so that a rollback never waits for it."""
    try:
        raw = production.store.read_bytes(f"{release.uri}/golden/{model}.npz")
        with np.load(io.BytesIO(raw), allow_pickle=False) as golden:
            rows = {key.removeprefix("in:"): golden[key][:1] for key in golden.files if key.startswith("in:")}
        return rows, "a golden row"
    except (ReleaseError, OSError, ValueError) as error:
        production.say(f"no golden row of {model} ({error}); a row of zeros is sent instead")
    zeros = {}
    for tensor in metadata["inputs"]:
        shape = [1, *(max(1, int(size)) for size in tensor["shape"][1:])]
        zeros[tensor["name"]] = np.zeros(shape, dtype=Datatype(tensor["datatype"]).numpy)
    return zeros, "a row of zeros"
