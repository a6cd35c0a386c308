"""Read release.yaml; every fault becomes a SpecError that names field, value, rule and remedy."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from release_tasks.errors import SpecError
from release_tasks.spec.release import ReleaseSpec
from release_tasks.spec.yaml_text import read_yaml


def load_spec(path: Path) -> ReleaseSpec:
    """Read and check a spec file.

    Raises:
        SpecError: the file is missing, is no YAML mapping, or breaks a rule.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            field="--spec", value=str(path), rule=f"it must be a readable text file ({error})", remedy="check the path"
        ) from error
    return parse_spec(text, source=str(path))


def parse_spec(text: str, *, source: str = "release.yaml") -> ReleaseSpec:
    """Check the text of a spec.

    Raises:
        SpecError: the text is no YAML mapping or breaks a rule.
    """
    try:
        raw = read_yaml(text)
    except ValueError as error:
        raise SpecError(
            field=source, value="the text", rule=f"it must be plain, valid YAML: {error}", remedy="mend the line"
        ) from error
    if not isinstance(raw, dict):
        raise SpecError(
            field=source, value=raw, rule="it must be a mapping at the top", remedy="see docs/spec.md for the keys"
        )
    try:
        return ReleaseSpec.model_validate(raw)
    except ValidationError as error:
        raise _translate(error, source) from error


def _translate(error: ValidationError, source: str) -> SpecError:
    details = _causes(error.errors(include_url=False))
    first = details[0]
    more = "".join(f"\n  also {_path(d)}: {_rule(d)}" for d in details[1:])
    return SpecError(
        field=f"{source}: {_path(first)}",
        value=_value(first),
        rule=_rule(first) + more,
        remedy=_remedy(first),
    )


def _causes(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without faults that follow from another: a list whose one item is wrong is also reported as too short."""
    inner = {d["loc"][:size] for d in details for size in range(len(d["loc"]))}
    return [d for d in details if d["type"] != "too_short" or d["loc"] not in inner]


def _path(detail: ErrorDetails) -> str:
    text = ""
    for part in detail["loc"]:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text or "(top level)"


def _value(detail: ErrorDetails) -> object:
    if detail["type"] == "missing":
        return "(absent)"
    if detail["type"] == "extra_forbidden":
        return detail["loc"][-1]
    return detail["input"]


def _rule(detail: ErrorDetails) -> str:
    if detail["type"] == "missing":
        return "this key is required"
    if detail["type"] == "extra_forbidden":
        return "there is no such key"
    return detail["msg"].removeprefix("Value error, ")


def _remedy(detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        known = _keys_at(detail["loc"][:-1])
        near = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1)
        hint = f"did you mean `{near[0]}`? " if near else ""
        return f"{hint}known keys here: {', '.join(known)}"
    if detail["type"] == "missing":
        return f"add `{detail['loc'][-1]}`; see docs/spec.md"
    return "change the value; see docs/spec.md"


def _keys_at(loc: tuple[int | str, ...]) -> list[str]:
    """Field names of the spec part that lies at that place."""
    part: type[BaseModel] = ReleaseSpec
    for key in loc:
        if isinstance(key, str) and key in part.model_fields:
            part = _part_in(part.model_fields[key].annotation) or part
    return sorted(part.model_fields)


def _part_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in get_args(annotation):
        found = _part_in(inner)
        if found:
            return found
    return None
