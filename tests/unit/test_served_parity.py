"""A served answer that lacks rows is held against every row that was sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from release_tasks.golden import Golden
from release_tasks.outcome import Verdict
from release_tasks.stages.served_parity import _judge
from tests.unit.test_checklist import bare_context

EXPECTED = np.arange(8, dtype=np.float32).reshape(8, 1)
GOLDEN = Golden(inputs={"features": np.ones((8, 4), np.float32)}, outputs={"score": EXPECTED})


@pytest.mark.parametrize(
    ("got", "passed"),
    [(EXPECTED, True), (EXPECTED[:7], False), (EXPECTED[:0], False), (np.concatenate([EXPECTED, EXPECTED]), False)],
)
def test_number_of_rows(tmp_path: Path, got: np.ndarray, passed: bool) -> None:
    context = bare_context(tmp_path)
    draft = context.draft("served_parity", "r1")
    _judge(draft, context.spec.models[0], GOLDEN, "http.batch_8", {"score": got})
    assert (draft.finish().verdict is Verdict.passed) is passed


def test_first_rows_of_golden_data() -> None:
    assert GOLDEN.first(3).rows == 3
    assert GOLDEN.first(99).rows == 8
    assert np.array_equal(GOLDEN.first(3).outputs["score"], EXPECTED[:3])
