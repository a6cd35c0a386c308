"""Business cases: concrete requests with the answer a business owner expects."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from release_tasks.errors import CandidateError
from release_tasks.spec.base import SpecPart


class BusinessCase(SpecPart):
    """One case: rows that are ranked by one model, and which of them are right."""

    id: str = Field(min_length=1, description="Stable identifier.")
    title: str = Field(min_length=1, description="What a person reads, e.g. `Family with a baby, buys weekly`.")
    tags: tuple[str, ...] = Field(default=(), description="Groups the case belongs to, e.g. `baby`.")
    model: str = Field(description="Model that answers.")
    inputs: dict[str, list[Any]] = Field(description="Values per input, rows first.")
    output: str = Field(description="Output whose value orders the rows, the highest first.")
    metric: Literal["recall_at_k", "ndcg_at_k"] = Field(default="ndcg_at_k", description="How the order is scored.")
    k: int = Field(default=10, ge=1, description="How many of the first rows count.")
    relevant: tuple[int, ...] = Field(min_length=1, description="Indices of the rows that are right.")
    hard: bool = Field(default=False, description="A hard case below `min_score` blocks the release by itself.")
    min_score: float = Field(default=0.0, ge=0, le=1, description="Lowest accepted score of a hard case.")
    labels: tuple[str, ...] = Field(default=(), description="A name per row, for the table; may be empty.")

    @model_validator(mode="after")
    def _rows(self) -> Self:
        rows = {name: len(values) for name, values in self.inputs.items()}
        if len(set(rows.values())) != 1:
            raise ValueError(f"every input needs the same number of rows, got {rows}")
        count = next(iter(rows.values()))
        if any(not 0 <= i < count for i in self.relevant):
            raise ValueError(f"relevant rows must lie between 0 and {count - 1}")
        return self


class CaseBook(SpecPart):
    """The file named by `regression.cases`."""

    version: Literal[1] = Field(description="Version of this format.")
    cases: tuple[BusinessCase, ...] = Field(min_length=1, description="The cases.")


def load_cases(path: Path) -> CaseBook:
    """Read the business cases.

    Raises:
        CandidateError: the file is missing or malformed.
    """
    try:
        return CaseBook.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CandidateError(
            field="regression.cases", value=str(path), rule="the file does not exist", remedy="add it to the candidate"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CandidateError(
            field="regression.cases",
            value=path.name,
            rule=f"it must be a readable text file ({getattr(error, 'strerror', None) or error})",
            remedy="write it as UTF-8 JSON",
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(p) for p in first["loc"])
        raise CandidateError(
            field=f"{path.name}: {place or '(top level)'}",
            value=first["input"],
            rule=first["msg"],
            remedy="see docs/spec.md",
        ) from error
