"""Write a model repository: one folder per model with config.pbtxt, version folder 1 and warm-up data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from release_tasks.repository.config import CONFIG_FILE, WARM_UP_FOLDER, Rendering, config_message, print_config

VERSION = "1"


def render_model(folder: Path, rendering: Rendering, exported: Path, golden_row: dict[str, NDArray[Any]]) -> None:
    """Write one model's folder.

    Args:
        folder: the model's folder in the repository; must not exist yet.
        exported: the file or folder that the server loads.
        golden_row: one row per input, shape (1, *row): what the server warms up with.
    """
    version = folder / VERSION
    version.mkdir(parents=True)
    if exported.is_dir():
        shutil.copytree(exported, version / exported.name)
    else:
        shutil.copyfile(exported, version / exported.name)
    if rendering.model.config.warm_up.enabled:
        (folder / WARM_UP_FOLDER).mkdir()
        for name, row in golden_row.items():
            # Triton repeats a one-row file for every row of the warm-up batch: raw bytes, row-major.
            (folder / WARM_UP_FOLDER / name).write_bytes(row[0].tobytes())
    (folder / CONFIG_FILE).write_text(print_config(config_message(rendering)), encoding="utf-8")
