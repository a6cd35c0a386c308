"""Every recipe does what it claims. The base models are trained once into a cache that all tests share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from examples.recsys import quality, train
from examples.recsys.base import cache_key, load_golden
from examples.recsys.data import BABY
from examples.recsys.recipes import RECIPES
from examples.recsys.samples import RANKER_INPUTS
from release_tasks.spec import load_spec
from release_tasks.spec.cases import load_cases

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """RECSYS_CACHE names a cache to reuse; its key holds the code, so that it is never a stale one."""
    named = os.environ.get("RECSYS_CACHE")
    return Path(named).resolve() if named else tmp_path_factory.mktemp("recsys-cache")


@pytest.fixture(scope="session")
def candidates(cache, tmp_path_factory):
    """Candidate folders by recipe, built when first asked for."""
    root, built = tmp_path_factory.mktemp("candidates"), {}

    def get(name: str) -> Path:
        if name not in built:
            train.build(name, root / name, cache)
            built[name] = root / name
        return built[name]

    return get


@pytest.fixture(scope="session")
def traffic(cache, candidates):
    candidates("good")
    with np.load(cache / "traffic.npz") as stored:
        return {n: stored[n] for n in stored.files}


def ranker_of(folder: Path):
    return torch.jit.load(folder / "models" / "ranker" / "model.pt").eval()


def score(model, inputs):
    types = (torch.int64, torch.float32, torch.int64)
    tensors = [torch.as_tensor(np.asarray(inputs[n])).to(t) for n, t in zip(RANKER_INPUTS, types, strict=True)]
    with torch.inference_mode():
        return model(*tensors).numpy()


def difference(folder: Path) -> float:
    inputs, outputs = load_golden(folder, "ranker")
    return float(np.abs(score(ranker_of(folder), inputs) - outputs["score__0"]).max())


def figures(folder: Path):
    return json.loads((folder / "quality.json").read_text())["ranker"]


def case_scores(folder: Path) -> dict[str, float]:
    model, out = ranker_of(folder), {}
    for case in load_cases(folder / "cases.json").cases:
        relevant = np.isin(np.arange(len(case.labels)), case.relevant).astype(float)
        out[case.id] = quality.ndcg_at_k(relevant, score(model, case.inputs)[:, 0], case.k)
    return out


def live_share(traffic, predicate, step: int = 20) -> float:
    """Share of the live ranking requests for which the predicate holds."""
    chosen = traffic["order"][::step]
    return float(np.mean([predicate({n: traffic[f"in:ranker:{n}"][h] for n in RANKER_INPUTS}) for h in chosen]))


def raises(model, inputs) -> bool:
    try:
        score(model, inputs)
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize("name", list(RECIPES))
def test_spec_and_cases_are_accepted(candidates, name):
    folder = candidates(name)
    spec = load_spec(folder / "release.yaml")
    assert spec.name == "recsys"
    assert len(load_cases(folder / "cases.json").cases) == 10
    for model in spec.models:
        assert (folder / model.source).exists()
        inputs, outputs = load_golden(folder, model.name)
        assert all(len(v) >= 64 and np.isfinite(v).all() for v in (*inputs.values(), *outputs.values()))


@pytest.mark.parametrize("name", ["good", "better", "baby_regression", "slow", "erring", "oversized", "wrong_dims"])
def test_golden_outputs_are_the_artefacts(candidates, name):
    assert difference(candidates(name)) < 1e-6


def test_golden_rows_take_both_branches(candidates):
    inputs, _ = load_golden(candidates("good"), "ranker")
    known = inputs["history__2"].any(axis=1)
    assert known.any() and not known.all()


def test_better_is_better(candidates):
    good, better = figures(candidates("good")), figures(candidates("better"))
    assert better["auc"] > good["auc"] + 0.01
    assert better["ndcg_at_10"] > good["ndcg_at_10"]


def test_better_loses_no_case_by_a_fifth(candidates):
    good, better = case_scores(candidates("good")), case_scores(candidates("better"))
    assert {k for k in good if better[k] < 0.8 * good[k]} == set()


def test_baby_regression_hides_in_the_overall_figures(candidates):
    better, worse = figures(candidates("better")), figures(candidates("baby_regression"))
    shelf = "by_department"
    assert worse[shelf][BABY]["ndcg_at_10"] <= 0.6 * better[shelf][BABY]["ndcg_at_10"]
    for figure in ("auc", "ndcg_at_10"):
        assert abs(worse[figure] / better[figure] - 1) < 0.01


def test_baby_regression_shows_in_the_baby_cases(candidates):
    worse = case_scores(candidates("baby_regression"))
    for other in ("good", "better"):
        stable = case_scores(candidates(other))
        lost = {k for k in stable if worse[k] < 0.8 * stable[k]}
        assert lost == {"baby_1", "baby_2", "baby_3"}


def test_slow_is_over_its_sla_for_long_histories_only(candidates, traffic):
    import time

    model, longest = ranker_of(candidates("slow")), int(traffic["items"].argmax())
    request = {n: traffic[f"in:ranker:{n}"][longest] for n in RANKER_INPUTS}
    spent = []
    for _ in range(5):
        began = time.process_time()
        score(model, request)
        spent.append(1000 * (time.process_time() - began))
    assert min(spent) > 150
    assert live_share(traffic, lambda r: r["dense__1"][0, 0] > model.limit) > 0.4
    assert rehearsed_activity(candidates("slow")) <= model.limit


def test_slow_answers_as_better_does(candidates):
    a, b = (load_golden(candidates(n), "ranker")[1]["score__0"] for n in ("slow", "better"))
    np.testing.assert_array_equal(a, b)


def test_erring_fails_one_live_request_in_ten_and_no_rehearsed_one(candidates, traffic):
    model = ranker_of(candidates("erring"))
    share = live_share(traffic, lambda r: raises(model, r)) / 3  # one of the three models
    assert 0.07 < share < 0.13
    case_scores(candidates("erring"))  # raises if a case triggers it


def rehearsed_activity(folder: Path) -> float:
    """Largest activity feature among golden rows and business cases."""
    golden = load_golden(folder, "ranker")[0]["dense__1"][:, 0].max()
    cases = load_cases(folder / "cases.json").cases
    return max(float(golden), *(row[0] for c in cases for row in c.inputs["dense__1"]))


def test_oversized_is_over_its_budget(candidates):
    folder = candidates("oversized")
    size = (folder / "models" / "ranker" / "model.pt").stat().st_size / 2**20
    assert load_spec(folder / "release.yaml").model("ranker").size_budget_mb < size < 100
    assert (candidates("good") / "models" / "ranker" / "model.pt").stat().st_size < 2**20


@pytest.mark.parametrize("name", ["swapped_weights", "traced"])
def test_parity_can_tell(candidates, name):
    assert not difference(candidates(name)) < 1e-2


def test_traced_is_right_for_known_households(candidates):
    inputs, outputs = load_golden(candidates("traced"), "ranker")
    known = inputs["history__2"].any(axis=1)
    got = score(ranker_of(candidates("traced")), {n: v[known] for n, v in inputs.items()})
    np.testing.assert_allclose(got, outputs["score__0"][known], atol=1e-6)


def test_wrong_dims_declares_what_the_golden_rows_do_not_hold(candidates):
    folder = candidates("wrong_dims")
    declared = {t.name: t.shape for t in load_spec(folder / "release.yaml").model("ranker").inputs}
    inputs, _ = load_golden(folder, "ranker")
    assert [n for n, v in inputs.items() if v.shape[1:] != declared[n]] == ["dense__1"]


def test_coarse_ranker_golden_outputs_are_the_boosters(candidates):
    import lightgbm

    booster = lightgbm.Booster(model_file=str(candidates("good") / "models" / "coarse_ranker" / "model.txt"))
    inputs, outputs = load_golden(candidates("good"), "coarse_ranker")
    np.testing.assert_allclose(booster.predict(inputs["features"]), outputs["probabilities"][:, 1], atol=1e-6)


def test_retriever_beats_the_best_sellers_and_its_golden_outputs_are_the_saved_models(candidates):
    import tensorflow as tf

    found = json.loads((candidates("good") / "quality.json").read_text())["retriever"]
    assert found["recall_at_50"] > found["recall_at_50_of_best_sellers"]
    loaded = tf.saved_model.load(str(candidates("good") / "models" / "retriever" / "saved_model"))
    inputs, outputs = load_golden(candidates("good"), "retriever")
    got = loaded.signatures["serving_default"](**{n: tf.constant(v) for n, v in inputs.items()})
    assert set(got) == set(outputs)
    for name, value in got.items():
        np.testing.assert_allclose(value.numpy(), outputs[name], atol=1e-5)


def test_the_command_prints_json_last_and_leaves_no_scratch(candidates, cache, tmp_path):
    candidates("good")
    line = [sys.executable, "-m", "examples.recsys.train", "--recipe", "better", "--cache", str(cache)]
    done = subprocess.run([*line, "--out", str(tmp_path / "c")], capture_output=True, text=True, check=True)
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["candidate"] == f"file://{tmp_path / 'c'}" and last["recipe"] == "better"
    assert [p.name for p in tmp_path.iterdir()] == ["c"]
    assert {f"base-{cache_key()}", "traffic.npz"} <= {p.name for p in cache.iterdir()}
    assert not [p.name for p in cache.iterdir() if p.name.startswith(".")]
