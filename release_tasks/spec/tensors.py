"""Inputs and outputs of a model, as a client sees them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from release_tasks.spec.base import SpecPart


class Datatype(StrEnum):
    """Triton's tensor types (the v2 protocol's names)."""

    BOOL = "BOOL"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"

    @property
    def numpy(self) -> str:
        """Name of the matching numpy dtype."""
        if self is Datatype.BOOL:
            return "bool"
        return self.value.lower().replace("fp", "float")


class Tolerance(SpecPart):
    """Largest accepted difference: ``|got - expected| <= absolute + relative * |expected|``."""

    absolute: float = Field(default=1e-5, gt=0, description="Absolute part, in units of the output.")
    relative: float = Field(default=1e-5, gt=0, lt=1, description="Relative part, a fraction of the expected value.")


class TensorSpec(SpecPart):
    """One input tensor."""

    name: str = Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Name that clients send. For `pytorch` it must end in `__<index>` (the LibTorch backend's rule).",
    )
    dtype: Datatype = Field(default=Datatype.FP32, description="Tensor type in the v2 protocol.")
    shape: tuple[int, ...] = Field(
        min_length=1,
        description="Shape of ONE row, without the batch dimension; -1 for a dimension that varies.",
    )

    @model_validator(mode="after")
    def _positive(self) -> TensorSpec:
        for size in self.shape:
            if size == 0 or size < -1:
                raise ValueError("every dimension is positive, or -1 where it varies")
        return self


class OutputSpec(TensorSpec):
    """One output tensor."""

    tolerance: Tolerance = Field(
        default_factory=Tolerance, description="How far the exported and the served output may be from the source's."
    )
