"""JSON Schemas from types (``json_answers``), their text, and what of a value does not fit one."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin

from json_answers import Either, Same, fields
from pydantic import BaseModel, TypeAdapter

_WIDTH = 118
_PLAIN: Mapping[Any, str] = {
    type(None): "null", None: "null", bool: "boolean", int: "number", float: "number",
    str: "string",
}  # fmt: skip
_PYTHON: Mapping[str, Any] = {
    "null": type(None), "boolean": bool, "number": (int, float), "integer": int, "string": str,
    "array": list, "object": dict,
}  # fmt: skip
Schema = dict[str, Any]


def schema_of(kind: Any) -> Schema:
    """The schema of a type; classes that it names stand once, under ``$defs``."""
    defs: dict[str, Schema] = {}
    schema = _schema(kind, defs)
    return schema | ({"$defs": dict(sorted(defs.items()))} if defs else {})


def _schema(  # noqa: PLR0911 - one return a kind of type
    kind: Any, defs: dict[str, Schema]
) -> Schema:
    if kind is Any:
        return {}
    if isinstance(kind, Same):
        return {"$ref": f"{kind.name}.schema.json"}
    if isinstance(kind, dict):
        return _object(kind, defs)
    if isinstance(kind, list):
        return {"type": "array", "items": _schema(kind[0], defs)}
    if isinstance(kind, Either) or get_origin(kind) in {Union, types.UnionType}:
        return _either(kind.types if isinstance(kind, Either) else get_args(kind), defs)
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], defs)}
    if origin is tuple and arguments[-1] is not ...:
        return {"type": "array", "items": _either(tuple(dict.fromkeys(arguments)), defs)}
    if origin is not None and issubclass(origin, Sequence):
        return {"type": "array", "items": _schema(arguments[0], defs)}
    if issubclass(kind, BaseModel):
        return _document(kind, defs)
    if issubclass(kind, Enum | str):
        return {"type": "string"}
    assert is_dataclass(kind) or issubclass(kind, tuple), kind
    if kind.__name__ not in defs:
        defs[kind.__name__] = {}
        defs[kind.__name__] = _object(fields(kind), defs)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _object(kinds: Mapping[str, Any], defs: dict[str, Schema]) -> Schema:
    properties = {key.rstrip("?"): _schema(kind, defs) for key, kind in kinds.items() if key != "*"}
    required = [key for key in properties if key in kinds]
    more = {"additionalProperties": _schema(kinds["*"], defs)} if "*" in kinds else {}
    return {"type": "object", "properties": properties, "required": required} | more


def _either(kinds: Sequence[Any], defs: dict[str, Schema]) -> Schema:
    schemas = [_schema(kind, defs) for kind in kinds]
    if all(set(schema) == {"type"} for schema in schemas):
        names = sorted({schema["type"] for schema in schemas})
        return {"type": names if len(names) > 1 else names[0]}
    return {"anyOf": schemas}


def _document(kind: type[BaseModel], defs: dict[str, Schema]) -> Schema:
    """The schema of a document, without what pydantic says again: titles made from the names."""
    whole = TypeAdapter(kind).json_schema(mode="serialization", by_alias=True)
    defs.update({name: _short(of) for name, of in whole.pop("$defs", {}).items()})
    defs[kind.__name__] = _short(whole)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _short(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_short(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _short(each) for name, each in of.items()}
        if key == "properties"
        else _short(of)
        for key, of in schema.items()
        if key != "title"
    }


def text_of(value: Any, indent: int = 0) -> str:
    """A value as JSON in which all that fits in a line stands in one."""
    line = json.dumps(value)
    if not isinstance(value, dict | list) or len(line) + indent <= _WIDTH:
        return line
    pad = " " * (indent + 1)
    if isinstance(value, list):
        inner = [text_of(each, indent + 1) for each in value]
        return "[\n" + ",\n".join(pad + each for each in inner) + f"\n{' ' * indent}]"
    inner = [f"{json.dumps(key)}: {text_of(each, indent + 1)}" for key, each in value.items()]
    return "{\n" + ",\n".join(pad + each for each in inner) + f"\n{' ' * indent}}}"


def problems(value: Any, schema: Any, whole: Any, at: str = "$") -> Iterator[str]:
    """What of a value is not as its schema, a part of ``whole``, says."""
    if "$ref" in schema:
        yield from problems(value, whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, at)
        return
    if "anyOf" in schema:
        tried = [list(problems(value, each, whole, at)) for each in schema["anyOf"]]
        if all(tried):
            yield from min(tried, key=len)
        return
    named = schema.get("type", list(_PYTHON))
    named = [named] if isinstance(named, str) else named
    if not any(isinstance(value, _PYTHON[kind]) for kind in named) or (
        isinstance(value, bool) and "boolean" not in named
    ):
        yield f"{at}: {type(value).__name__}, not {' or '.join(named)}"
        return
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from problems(each, schema.get("items", {}), whole, f"{at}[{number}]")
    if isinstance(value, dict):
        known, more = schema.get("properties"), schema.get("additionalProperties")
        yield from (f"{at}.{k}: missing" for k in schema.get("required", ()) if k not in value)
        for key, each in value.items():
            if known is not None and key not in known and not isinstance(more, dict):
                yield f"{at}.{key}: not documented"
                continue
            inner = (known or {}).get(key, more if isinstance(more, dict) else {})
            yield from problems(each, inner, whole, f"{at}.{key}")
