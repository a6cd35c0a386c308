"""The base class of every part of the spec."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SpecPart(BaseModel):
    """Frozen; an unknown key is an error, so that a typo dies before a server is started."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
