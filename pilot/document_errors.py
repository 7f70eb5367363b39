"""Errors of documents, in one sentence: which key is wrong, and which key was probably meant."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from berth.pilot.errors import DocumentError


def explain(
    error: ValidationError, data: dict[str, Any], model: type[BaseModel], source: str | Path
) -> DocumentError:
    """Return pydantic's error as one sentence about one key, with a hint where there is one."""
    problems = error.errors(include_url=False, include_input=True)
    # A misspelt key also leaves the right one missing: the misspelling is the news.
    first = next((e for e in problems if e["type"] == "extra_forbidden"), problems[0])
    location = [part for part in first["loc"] if not _is_union_tag(part, data)]
    key = ".".join(str(part) for part in location) or None
    kind = first["type"]
    if kind == "extra_forbidden":
        return unknown_key(source, str(key), model, location)
    if kind == "missing":
        return DocumentError(source, "is missing", key=key)
    message = first["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    shown = _shown(first["input"])
    inside = _known_keys(model, location) if kind == "model_type" else []
    hint = f"write an object (a table) with the keys {', '.join(inside)}" if inside else None
    return DocumentError(source, f"{message}{shown}", key=key, hint=hint)


def unknown_key(
    source: str | Path, key: str, model: type[BaseModel], location: Sequence[int | str] = ()
) -> DocumentError:
    """Return the error for a key that ``model`` lacks; it suggests the most similar valid key."""
    *above, last = location or (key,)
    near = _nearest(str(last), _known_keys(model, above))
    return DocumentError(
        source, "is not a known key", key=key, hint=f"did you mean {near!r}?" if near else None
    )


def _is_union_tag(part: int | str, data: dict[str, Any]) -> bool:
    return isinstance(part, str) and part.startswith("function-") and part not in data


def _shown(value: object) -> str:
    if isinstance(value, str | int | float | bool) or value is None:
        text = repr(value)
        return f" (it is {text if len(text) <= 60 else text[:57] + '...'})"
    return f" (it is {kind_of(value)})"


def kind_of(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true/false"}
    return names.get(type(value), "nothing" if value is None else f"a {type(value).__name__}")


def _nearest(name: str, known: list[str]) -> str | None:
    import difflib  # noqa: PLC0415 - of errors alone

    matches = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return matches[0] if matches else None


def _known_keys(model: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    """Return the keys that a document type accepts at ``location``, a path of keys and indices."""
    current: type[BaseModel] | None = model
    annotation: object = None
    for part in location:
        if current is not None and isinstance(part, str):
            field = next((f for n, f in current.model_fields.items() if part in (n, f.alias)), None)
            annotation = field.annotation if field else None
        current = _inner_model(annotation)
    if current is None:
        return []
    return [field.alias or name for name, field in current.model_fields.items()]


def _inner_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is not None:
        for argument in typing.get_args(annotation):
            inner = _inner_model(argument)
            if inner is not None:
                return inner
    return None
