"""Count a model's weights and cache by the table of families, ``families.json``.

The table was derived from the classes of transformers 5.24, each built at many configurations;
``python -m lab lm-architectures`` holds it to them. An entry holds, for one ``model_type``:
defaults and other spellings of keys; how values that are not given follow from others (``scalars``,
``lists``); each weight as (part, name, repetitions, condition, product of sizes); each cached
tensor; keys that are known to change nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.expressions import MissingKey, evaluate

TABLE = Path(__file__).with_name("families.json")
LAYERS_AT_MOST = 2_000
_INDEXED = re.compile(r"([\w.]+)\[i\]")
OLD_KINDS: Mapping[str, str] = {
    "mamba": "linear_attention", "attention": "full_attention",
    "deepseek_sparse_attention": "indexed_attention", "qwen_sparse_attention": "indexed_attention",
}  # fmt: skip
"""Kinds of layers as files before transformers 5 name them."""
_LARGEST = 2**40
_LONGEST_LIST = 10_000


@cache
def table() -> Mapping[str, Any]:
    """Return the table of families: ``families`` (by model type) and ``harmless`` keys."""
    read: Mapping[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return read


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight matrix of one layer (or of none): its part of the model, name, and size."""

    part: str
    """``attention``, ``dense``, ``expert``, ``embedding``, ``lookup``, ``head`` or ``tower``."""
    name: str
    count: float
    """Number of parameters."""


@dataclass(frozen=True, slots=True)
class Cached:
    """What one layer keeps of a sequence."""

    per_token: float
    window: int | None
    state: float
    """Values that do not grow with the sequence."""
    heads: float = 0.0
    """KV heads; 0: no keys, or a latent vector in their place."""
    head_dim: float = 0.0


@dataclass(frozen=True, slots=True)
class CountedModel:
    """A model that was counted by the table."""

    entry: Mapping[str, Any]
    values: Mapping[str, Any]
    """The configuration with defaults filled in."""
    weights: tuple[Weight, ...]
    cache: tuple[Cached, ...]
    """By layer."""

    def size(self, name: str, default: float = 0.0) -> float:
        """Return a named dimension (``heads``, ``hidden``, ``vocabulary``, ...) of the model."""
        text = self.entry["sizes"].get(name)
        if text is None:
            return default
        try:
            value = evaluate(text, self.values)
        except (ArithmeticError, LookupError, TypeError):
            return default
        if isinstance(value, list) and value and all(isinstance(v, int) for v in value):
            value = max(value)
        return float(value) if isinstance(value, int | float) else default


def count(entry: Mapping[str, Any], config: Mapping[str, Any], source: Path | str) -> CountedModel:
    """Return the weights and cache of a configuration of a family. Raises DocumentError that names
    the key that is missing, wrong or not understood."""
    values = resolved(entry, config, source)
    try:
        layers = evaluate(entry["layers"], values)
        if type(layers) is not int or not 1 <= layers <= LAYERS_AT_MOST:
            shown = repr(layers)[:40]
            raise DocumentError(
                source,
                f"must be a whole number from 1 to {LAYERS_AT_MOST} (it is {shown})",
                key=entry["layers"],
            )
        said = config.get("num_hidden_layers", layers)
        if isinstance(said, int) and said != layers and entry["layers"] != "1":
            raise DocumentError(
                source, f"is {said}, and the kinds of layers are {layers}", key="num_hidden_layers"
            )
        values["layers"] = layers
        weights = tuple(_weights(entry, values))
        cached = tuple(_cached(entry, values, i) for i in range(layers))
    except MissingKey as missing:
        raise DocumentError(source, "is missing", key=str(missing)) from None
    except (ArithmeticError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise DocumentError(
            source, f"has values that make no {entry['model_type']} model ({error})"[:200]
        ) from None
    for weight in weights:
        if not 0 <= weight.count < math.inf:
            raise DocumentError(source, f"has values that make no {entry['model_type']} model")
    return CountedModel(entry, values, weights, cached)


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of a configuration with those of nested objects as ``a.b``, and of a list
    of objects as the list of their values; the objects themselves, too."""
    values: dict[str, Any] = {}
    for key, value in config.items():
        values[prefix + key] = value
        if isinstance(value, dict):
            values |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
            items = [flat(item, f"{prefix}{key}.") for item in value[: LAYERS_AT_MOST + 1]]
            values |= {name: [item.get(name) for item in items] for name in items[0]}
    return values


def resolved(
    entry: Mapping[str, Any], config: Mapping[str, Any], source: Path | str
) -> dict[str, Any]:
    """Return the values that an entry's expressions use: defaults, the configuration's, and those
    that follow from these. Raises DocumentError for values of a wrong kind."""
    values = dict(entry["defaults"])
    aliases, nullable = entry["aliases"], entry["nullable"]
    layer_types = aliases.get("layer_types", "layer_types")
    indexed = {p for *_, product in entry["weights"] for p in _INDEXED.findall(product)}
    for key, read in flat(config).items():
        name = aliases.get(key, key)
        if name not in values or (name != key and name in config):
            continue
        if read is None and name not in nullable:
            continue
        by_layer = isinstance(read, list) and name in indexed
        value = read
        if not by_layer:
            reading = _uniform(read) if type(values[name]) is int else read
            value = _checked(reading, values[name], key, source)
        of_layers = name == layer_types and isinstance(value, list)
        values[name] = [_kind(v) for v in value] if of_layers else value
    values |= _by_layer(entry, config, values, source)
    raw = dict(values)
    for key, cases in entry["scalars"].items():
        for condition, text in cases:
            if not condition or _try(condition, raw):
                values[key] = _try(text, raw)
                break
    for key, rule in entry["lists"].items():
        read = raw.get(key)
        one_for_all = "each" in rule and not isinstance(read, list)
        if read is None or (one_for_all and config.get("per_layer_config") is None):
            values[key] = _by_rule(key, rule, entry["layers"], values)
    return values


def _by_rule(key: str, rule: Mapping[str, Any], count: str, values: Mapping[str, Any]) -> Any:
    """Return the list that a rule makes of other values; the value itself without a count."""
    layers = _try(rule.get("count", count), values)
    if layers is None:
        return values.get(key)
    indices = range(layers if type(layers) is int and layers <= LAYERS_AT_MOST else 0)
    space = {**values, "layers": layers}
    if "members" in rule:
        return [i for i in indices if _holds(rule["members"], {**space, "i": i})]
    cases = rule.get("each") or rule["kinds"]
    kinds = [next((v for c, v in cases if _holds(c, {**space, "i": i})), None) for i in indices]
    return [evaluate(str(text), space) for text in kinds] if "each" in rule else kinds


def _by_layer(
    entry: Mapping[str, Any], config: Mapping[str, Any], values: Mapping[str, Any],
    source: Path | str,
) -> dict[str, list[Any]]:  # fmt: skip
    overrides = config.get("per_layer_config") or {}
    layers = _try(entry["layers"], values)
    try:
        by_index = {int(index): dict(changed) for index, changed in overrides.items()}
    except (AttributeError, TypeError, ValueError):
        raise DocumentError(
            source, "must hold an object for each layer that differs", key="per_layer_config"
        ) from None
    keys = {key for changed in by_index.values() for key in changed if key in entry["defaults"]}
    if type(layers) is not int or layers > LAYERS_AT_MOST:
        return {}
    return {
        key: [
            _checked(by_index.get(i, {}).get(key, values[key]), entry["defaults"][key], key, source)
            for i in range(layers)
        ]
        for key in keys
    }


def _uniform(value: Any) -> Any:
    """Return the number that is the same in a list for all layers; any other value as it is."""
    if isinstance(value, list) and len(value) > 1 and value == [value[0]] * len(value):
        return value[0]
    return value


def _kind(value: Any) -> Any:
    return OLD_KINDS.get(value, value) if isinstance(value, str) else value


def _checked(value: Any, default: Any, key: str, source: Path | str) -> Any:
    """Return a value whose kind fits its default. Raises DocumentError."""

    def refused(problem: str) -> DocumentError:
        return DocumentError(source, problem[:120], key=key)

    number = type(default) in {int, float}
    if value is None or (isinstance(value, bool) and not number):
        return value
    if isinstance(value, int | float):
        if isinstance(default, bool) or (isinstance(default, str) and default != "auto"):
            raise refused(f"must be like {default!r} (it is {value!r})")
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(value, bool) or (isinstance(whole, float) and type(default) is int):
            raise refused(f"must be a whole number (it is {value!r})")
        if not (0 if type(default) is int and default > 0 else -1) <= whole <= _LARGEST:
            raise refused(f"must be a whole number up to {_LARGEST:.0e}")
        return whole
    if isinstance(value, list):
        if len(value) > _LONGEST_LIST:
            raise refused(f"holds more than {_LONGEST_LIST} items")
        if number or isinstance(default, bool | str):
            raise refused(f"must be like {default!r} (it is a list)")
        return value
    if isinstance(default, int | float | list) or not isinstance(value, str | type(default)):
        raise refused(f"must be a whole number (it is {str(value)[:40]!r})")
    return value[:_LONGEST_LIST] if isinstance(value, str) else value


def _try(text: str, values: Mapping[str, Any]) -> Any:
    try:
        return evaluate(text, values)
    except (ArithmeticError, TypeError, LookupError):
        return None


def _holds(condition: str, values: Mapping[str, Any]) -> bool:
    return not condition or bool(evaluate(condition, values))


def _weights(entry: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Weight]:
    """Yield each weight. Raises ValueError where two sizes of one matrix hold at once: then the
    conditions were derived from too few models."""
    names: set[str] = set()
    for weight in _every_weight(entry, values):
        if weight.name in names and not weight.name.endswith("vectors"):
            raise ValueError(f"{weight.name} has two sizes")
        names.add(weight.name)
        yield weight


def _every_weight(entry: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Weight]:
    for part, name, repetitions, condition, product in entry["weights"]:
        if "{}" not in name:
            if _holds(condition, values):
                yield Weight(part, name, float(evaluate(product, values)))
            continue
        times = evaluate(repetitions, values)
        if type(times) is not int or not 0 <= times <= LAYERS_AT_MOST:
            raise ValueError(f"{repetitions} is {str(times)[:20]}")
        by_layer = "[i]" in product
        size = 0.0 if by_layer else None
        for i in range(times):
            space = {**values, "i": i}
            if _holds(condition, space):
                if size is None or by_layer:
                    size = float(evaluate(product, space))
                yield Weight(part, name.replace("{}", str(i), 1), size)


def _cached(entry: Mapping[str, Any], values: Mapping[str, Any], index: int) -> Cached:
    space = {**values, "i": index}
    token = state = heads = head_dim = 0.0
    window = None
    for kind, condition, *sizes in entry["cache"]:
        if not _holds(condition, space):
            continue
        factors = [evaluate(size, space) for size in sizes]
        if kind == "window":
            window = None if factors[0] is None else int(factors[0])
        elif kind == "state":
            state += float(factors[0])
        else:
            token += float(math.prod(factors))
        if kind == "keys":
            heads, head_dim = map(float, factors)
    return Cached(token, window, state, heads, head_dim)
