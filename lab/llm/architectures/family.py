"""The configurations and models of a family that its entry of the table is derived from.

A family's class is resolved at many configurations, with numbers that remember their expression,
and built at its defaults and at some changed ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berth.predictor.families.language_model import expressions
from lab.llm.architectures.samples import SAMPLES
from lab.llm.architectures.symbols import as_symbol, text_of, whole_numbers_kept
from lab.llm.architectures.trace import (
    Trace,
    config_class,
    counts,
    flat,
    trace,
    values_by_layer,
)

LAYERS = 16
"""Number of layers of the models that are built; more than any period of layer kinds."""
CERTAINLY_HARMLESS = re.compile(
    r"(token_ids?|dropout|_pdrop|layerdrop|_eps|epsilon|rope_theta|rope_parameters|rope_scaling"
    r"|initializer_range|initializer_factor|init_std|aux_loss_coef|softcapping|jitter_noise)$"
)
"""Numbers that no model's shape depends on; they are not varied."""
SKIPPED = {"id2label", "label2id", "architectures", "transformers_version", "dtype",
            "problem_type",
            "output_hidden_states", "return_dict", "use_cache", "is_encoder_decoder",
            "chunk_size_feed_forward", "output_attentions", "num_labels", "torch_dtype",
            "output_router_logits", "_name_or_path", "attn_implementation"}  # fmt: skip
_MOST_PAIRS = 120
_MOST_TRACES = 60
_LEGACY = re.compile(r"""kwargs\.(?:pop|get)\(\s*["'](\w+)["']\s*(?:,\s*([^)]+?)\s*)?\)""")


@dataclass
class Resolved:
    """One configuration: its raw values and what its class makes of them."""

    raw: dict[str, Any]
    values: dict[str, Any]
    texts: dict[str, Any]
    """Expression of each value over the raw keys; of a list, of each element."""
    by_layer: frozenset[str] = frozenset()
    """Keys that differ between layers."""


class Family:
    """A family's configurations and models, built as they are needed."""

    def __init__(self, model_type: str) -> None:
        self.model_type = model_type
        self.cls = config_class(model_type)
        self.defaults = self._defaults()
        named = self.cls.attribute_map.get("num_hidden_layers", "num_hidden_layers")
        self.layers_key = next((k for k in (named, "num_layers") if k in self.defaults), named)
        self.layers = self.layers_key
        self.problems: list[str] = []
        self.samples = SAMPLES.get(model_type, [])
        self.base = self._base()
        self.resolved = list(self._resolve_many())
        self.by_layer = sorted({key for point in self.resolved for key in point.by_layer})
        """Keys that differ between layers in some configuration."""
        self._at: dict[tuple[int, int], dict[str, Any]] = {}
        self.traces = list(self._trace_many())
        if self.traces and not isinstance(self.traces[0].values.get(self.layers_key), int):
            self.layers = self._layers_by_list()
        elif any(n > layers for n, layers in self._cached_layers()):
            doubled = all(n == 2 * layers for n, layers in self._cached_layers())
            self.layers = f"2 * {self.layers_key}" if doubled else self.layers_key
        self.lists: dict[str, Any] = {}

    def _defaults(self) -> dict[str, Any]:
        defaults: dict[str, Any] = {}
        for f in dataclasses.fields(self.cls):
            if f.name in SKIPPED or f.name.startswith("_"):
                continue
            value = f.default
            if value is dataclasses.MISSING:
                value = None if f.default_factory is dataclasses.MISSING else f.default_factory()
            if isinstance(value, tuple):
                value = list(value)
            defaults[self.cls.attribute_map.get(f.name, f.name)] = value
        self.legacy: dict[str, Any] = {}
        with_source = getattr(self.cls, "__post_init__", None)
        source = inspect.getsource(with_source) if with_source else ""
        for name, default in _LEGACY.findall(source):
            if name in {*defaults, *SKIPPED, *self.cls.attribute_map} or CERTAINLY_HARMLESS.search(
                name
            ):
                continue
            try:
                self.legacy[name] = json.loads(default.replace("_", "")) if default else None
            except ValueError:
                self.legacy[name] = None
        own = {*defaults, *self.cls.attribute_map}
        if _names_attribute(self.cls, "head_dim") and "head_dim" not in own:
            self.legacy["head_dim"] = None
        for name, value in flat(self.cls()).items():  # computed, unless a file has the key
            if type(value) is int and name not in {*own, *SKIPPED} and "." not in name:
                self.legacy.setdefault(name, None)
        return defaults

    @property
    def layered(self) -> list[dict[str, Any]]:
        """Return changed values of keys that count or name layers, one at a time."""
        return [
            {k: n} for k, v in self.defaults.items() for n in (3, 5, 7)
            if type(v) is int and OF_LAYERS.search(k) and k != self.layers_key
        ]  # fmt: skip

    def _base(self) -> dict[str, Any]:
        """Return the first inputs of which the class makes a model with a known number of layers;
        else the first that it takes."""
        few: dict[str, Any] = {self.layers_key: LAYERS}
        taken: list[dict[str, Any]] = []
        for inputs in (few, {}, *({**few, **sample} for sample in self.samples)):
            with contextlib.suppress(Exception):
                taken.append(inputs if flat(self.cls(**inputs)) else {})
                values = trace(self.model_type, inputs, cache=False).values
                if isinstance(values.get(self.layers_key), int):
                    return inputs
        return {**few, **self.samples[0]} if self.samples else (taken or [{}])[0]

    def _cached_layers(self) -> list[tuple[int, int]]:
        """Return the layers of the cache of each model that shows one, and the model's layers."""
        return [
            (n, traced.values[self.layers_key])
            for n, traced in zip(counts(self.traces)["cache."], self.traces, strict=True) if n
        ]  # fmt: skip

    def _layers_by_list(self) -> str:
        """Return the length of the list that has an item for each layer, as an expression."""
        most = max(counts(self.traces).values(), key=lambda c: c[0])
        for key, value in self.traces[0].values.items():
            if isinstance(value, list) and all(
                isinstance(t.values.get(key), list) and len(t.values[key]) == n
                for t, n in zip(self.traces, most, strict=True)
            ):
                return f"len({key})"
        return self.layers_key

    def count_of(self, values: Mapping[str, Any]) -> int | None:
        """Return the number of layers of resolved values; None: it is not known."""
        try:
            return int(expressions.evaluate(self.layers, values))
        except (LookupError, TypeError):
            return None

    def raw(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return all raw keys with defaults, and the inputs over them."""
        names = self.cls.attribute_map
        renamed = {names.get(k, k): v for k, v in inputs.items()}
        return {**self.defaults, **self.legacy, **renamed}

    def resolve(self, inputs: Mapping[str, Any]) -> Resolved:
        """Return what the configuration's class makes of inputs. Raises what it raises."""
        raw = self.raw(inputs)
        passed = {
            k: v if CERTAINLY_HARMLESS.search(k) else as_symbol(v, k) for k, v in raw.items()
            if v != {} and (k not in self.legacy or k in inputs or type(v) is int)
        }  # fmt: skip
        with whole_numbers_kept(self.cls.__module__.rpartition(".")[0]):
            config = self.cls(**passed)
        texts = {
            name: [*map(text_of, value)] if isinstance(value, list) else text_of(value)
            for name, value in vars(config).items() if not name.startswith("_")
        }  # fmt: skip
        by_layer = values_by_layer(config)
        texts |= {name: [*map(text_of, values)] for name, values in by_layer.items()}
        return Resolved(raw, flat(config), texts, frozenset(by_layer))

    def by_layer_text(self, text: Any) -> Any:
        """Return an expression in which keys that differ between layers stand for a layer's value
        (``head_dim[i]``); a plain size as it is."""
        if not self.by_layer or not isinstance(text, str):
            return text
        return re.sub(rf"\b({'|'.join(self.by_layer)})\b(?!\[)", r"\1[i]", text)

    def values_at(self, t: int, index: int | None) -> Mapping[str, Any]:
        """Return the values of a model that was built, with a layer's index."""
        values = self.traces[t].values
        if index is None:
            return values
        if (t, index) not in self._at:
            self._at[t, index] = {**values, "i": index}
        return self._at[t, index]

    def _resolve_many(self) -> Iterator[Resolved]:
        singles = self.variants()
        small = [s for s in self.layered if next(iter(s.values())) < 7]
        switches = [s for s in singles if not isinstance(next(iter(s.values())), int | dict)
                    or isinstance(next(iter(s.values())), bool)]  # fmt: skip
        pairs = [{**a, **b} for a, b in itertools.combinations(singles, 2) if a.keys() != b.keys()]
        pairs = pairs[:: max(1, len(pairs) // _MOST_PAIRS)]
        pairs += [{**a, **b} for a in small for b in switches if a.keys() != b.keys()]
        singles += small
        deeper = {self.layers_key: LAYERS + 8} if self.base else {}
        for inputs in [{}, deeper, *self.samples, *self.joint, *singles, *pairs]:
            try:
                yield self.resolve({**self.base, **inputs})
            except Exception:  # noqa: S112 - the class refuses such values  # nosec B112
                continue

    @property
    def sizes(self) -> dict[str, int]:
        """Return the sizes that are not changed one by one, at their defaults."""
        return {
            k: v for k, v in {**self.defaults, **self.legacy}.items()
            if type(v) is int and v > 1 and not CERTAINLY_HARMLESS.search(k)
            and k != self.layers_key and not (k.endswith("layers") and 3 * v > LAYERS)
        }  # fmt: skip

    @property
    def joint(self) -> list[dict[str, Any]]:
        """Return inputs with half of the sizes tripled: any two are tripled apart in one of them,
        so that sizes of equal value can be distinguished."""
        bits = range(len(self.sizes).bit_length())
        tripled = {k: 3 * v for k, v in self.sizes.items()}
        halves = [{k: v for n, (k, v) in enumerate(tripled.items()) if n >> b & 1} for b in bits]
        return [tripled, *halves]

    def variants(self) -> list[dict[str, Any]]:
        """Return changed values of one key at a time."""
        filled = flat(self.cls(**self.base))
        variants: list[dict[str, Any]] = []
        for key, value in {**self.defaults, **self.legacy}.items():
            if CERTAINLY_HARMLESS.search(key) or key in {*SKIPPED, self.layers_key}:
                continue
            variants += [{key: v} for v in _changed(key, value, filled.get(key), self.cls)]
        for key, value in filled.items():
            outer, _, inner = key.partition(".")
            varied = isinstance(value, int) and not CERTAINLY_HARMLESS.search(key)
            if varied and inner and "." not in inner:
                variants += [{outer: {inner: v}} for v in _changed(inner, value, value, None)]
        return variants

    def _trace_many(self) -> Iterator[Trace]:
        layers = {k: v for k, v in flat(self.cls(**self.base)).items() if isinstance(v, list)}
        count = flat(self.cls(**self.base)).get(self.layers_key)
        tried: list[dict[str, Any]] = [{}]
        if self.base:
            tried.append({self.layers_key: LAYERS + 8})
        tried += map(dict, self.samples)
        for key, value in layers.items():
            if key in self.defaults and len(value) == count and len(set(map(str, value))) > 1:
                tried.append({key: value[1:] + value[:1]})
                tried.append({key: value[::-1]})
        seen = {json.dumps(sorted(set(map(str, v)))) for v in layers.values()}
        for resolved in self.resolved:  # configurations that bring new kinds of layers
            kinds = [
                json.dumps(sorted(set(map(str, v)))) for v in resolved.values.values()
                if isinstance(v, list) and len(v) == resolved.values.get(self.layers_key)
            ]  # fmt: skip
            if any(kind not in seen for kind in kinds) and len(tried) < 25:
                seen |= set(kinds)
                tried.append({
                    k: v for k, v in resolved.raw.items()
                    if v is not None and v != self.raw(self.base).get(k)
                })  # fmt: skip
        tried += self.joint
        tried += self.variants()
        refused: set[str] = set()
        for inputs in tried[:_MOST_TRACES]:
            try:
                yield self.traced({**self.base, **inputs})
            except Exception as error:
                self.problems.append(f"{inputs}: {type(error).__name__}: {str(error)[:90]}")
                refused |= inputs.keys() if inputs in self.joint else set()
        for key in refused:  # sizes that must fit each other are distinguished one by one
            with contextlib.suppress(Exception):
                yield self.traced({**self.base, key: 3 * self.sizes[key]})

    def traced(self, inputs: Mapping[str, Any]) -> Trace:
        """Return the model of inputs, built. Raises what its class raises."""
        whole_numbers = {k: v for k, v in self.legacy.items() if type(v) is int}
        built = trace(self.model_type, {**whole_numbers, **inputs}, symbolic=[*self.legacy])
        built.inputs = dict(inputs)
        for key, default in self.legacy.items():  # those that the class takes and does not keep
            built.values.setdefault(key, inputs.get(key, default))
        return built

    def name_of(self, key: str) -> str:
        """Return the class's own name of a key."""
        return str(self.cls.attribute_map.get(key, key))

    def names(self, built: Trace) -> set[str]:
        """Return the keys that a model was built with beside the base's."""
        return {self.name_of(k) for k in built.inputs if k not in self.base}


def _names_attribute(cls: Any, name: str) -> bool:
    """Return whether a family's model reads a key that its configuration does not declare."""
    module = sys.modules.get(cls.__module__)
    path = Path(str(getattr(module, "__file__", ""))).parent
    pattern = re.compile(rf"""getattr\((self\.)?config,\s*["']{name}["']""")
    return any(pattern.search(p.read_text(encoding="utf-8")) for p in path.glob("modeling_*.py"))


def _changed(  # noqa: PLR0911 - a case for each kind of value
    key: str, value: Any, filled: Any, cls: Any
) -> list[Any]:
    """Return other values of a key that may switch parts of a model on or off. Large sizes are not
    changed one by one: their expressions are recorded."""
    if isinstance(value, bool):
        return [not value]
    annotation = ""
    if cls is not None:
        annotation = str(getattr(cls, "__dataclass_fields__", {}).get(key, _NoField).type)
    if isinstance(value, int):
        absent = [None] if "None" in annotation and value else []
        if value > _LARGEST_SWITCH or ("window" in key and "pattern" not in key):
            return absent
        return [value + 1, 0, *absent] if value > 0 else [1, 2]
    if value == "auto":
        return [48]
    if value is not None:
        return []
    if "list[int]" in annotation:
        return [[1, 4], [2, 5, 9]]
    if "bool" in annotation and "int" not in annotation:
        return [True]
    if isinstance(filled, int) and filled > 1:
        return [3 * filled // 4 if filled % 4 == 0 and "head" not in key else filled // 2]
    if "int" in annotation or cls is None or key not in cls.__dataclass_fields__:
        return [80] if re.search("rank|dim|window|chunk", key) else [80, 2]
    return []


_LARGEST_SWITCH = 16
OF_LAYERS = re.compile(r"layer|dense|window|interval|freq|period|offset|step|shared|pattern|first")


class _NoField:
    type = ""
