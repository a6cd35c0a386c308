"""Golden data: inputs and the outputs that the source framework gave for them."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from release_tasks.errors import GoldenDataError
from release_tasks.spec.model import ModelSpec
from release_tasks.spec.tensors import TensorSpec

Tensor = NDArray[Any]
MIN_ROWS = 2


@dataclass(frozen=True)
class Golden:
    """Golden rows of one model: arrays of shape (rows, *shape of the spec), by tensor name."""

    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]

    @property
    def rows(self) -> int:
        """Number of rows, the same for every array."""
        return len(next(iter(self.inputs.values())))

    def first(self, rows: int) -> Golden:
        """The first that many rows."""
        return Golden({k: v[:rows] for k, v in self.inputs.items()}, {k: v[:rows] for k, v in self.outputs.items()})


def load_golden(root: Path, model: ModelSpec) -> Golden:
    """Read and check the golden rows of a model of the candidate at ``root``. Pickled arrays are never loaded.

    Raises:
        GoldenDataError: missing, unreadable, or a name, type, shape, row count or value breaks a rule.
    """
    place = f"models.{model.name}.golden"
    arrays = _read(root / model.golden, place, model.golden)
    wanted = {f"in:{t.name}": t for t in model.inputs} | {f"out:{t.name}": t for t in model.outputs}
    if set(arrays) != set(wanted):
        raise GoldenDataError(
            field=place,
            value=sorted(arrays),
            rule=f"the arrays must be named {sorted(wanted)}",
            remedy="write one array per input (`in:<name>`) and output (`out:<name>`) of the spec",
        )
    for key, spec in wanted.items():
        _check(f"{place}: {key}", arrays[key], spec)
    rows = {key: len(array) for key, array in arrays.items()}
    if len(set(rows.values())) != 1:
        raise GoldenDataError(
            field=place, value=rows, rule="every array needs the same number of rows", remedy="record the rows again"
        )
    return Golden(
        inputs={t.name: arrays[f"in:{t.name}"] for t in model.inputs},
        outputs={t.name: arrays[f"out:{t.name}"] for t in model.outputs},
    )


def _read(path: Path, place: str, name: str) -> dict[str, Tensor]:
    try:
        data = np.load(path, allow_pickle=False)
        if not isinstance(data, np.lib.npyio.NpzFile):
            raise ValueError("it holds one bare array")
        with data:
            return {key: data[key] for key in data.files}
    except FileNotFoundError as error:
        raise GoldenDataError(
            field=place, value=name, rule="the file does not exist", remedy="add it to the candidate"
        ) from error
    except (
        OSError,
        ValueError,
        EOFError,
        AttributeError,
        zlib.error,
        NotImplementedError,
        zipfile.BadZipFile,
    ) as error:
        raise GoldenDataError(
            field=place,
            value=name,
            rule=f"it must be an intact .npz of plain arrays ({error})",
            remedy="write it with numpy.savez, without object arrays",
        ) from error


def _check(place: str, array: Tensor, spec: TensorSpec) -> None:
    if array.dtype != np.dtype(spec.dtype.numpy):
        raise GoldenDataError(
            field=place,
            value=str(array.dtype),
            rule=f"the spec says {spec.dtype}, which is {spec.dtype.numpy}",
            remedy="cast the array, or mend `dtype` in the spec",
        )
    if not fits(array.shape[1:], spec.shape) or array.ndim < 1:
        raise GoldenDataError(
            field=place,
            value=array.shape,
            rule=f"the spec says (rows, {', '.join(map(str, spec.shape))})",
            remedy="put rows first and give every row the shape of the spec",
        )
    if len(array) < MIN_ROWS:
        raise GoldenDataError(
            field=place,
            value=f"{len(array)} rows",
            rule=f"at least {MIN_ROWS} are needed, to see a mistake in batching",
            remedy="record more rows",
        )
    finite = np.isfinite(array)
    if not finite.all():
        row = int(np.argwhere(~finite)[0][0])
        raise GoldenDataError(
            field=place,
            value=f"{array[~finite][0]} in row {row}",
            rule=f"every value must be finite; {int((~finite).sum())} are not",
            remedy="remove NaN and Inf at the source and record the rows again",
        )


def fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a row's shape is the spec's, where -1 stands for any size of at least 1."""
    return len(shape) == len(wanted) and all(w in (-1, s) and s > 0 for s, w in zip(shape, wanted, strict=True))
