"""`python -m local demo`: real releases through the real pipeline, driven through Airflow's own API."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from local import stack
from local.demo_approver import Approver
from local.demo_client import Airflow
from local.demo_story import STORY, Chapter, Row, faults, table
from local.demo_traffic import Users, served_release
from local.demo_watch import RELEASE, TRAINING, Watch
from local.paths import ROOT, Paths
from local.plan import REQUESTS
from release_tasks.errors import ReleaseError

DAGS = (TRAINING, RELEASE, "model_promotion", "model_rollback")
POLL_S = 2.0
PATIENCE_S = 2400.0
RATE = 60
MODEL = "ranker"  # of the example; asked for the release that users get
SUMMARY = ROOT / ".local" / "demo" / "summary.json"


def main(argv: list[str]) -> int:
    """Run the demo and return the exit code: 0 only when every candidate ended as it should."""
    parser = argparse.ArgumentParser(prog="python -m local demo", description=__doc__)
    parser.add_argument("--interactive", action="store_true", help="wait for a person to sign in the UI")
    parser.add_argument("--run-dir", type=Path, default=ROOT / ".local" / "run", help="folder of the stack")
    parser.add_argument("--only", help="comma-separated recipes, in the order of the story")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        fresh_stack(options.run_dir)
        return Demo.open(options.run_dir, options.interactive, options.only).run()
    except ReleaseError as error:
        print(f"{type(error).__name__} (exit code {error.exit_code}): {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the stack is left running, `make down` stops it", file=sys.stderr)
        return 130


def fresh_stack(run_dir: Path) -> None:
    """Start the stack. One that serves a release already is started over: the story begins with nothing live."""
    stack.up(run_dir)
    if served_release(Paths(run_dir.resolve()), MODEL):
        say("a release is live already; starting over with an empty stack")
        stack.down(run_dir)
        shutil.rmtree(run_dir)
        stack.up(run_dir)


def session(paths: Paths, user: str) -> Airflow:
    """A login of the running stack."""
    found = json.loads(paths.airflow.read_text(encoding="utf-8"))
    return Airflow(found["url"], user, found["users"][user])


def story_of(only: str | None) -> tuple[Chapter, ...]:
    """The whole story, or a part of it told one after the other."""
    if not only:
        return STORY
    chosen = [chapter for chapter in STORY if chapter.recipe in only.split(",")]
    told: list[Chapter] = []
    for chapter in chosen:
        told.append(replace(chapter, after=(told[-1].recipe, "end") if told else None))
    return tuple(told)


@dataclass
class Demo:
    """One run of the story."""

    paths: Paths
    airflow: Airflow
    approver: Approver
    users: Users
    story: tuple[Chapter, ...]
    watches: dict[str, Watch] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    _foreign: set[str] = field(default_factory=set)
    _tag: str = field(default_factory=lambda: time.strftime("%H%M%S"))

    @classmethod
    def open(cls, run_dir: Path, interactive: bool, only: str | None) -> Demo:
        """Sign in at the running stack."""
        paths = Paths(run_dir.resolve())
        admin, alice = session(paths, "admin"), session(paths, "alice")
        approver = Approver(alice, say, interactive)
        return cls(paths, admin, approver, Users(paths), story_of(only))

    def run(self) -> int:
        """Tell the story to its end."""
        for dag in DAGS:
            self.airflow.unpause(dag)
        self._foreign = {run["dag_run_id"] for run in self.airflow.runs(RELEASE)}
        until = time.monotonic() + PATIENCE_S
        while len(self.rows) < len(self.story):
            if not self.approver.interactive and time.monotonic() > until:
                say(f"giving up after {PATIENCE_S / 60:.0f} minutes")
                break
            self.step()
            time.sleep(POLL_S)
        return self._finish()

    def step(self) -> None:
        """One look at everything."""
        for chapter in self.story:
            if chapter.recipe not in self.watches and self._due(chapter):
                self._begin(chapter.recipe)
        self._find_releases()
        self.approver.look()
        for recipe, watch in self.watches.items():
            row = watch.look() if recipe not in self.rows else None
            if row is not None:
                self._ended(recipe, row)

    def _due(self, chapter: Chapter) -> bool:
        if chapter.after is None:
            return True
        recipe, milestone = chapter.after
        return recipe in self.watches and milestone in self.watches[recipe].reached

    def _begin(self, recipe: str) -> None:
        watch = Watch(recipe, self.airflow, say, lambda: self.users.count("failed"), self._stable)
        self.watches[recipe] = watch
        watch.begin(f"demo-{self._tag}-{recipe}")

    def _find_releases(self) -> None:
        """Which release runs did the asset event start? Each says which candidate it took."""
        if not any(TRAINING in w.run_ids and RELEASE not in w.run_ids for w in self.watches.values()):
            return
        for run in self.airflow.runs(RELEASE):
            run_id = run["dag_run_id"]
            if run_id in self._foreign:
                continue
            uri = self.airflow.xcom(RELEASE, run_id, "candidate", "uri")
            for watch in self.watches.values():
                if uri and str(uri).rstrip("/").endswith(f"/{watch.run_ids[TRAINING]}"):
                    watch.run_ids[RELEASE] = run_id
                    self._foreign.add(run_id)

    def _ended(self, recipe: str, row: Row) -> None:
        first = not any(r.verdict in ("stable", "promoted") for r in self.rows.values())
        if row.verdict == "promoted" and first:
            row = replace(row, verdict="stable", reason="the first release; nothing to compare with")
            self.users.start(RATE, REQUESTS)
            say(f"live traffic runs: {RATE} requests a second by real households")
        self.rows[recipe] = row

    def _stable(self) -> str:
        release = served_release(self.paths, MODEL)
        names = [w.recipe for w in self.watches.values() if w.release == release]
        return names[0] if release and names else release or "none"

    def _finish(self) -> int:
        rows = [self.rows[chapter.recipe] for chapter in self.story if chapter.recipe in self.rows]
        SUMMARY.parent.mkdir(parents=True, exist_ok=True)
        SUMMARY.write_text(json.dumps([row.as_json() for row in rows], indent=1), encoding="utf-8")
        print(f"\n{table(rows)}\n")
        wrong = faults(self.rows, self.story)
        for line in wrong:
            print(f"not as it should be: {line}")
        print(f"Airflow: {self.airflow.url}  login: {self.airflow.user} / {self.airflow.password}")
        print(f"summary: {SUMMARY}; the stack is left running, `make down` stops it")
        return 1 if wrong else 0


_BEGAN = time.monotonic()


def say(text: str) -> None:
    """A line of progress."""
    print(f"[{time.monotonic() - _BEGAN:6.0f} s] {text}", flush=True)
