"""A Great Expectations suite over golden data: row count, types, nulls and ranges of every tensor."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from release_tasks.errors import DependencyMissing
from release_tasks.golden import Golden


@dataclass(frozen=True)
class SuiteResult:
    """What one suite found: how many expectations were met, and the ones that were not."""

    name: str
    expectations: int
    unmet: tuple[str, ...]


def check_golden(golden: dict[str, Golden]) -> list[SuiteResult]:
    """Run the suite over every tensor of every model; one result per model, in order.

    Raises:
        DependencyMissing: Great Expectations is not installed.
    """
    gx = _great_expectations()
    with _quiet():
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        source = context.data_sources.add_pandas("golden")
        return [_model(gx, source, name, rows) for name, rows in golden.items()]


def _model(gx: Any, source: Any, name: str, golden: Golden) -> SuiteResult:
    tensors = {f"in:{k}": v for k, v in golden.inputs.items()} | {f"out:{k}": v for k, v in golden.outputs.items()}
    count, unmet = 0, []
    for tensor, array in tensors.items():
        batch = source.add_dataframe_asset(f"{name} {tensor}").add_batch_definition_whole_dataframe("all")
        suite = gx.ExpectationSuite(name=f"{name} {tensor}", expectations=_expectations(gx, array, golden.rows))
        result = batch.get_batch({"dataframe": _frame(array)}).validate(suite)
        count += len(result.results)
        unmet += [f"{tensor}: {_words(r)}" for r in result.results if not r.success]
    return SuiteResult(name, count, tuple(unmet))


def _frame(array: NDArray[Any]) -> Any:
    """One line per element, so that wide tensors stay one column."""
    import pandas

    rows = np.repeat(np.arange(len(array)), array[0].size)
    return pandas.DataFrame({"row": rows, "value": array.reshape(-1)})


def _expectations(gx: Any, array: NDArray[Any], rows: int) -> list[Any]:
    expect = gx.expectations
    made = [
        expect.ExpectTableRowCountToEqual(value=rows * array[0].size),
        expect.ExpectTableColumnsToMatchOrderedList(column_list=["row", "value"]),
        expect.ExpectColumnValuesToNotBeNull(column="value"),
        expect.ExpectColumnValuesToBeOfType(column="value", type_=str(array.dtype)),
        expect.ExpectColumnUniqueValueCountToBeBetween(column="row", min_value=rows, max_value=rows),
    ]
    if np.issubdtype(array.dtype, np.floating):
        largest = float(np.finfo(array.dtype).max)
        made.append(expect.ExpectColumnValuesToBeBetween(column="value", min_value=-largest, max_value=largest))
    return made


def _words(result: Any) -> str:
    config = result.expectation_config
    seen = result.result.get("observed_value", result.result.get("partial_unexpected_list"))
    return f"{config.type} of column {config.kwargs.get('column', '(table)')}, observed {seen}"


def _great_expectations() -> Any:
    # Read at import: no usage statistics leave the machine.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import great_expectations
    except ImportError as error:
        raise DependencyMissing(
            f"golden data is checked with Great Expectations: {error}", remedy="install great-expectations"
        ) from error
    return great_expectations


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
