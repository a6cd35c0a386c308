"""Train a candidate: ``python -m examples.recsys.train --recipe NAME --out DIR [--cache DIR]``.

Progress goes to stderr; the last line on stdout is JSON: candidate (its address), recipe, quality.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DEFAULT_CACHE = Path(".local/recsys-cache")


def main(arguments: list[str] | None = None) -> int:
    """Parse, build, print."""
    # Read by TensorFlow and by the OpenMP of PyTorch when they are imported, so set before.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    from examples.recsys.recipes import RECIPES

    parser = argparse.ArgumentParser(prog="python -m examples.recsys.train", description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", required=True, choices=list(RECIPES), help="which candidate")
    parser.add_argument("--out", required=True, type=Path, help="folder of the candidate; replaced when it exists")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help=f"default {DEFAULT_CACHE}")
    options = parser.parse_args(arguments)
    # An exception, unlike the default action, lets the scratch folders be removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    quality = build(options.recipe, options.out.resolve(), options.cache.resolve())
    line = {"candidate": f"file://{options.out.resolve()}", "recipe": options.recipe, "quality": quality}
    print(json.dumps(line))
    return 0


def build(name: str, out: Path, cache: Path) -> dict[str, Any]:
    """Make a candidate folder and return its quality figures. Whatever was at ``out`` is replaced at the end."""
    from examples.recsys import base, release_file
    from examples.recsys.candidate import Candidate
    from examples.recsys.recipes import RECIPES

    started = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - started:6.1f} s] {text}", file=sys.stderr, flush=True)

    folder = base.ensure(cache, say)
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-"))
    try:
        shutil.copytree(folder / "models", scratch / "models")
        shutil.copytree(folder / "golden", scratch / "golden")
        shutil.copyfile(folder / "cases.json", scratch / "cases.json")
        facts = json.loads((folder / "facts.json").read_text())
        quality = json.loads((folder / "quality.json").read_text())
        spec = release_file.spec(facts["profile"], f"{name}: {RECIPES[name].title}")
        candidate = Candidate(folder, scratch, spec, quality)
        candidate.use_ranker("autumn")
        say(f"applying the recipe {name}")
        RECIPES[name].apply(candidate)
        (scratch / "release.yaml").write_text(release_file.text(candidate.spec))
        (scratch / "quality.json").write_text(json.dumps(candidate.quality, indent=1))
        scratch.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        scratch.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"{out}: {headline(candidate.quality)}")
    return candidate.quality


def headline(quality: dict[str, Any]) -> str:
    """The figures in one line."""
    return (
        f"retriever recall@50 {quality['retriever']['recall_at_50']:.3f}, "
        f"coarse ranker AUC {quality['coarse_ranker']['auc']:.4f}, ranker AUC {quality['ranker']['auc']:.4f}, "
        f"NDCG@10 {quality['ranker']['ndcg_at_10']:.4f}"
    )


if __name__ == "__main__":
    sys.exit(main())
