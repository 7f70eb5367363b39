"""JSON Schema of what commands print: made from one output, merged, and held against another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MAPS = frozenset((
    "counters", "unknown_operators", "mig", "values", "effects", "intervals", "refused", "peaks",
    "vector", "matrix", "edits", "translation", "known_elsewhere", "left_out", "corrections",
    "kernels", "weights", "folded", "figures", "files", "hyperparameters", "libraries", "sources",
    "missing", "bytes", "deleted", "tables", "codes", "places", "breakers", "starts_s",
    "problems",
))  # fmt: skip
"""Objects whose keys are names of something: any key, values of one type."""
ANY = frozenset(("document", "request", "signature", "graph"))
"""Documents of their own schema, and what a scheduler's request held."""
_PLAIN: tuple[tuple[str, Any], ...] = (
    ("null", type(None)), ("boolean", bool), ("number", (int, float)), ("string", str),
)  # fmt: skip
_MAP = ("object", "additionalProperties")


def schema_of(value: Any, name: str = "") -> dict[str, Any]:
    if name in ANY and isinstance(value, dict):
        return {"type": ["object"]}
    for kind, of in _PLAIN:
        if isinstance(value, of):
            return {"type": [kind]}
    if isinstance(value, list) or name in MAPS:
        inner: dict[str, Any] = {}
        for one in value if isinstance(value, list) else value.values():
            inner = merged(inner, schema_of(one))
        kind, key = ("array", "items") if isinstance(value, list) else _MAP
        return {"type": [kind]} | ({key: inner} if inner else {})
    properties = {key: schema_of(one, key) for key, one in value.items()}
    return {"type": ["object"], "properties": properties, "required": sorted(properties)}


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that both values have."""
    if not one or not other:
        return dict(one or other)
    found: dict[str, Any] = {"type": sorted({*one["type"], *other["type"]})}
    for key in ("items", "additionalProperties"):
        if key in one or key in other:
            found[key] = merged(one.get(key, {}), other.get(key, {}))
    if "properties" in one or "properties" in other:
        a, b = one.get("properties", {}), other.get("properties", {})
        found["properties"] = {
            key: merged(a.get(key, {}), b.get(key, {})) for key in sorted({*a, *b})
        }
        required = [set(x["required"]) for x in (one, other) if "required" in x]
        found["required"] = sorted(set.intersection(*required))
    return found


def problems(value: Any, schema: Mapping[str, Any], at: str = "$") -> Iterator[str]:
    """How a value is not as its schema says (of what ``schema_of`` writes)."""
    kinds = {**dict(_PLAIN), "array": list, "object": dict}
    named = schema.get("type", list(kinds))
    if not any(isinstance(value, kinds[kind]) for kind in named):
        yield f"{at}: {type(value).__name__}, not {' or '.join(named)}"
        return
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from problems(one, schema.get("items", {}), f"{at}[{number}]")
    if isinstance(value, dict):
        known = schema.get("properties")
        yield from (f"{at}.{k}: missing" for k in schema.get("required", ()) if k not in value)
        for key, one in value.items():
            if known is not None and key not in known:
                yield f"{at}.{key}: not documented"
            inner = (known or {}).get(key, schema.get("additionalProperties", {}))
            yield from problems(one, inner, f"{at}.{key}")
