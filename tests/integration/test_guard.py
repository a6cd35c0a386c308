"""The guard puts the weights back when nobody holds the lease any more, with nothing else alive."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from release_tasks.platforms import state as serving
from release_tasks.platforms.base import Platform
from release_tasks.settings import SETTINGS_VARIABLE, Settings
from tests.integration.canary_support import Story
from tests.integration.conftest import ROOT


@pytest.fixture
def story(serving_stack: Settings, platform: Platform, tmp_path: Path) -> Story:
    return Story(serving_stack, platform, tmp_path)


def guard(story: Story, settings: Settings) -> subprocess.CompletedProcess[str]:
    """One look of a guard that knows only these settings."""
    file = story.folder / "settings.json"
    file.write_text(settings.model_dump_json())
    environment = {**os.environ, "PYTHONPATH": str(ROOT), SETTINGS_VARIABLE: str(file)}
    command = [sys.executable, "-m", "release_tasks", "guard"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=90, check=False)


def test_living_lease_is_left_alone_and_one_that_ran_out_brings_stable_back(story: Story) -> None:
    stable = story.stable(story.release("stable", "blue", factor=2))
    candidate = story.release("orphan", "green", factor=3)
    fence = story.in_flight(candidate, 50, lease_s=120)
    looked = guard(story, story.settings)
    assert (looked.returncode, looked.stderr) == (0, "")
    assert story.platform.weights() == {"blue": 50, "green": 50}

    story.platform.apply(lambda s: serving.renew(s, fence, time.time(), 0.2))
    time.sleep(0.3)
    blind = story.settings.model_copy(update={"prometheus": "http://127.0.0.1:9"})
    looked = guard(story, blind)
    assert looked.returncode == 0, looked.stderr
    assert "the lease of run-1 ran out at 50 %" in looked.stderr
    assert "proved in" in looked.stderr
    assert story.platform.weights() == {"blue": 100, "green": 0}
    assert story.platform.state().stable == stable
    assert story.outcome(candidate) == "rolled_back"
    assert story.served() == 2
