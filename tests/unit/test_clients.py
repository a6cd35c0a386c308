"""Addresses, metrics pages and the GPU rule."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

from release_tasks.clients.digests import digest_chunks
from release_tasks.clients.storage import ObjectInfo, same_bytes
from release_tasks.clients.triton import MetricSample, parse_metrics
from release_tasks.clients.uris import join_uri, split_uri
from release_tasks.errors import InvalidInput
from release_tasks.outcome import Verdict
from release_tasks.stages.smoke import GPU_TOTAL, GPU_USED, check_gpu


def test_uri_is_split_and_joined() -> None:
    assert split_uri("gs://bucket/a/b") == ("bucket", "a/b")
    assert split_uri("gs://bucket") == ("bucket", "")
    assert join_uri("gs://bucket/a/", "/b", "c") == "gs://bucket/a/b/c"


@pytest.mark.parametrize("uri", ["", "bucket/a", "s3://bucket/a", "gs://", "gs:///a", "gs:/bucket/a"])
def test_wrong_uri_is_named_with_the_rule(uri: str) -> None:
    with pytest.raises(InvalidInput, match="gs://<bucket>/<object>"):
        split_uri(uri)


@pytest.mark.parametrize("change", [{"md5": ""}, {"crc32c": ""}, {"size": 2}, {"md5": "AAAA"}])
def test_missing_or_other_digest_proves_nothing(change: dict[str, object]) -> None:
    digest = digest_chunks([b"abc"], "a")
    given = {"size": digest.size, "md5": digest.md5, "crc32c": digest.crc32c}
    info = {"uri": "gs://b/a", "generation": 1, "updated": datetime(2026, 1, 1, tzinfo=UTC)}
    assert same_bytes(ObjectInfo(**info, **given), digest)  # type: ignore[arg-type]
    assert not same_bytes(ObjectInfo(**info, **given | change), digest)  # type: ignore[arg-type]


def test_metrics_page_with_labels_escapes_and_nan() -> None:
    page = '# HELP a text\na{x="1",y="q\\"{}"} 2.5\nb NaN\nc{} +Inf\nd what\n'
    a, b, c, d = parse_metrics(page)
    assert (a.name, a.labels["x"], a.value) == ("a", "1", 2.5)
    assert math.isnan(b.value)
    assert c.value == math.inf
    assert math.isnan(d.value)


GPU = {"gpu_uuid": "GPU-1"}


@pytest.mark.parametrize(
    ("samples", "required", "verdict"),
    [
        ([], False, Verdict.passed),
        ([], True, Verdict.failed),
        ([MetricSample(GPU_TOTAL, GPU, 2e9), MetricSample(GPU_USED, GPU, 1e9)], True, Verdict.passed),
        ([MetricSample(GPU_TOTAL, GPU, 2e9)], True, Verdict.inconclusive),
        ([MetricSample(GPU_TOTAL, GPU, 2e9), MetricSample(GPU_USED, GPU, math.nan)], False, Verdict.inconclusive),
    ],
)
def test_gpu_rule(tmp_path: Path, samples: list[MetricSample], required: bool, verdict: Verdict) -> None:
    from tests.unit.test_checklist import bare_context

    draft = bare_context(tmp_path).draft("smoke", "r1")
    check_gpu(draft, samples, required=required)
    assert draft.finish().verdict is verdict
