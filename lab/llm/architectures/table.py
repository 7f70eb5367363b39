"""Derive how a family's weights and cache follow from its configuration.

A family's class is built at its defaults and at many changed configurations. Sizes keep their
expressions (``symbols``), and conditions are found from where weights appear (``rules``). What
could not be explained is a problem; a family with a problem that matters is not listed.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model import expressions, families
from berth.predictor.families.language_model.transformers_child import part_of
from lab.llm.architectures.rules import Rules
from lab.llm.architectures.samples import SAMPLES
from lab.llm.architectures.symbols import Symbol, SymbolFloat, whole_numbers_kept
from lab.llm.architectures.trace import Trace, config_class, flat, trace

LAYERS = 16
"""Number of layers of the models that are built; more than any period of layer kinds."""
IMMATERIAL = 0.002
"""Share of a model's weights below which an unexplained weight is left out."""
CERTAINLY_HARMLESS = re.compile(
    r"(token_ids?|dropout|_pdrop|layerdrop|_eps|epsilon|rope_theta|rope_parameters|rope_scaling"
    r"|initializer_range|initializer_factor|init_std|aux_loss_coef|softcapping|jitter_noise)$"
)
"""Numbers that no model's shape depends on; they are not varied."""
_SKIPPED = {"id2label", "label2id", "architectures", "transformers_version", "dtype",
            "problem_type",
            "output_hidden_states", "return_dict", "use_cache", "is_encoder_decoder",
            "chunk_size_feed_forward", "output_attentions", "num_labels", "torch_dtype",
            "output_router_logits", "_name_or_path", "attn_implementation"}  # fmt: skip
_MOST_PAIRS = 120
_MOST_TRACES = 45
_LEGACY = re.compile(r"""kwargs\.(?:pop|get)\(\s*["'](\w+)["']\s*(?:,\s*([^)]+?)\s*)?\)""")


@dataclass
class Derived:
    """A family's entry of the table, and what could not be explained."""

    entry: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)


@dataclass
class Resolved:
    """One configuration: its raw values and what its class makes of them."""

    raw: dict[str, Any]
    values: dict[str, Any]
    texts: dict[str, Any]
    """Expression of each value over the raw keys; of a list, of each element."""


class Family:
    """A family's configurations and models, built as they are needed."""

    def __init__(self, model_type: str) -> None:
        self.model_type = model_type
        self.cls = config_class(model_type)
        self.defaults = self._defaults()
        self.layers_key: str = self.cls.attribute_map.get("num_hidden_layers", "num_hidden_layers")
        self.layers = self.layers_key
        self.problems: list[str] = []
        self.samples = SAMPLES.get(model_type, [])
        self.base = self._base()
        if self.samples and not self._can_be_built():
            self.base = {**self.base, **self.samples[0]}
        self.resolved = list(self._resolve_many())
        self.traces = list(self._trace_many())
        for one in self.traces:
            for key in self.legacy:
                one.values.setdefault(key, None)
        if self.traces and not isinstance(self.traces[0].values.get(self.layers_key), int):
            self.layers = self._layers_by_list()
        self.derived: dict[str, Any] = {}
        self.lists: dict[str, Any] = {}

    def _defaults(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for f in dataclasses.fields(self.cls):
            if f.name in _SKIPPED or f.name.startswith("_"):
                continue
            value = f.default
            if value is dataclasses.MISSING:
                value = None if f.default_factory is dataclasses.MISSING else f.default_factory()
            if isinstance(value, tuple):
                value = list(value)
            made[self.cls.attribute_map.get(f.name, f.name)] = value
        self.legacy: dict[str, Any] = {}
        with_source = getattr(self.cls, "__post_init__", None)
        source = inspect.getsource(with_source) if with_source else ""
        for name, default in _LEGACY.findall(source):
            if name in {*made, *_SKIPPED, *self.cls.attribute_map} or CERTAINLY_HARMLESS.search(
                name
            ):
                continue
            try:
                self.legacy[name] = json.loads(default.replace("_", "")) if default else None
            except ValueError:
                self.legacy[name] = None
        if _names_attribute(self.cls, "head_dim") and "head_dim" not in made:
            self.legacy["head_dim"] = None
        return made

    def _base(self) -> dict[str, Any]:
        for inputs in ({self.layers_key: LAYERS}, {}):
            try:
                self.cls(**inputs)
            except Exception:  # noqa: S112 - any class's own  # nosec B112
                continue
            return inputs
        return {}

    def _can_be_built(self) -> bool:
        """Return whether the class's defaults make a model with a known number of layers."""
        try:
            trace(self.model_type, self.base, cache=False)
            return isinstance(flat(self.cls(**self.base)).get(self.layers_key), int)
        except Exception:
            return False

    def _layers_by_list(self) -> str:
        """Return the length of the list that has an item for each layer, as an expression."""
        counts = max(_counts(self.traces).values(), key=lambda c: c[0])
        for key, value in self.traces[0].values.items():
            if isinstance(value, list) and all(
                isinstance(t.values.get(key), list) and len(t.values[key]) == n
                for t, n in zip(self.traces, counts, strict=True)
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
        given = {names.get(k, k): v for k, v in inputs.items()}
        return {**self.defaults, **self.legacy, **given}

    def resolve(self, inputs: Mapping[str, Any]) -> Resolved:
        """Return what the configuration's class makes of inputs. Raises what it raises."""
        raw = self.raw(inputs)
        passed = {k: _symbol(v, k) for k, v in raw.items() if k not in self.legacy or k in inputs}
        with whole_numbers_kept(self.cls.__module__.rpartition(".")[0]):
            config = self.cls(**json_safe(passed))
        texts: dict[str, Any] = {}
        for name, value in vars(config).items():
            if name.startswith("_"):
                continue
            texts[name] = (
                [_text_of(v) for v in value] if isinstance(value, list) else _text_of(value)
            )
        return Resolved(raw, flat(config), texts)

    def _resolve_many(self) -> Iterator[Resolved]:
        singles: list[dict[str, Any]] = [{k: v} for k, v in self._variants()]
        small = [
            {k: n} for k, v in self.defaults.items() for n in (3, 5)
            if type(v) is int and _OF_LAYERS.search(k) and k != self.layers_key
        ]  # fmt: skip
        switches = [s for s in singles if not isinstance(next(iter(s.values())), int | dict)
                    or isinstance(next(iter(s.values())), bool)]  # fmt: skip
        pairs = [{**a, **b} for a, b in itertools.combinations(singles, 2) if a.keys() != b.keys()]
        pairs = pairs[:: max(1, len(pairs) // _MOST_PAIRS)]
        pairs += [{**a, **b} for a in small for b in switches if a.keys() != b.keys()]
        singles += small
        for inputs in [{}, *self.samples, *self.joint, *singles, *pairs]:
            try:
                yield self.resolve({**self.base, **inputs})
            except Exception:  # noqa: S112 - the class refuses such values  # nosec B112
                continue

    def _variants(self) -> list[tuple[str, Any]]:
        """Return changed values of one key at a time."""
        base = self.cls(**self.base)
        filled = flat(base)
        made: list[tuple[str, Any]] = []
        large = [
            k for k, v in self.defaults.items()
            if type(v) is int and v > 1 and not CERTAINLY_HARMLESS.search(k)
            and k != self.layers_key
        ]  # fmt: skip
        # Any two keys are doubled apart in one of these, so that equal values are told apart.
        bits = range(len(large).bit_length())
        self.joint = [{k: 2 * self.defaults[k] for k in large}] + [
            {k: 2 * self.defaults[k] for n, k in enumerate(large) if n >> b & 1} for b in bits
        ]
        for key, value in {**self.defaults, **self.legacy}.items():
            if CERTAINLY_HARMLESS.search(key) or key in {*_SKIPPED, self.layers_key}:
                continue
            made += [(key, v) for v in _changed(key, value, filled.get(key), self.cls)]
        for key, value in filled.items():
            if "." in key:
                outer, _, inner = key.partition(".")
                if (
                    isinstance(value, int)
                    and not CERTAINLY_HARMLESS.search(key)
                    and "." not in inner
                ):
                    made += [(outer, {inner: v}) for v in _changed(inner, value, value, None)]
        return made

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
        first = len(tried)
        tried += [{key: value} for key, value in self._variants()]
        for n, inputs in enumerate(tried[:_MOST_TRACES]):
            cache = n < first or any(_OF_CACHE.search(key) for key in inputs)
            try:
                yield trace(self.model_type, {**self.base, **inputs}, cache=cache)
            except Exception as error:
                self.problems.append(f"{inputs}: {type(error).__name__}: {str(error)[:90]}")


def _names_attribute(cls: Any, name: str) -> bool:
    """Return whether a family's model reads a key that its configuration does not declare."""
    module = sys.modules.get(cls.__module__)
    path = Path(str(getattr(module, "__file__", ""))).parent
    pattern = re.compile(rf"""getattr\((self\.)?config,\s*["']{name}["']""")
    return any(pattern.search(p.read_text(encoding="utf-8")) for p in path.glob("modeling_*.py"))


def json_safe(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs without those that are absent (None where the class has a default)."""
    return {k: v for k, v in values.items() if not (isinstance(v, dict) and not v)}


def _symbol(value: Any, key: str) -> Any:
    if CERTAINLY_HARMLESS.search(key):
        return value
    if type(value) is int:
        return Symbol(value, key)
    if type(value) is float:
        return SymbolFloat(value, key)
    if isinstance(value, list) and value and all(type(v) is int for v in value):
        return [Symbol(v, f"{key}[{n}]") for n, v in enumerate(value)]
    return value


def _text_of(value: Any) -> str:
    return value.text if isinstance(value, Symbol | SymbolFloat) else repr(value)


def _changed(  # noqa: PLR0911 - a case for each kind of value
    key: str, value: Any, filled: Any, cls: Any
) -> list[Any]:
    """Return other values of a key that may switch parts of a model on or off. Large sizes are not
    changed one by one: their expressions are recorded."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        if value > _LARGEST_SWITCH or "window" in key:
            return []
        return [value + 1, 0] if value > 0 else [1, 2]
    if value == "auto":
        return [48]
    if value is not None:
        return []
    annotation = ""
    if cls is not None:
        annotation = str(getattr(cls, "__dataclass_fields__", {}).get(key, _NoField).type)
    if "bool" in annotation and "int" not in annotation:
        return [True]
    if isinstance(filled, int) and filled > 1:
        return [filled // 2]
    if "int" in annotation or cls is None or key not in cls.__dataclass_fields__:
        return [80] if re.search("rank|dim|window|chunk", key) else [80, 2]
    return []


_LARGEST_SWITCH = 16
_OF_LAYERS = re.compile(r"layer|dense|window|interval|freq|period|offset|step|shared|pattern|first")
_OF_CACHE = re.compile(
    r"window|chunk|shar|kv|key_value|latent|state|conv|cache|att|types|pattern|interval|period"
    r"|offset|local|global|mamba|ssm|idx|index|query|block"
)
"""Keys whose change may change the cache."""


class _NoField:
    type = ""


@dataclass(frozen=True)
class Row:
    """A weight or cached tensor of a family, in layers where its condition holds."""

    part: str
    name: str
    repetitions: str
    condition: str
    sizes: tuple[str, ...]

    @property
    def product(self) -> str:
        """Return the product of the sizes as an expression."""
        return _product(self.sizes)


def rows_of(family: Family) -> list[Row]:
    """Return the rows of a family's weights and cache; what stays unexplained is a problem."""
    traces = family.traces
    counts = _counts(traces)
    texts, shares = _known_texts(traces), _largest_shares(traces)
    rules: dict[str, Rules] = {}
    by_template: dict[str, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    for t, one in enumerate(traces):
        for template, indices in one.shapes:
            by_template[template].append((t, indices))
    rows: list[Row] = []
    for template, places in by_template.items():
        try:
            rows += _rows_of_template(family, template, places, (counts, texts, rules))
        except Unexplained as problem:
            if shares[template] > IMMATERIAL or template.startswith("cache"):
                family.problems.append(f"{template}: {problem}")
    return rows


class Unexplained(Exception):
    """No expression or condition agrees with what was observed."""


def _largest_shares(traces: Sequence[Trace]) -> dict[str, float]:
    """Return the largest share of a model's weights that each name has."""
    largest: dict[str, float] = defaultdict(float)
    for one in traces:
        totals: dict[str, float] = defaultdict(float)
        for (name, _), size in one.sizes.items():
            totals[name] += float(np.prod(size, dtype=float))
        parameters = max(one.parameters, 1)
        for name, total in totals.items():
            largest[name] = max(largest[name], total / parameters)
    return largest


def _prefix(template: str) -> str:
    return template.partition("{}")[0]


def _counts(traces: Sequence[Trace]) -> dict[str, list[int]]:
    """Return the number of first indices under each prefix, by trace."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * len(traces))
    for t, one in enumerate(traces):
        for template, indices in one.shapes:
            if indices:
                prefix = _prefix(template)
                counts[prefix][t] = max(counts[prefix][t], indices[0] + 1)
    return counts


def _known_texts(traces: Sequence[Trace]) -> list[str]:
    """Return expressions that may explain a plain size: those seen, keys, products of keys."""
    seen: dict[str, None] = {}
    for one in traces:
        for shape in one.shapes.values():
            seen.update(dict.fromkeys(s for s in shape if isinstance(s, str)))
    keys = [
        k for k, v in traces[0].values.items() if type(v) is int and v > 0
        and not CERTAINLY_HARMLESS.search(k)
    ]  # fmt: skip
    keys += [
        k for one in traces for k, v in one.values.items()
        if type(v) is int and v > 0 and k not in keys and not CERTAINLY_HARMLESS.search(k)
    ]  # fmt: skip
    used = {n for text in seen for n in expressions.names(text)}
    keys = sorted(dict.fromkeys(keys), key=lambda k: k not in used)
    simple = [*keys, *(t for t in seen if t not in keys)]
    parts = [k for k in keys if k in used or "head" in k or "size" in k][:24]
    wide = [k for k in simple if re.search(r"size|embd|d_model|hidden|dim|inner|width", k)]
    split = [k for k in parts if re.search(r"head|group|expand|num|kernel", k)]
    combined = [f"{a} // {b}" for a in wide for b in split if a != b]
    combined += [f"{a} * {b}" for a, b in itertools.combinations_with_replacement(parts, 2)]
    combined += [f"2 * {a}" for a in parts] + [f"{a} - 1" for a in parts]
    combined += [f"{a} + 1" for a in parts] + [f"{a} + 2" for a in parts]
    combined += [f"{a} * {b} // {c}" for a in parts for b in wide for c in split if c not in (a, b)]
    combined += [f"{a} - {b}" for a in parts for b in parts if a != b]
    combined += [f"{a} + {b}" for a in simple for b in simple if a < b]
    return [*simple, *combined]


def explain(observed: Sequence[tuple[Mapping[str, Any], int]], texts: Sequence[str]) -> str | None:
    """Return the first expression that has the observed value everywhere, or the constant."""
    sizes = {size for _, size in observed}
    distinct: dict[tuple[int, int], tuple[Mapping[str, Any], int]] = {
        (id(values), size): (values, size) for values, size in observed
    }
    for text in texts if max(sizes) > 1 else ():
        if all(_is(text, values, size) for values, size in distinct.values()):
            return text
    return str(sizes.pop()) if len(sizes) == 1 else None


def _is(text: str, values: Mapping[str, Any], size: int) -> bool:
    try:
        return bool(expressions.evaluate(text, values) == size)
    except (ArithmeticError, LookupError, TypeError, SyntaxError):
        return False


def _generalised(text: str | int, index: int | None) -> str | int:
    if isinstance(text, str) and index is not None:
        return text.replace(f"[{index}]", "[i]")
    return text


def _rows_of_template(
    family: Family,
    template: str,
    places: Sequence[tuple[int, tuple[int, ...]]],
    shared: tuple[Mapping[str, list[int]], Sequence[str], dict[str, Rules]],
) -> list[Row]:
    counts, texts, rules = shared
    traces = family.traces
    layered = "{}" in template
    prefix = _prefix(template)
    # Several inner indices (experts of a list) are one more size where all are equal.
    groups: dict[tuple[int, int | None], list[tuple[tuple[int, ...], Any]]] = defaultdict(list)
    for t, indices in places:
        shape = traces[t].shapes[template, indices]
        groups[t, indices[0] if indices else None].append((indices[1:], shape))
    shapes: dict[tuple[int, int | None], tuple[tuple[str | int, ...], ...]] = {}
    for (t, index), inner in groups.items():
        general = [tuple(_generalised(s, index) for s in shape) for _, shape in inner]
        if len(inner) > 1 and len(set(general)) == 1:
            shapes[t, index] = ((len(inner), *general[0]),)
        else:
            shapes[t, index] = tuple(general)
    if any(len(s) > 1 for s in shapes.values()) or len({len(s[0]) for s in shapes.values()}) > 1:
        return _separately(family, template, places, shared)
    observed = {place: list(shape[0]) for place, shape in shapes.items()}
    _explain_plain(observed, traces, texts)
    domain = [
        (t, i)
        for t in range(len(traces))
        for i in (range(counts[prefix][t]) if layered else [None])
        if not template.startswith("cache") or not traces[t].cache_problem
    ]
    key = f"{prefix}|{template.startswith('cache')}" if layered else str(len(domain))
    if key not in rules:
        rules[key] = Rules(
            [_space(traces[t], i, counts[prefix][t]) for t, i in domain], layered=layered
        )
    repetitions = "1"
    if layered:
        if template.startswith("cache"):
            repetitions = "layers"
        else:
            found = explain(
                [({**traces[t].values, "layers": family.count_of(traces[t].values)}, n)
                 for t, n in enumerate(counts[prefix]) if n], ["layers", *texts],
            )  # fmt: skip
            if found is None:
                raise Unexplained(f"number of {prefix} is {counts[prefix]}")
            repetitions = found
    rows: list[Row] = []
    for product in dict.fromkeys(tuple(v) for v in observed.values()):
        wanted = np.array([tuple(observed.get(p, ())) == product for p in domain])
        condition = rules[key].condition(wanted)
        if condition is None:
            raise Unexplained(
                f"{product} in {[i for (t, i), w in zip(domain, wanted, strict=True) if w][:20]}"
            )
        part = template.split(".")[2] if template.startswith("cache") else part_of(template)
        rows.append(Row(part, template, repetitions, condition, tuple(map(str, product))))
    return rows


def _separately(family: Family, template: str, places: Any, shared: Any) -> list[Row]:
    """Return the rows of a template whose inner indices differ: each has a template of its own."""
    inner: dict[tuple[int, ...], list[Any]] = defaultdict(list)
    for t, indices in places:
        inner[indices[1:]].append((t, indices))
    if len(inner) > 64 or any(not k for k in inner):
        raise Unexplained(f"{len(inner)} inner modules differ")
    rows: list[Row] = []
    for index, some in inner.items():
        own = template
        head, _, tail = own.partition("{}")
        for n in index:
            tail = tail.replace("{}", str(n), 1)
        own = f"{head}{{}}{tail}"
        for t, indices in some:
            family.traces[t].shapes[own, indices[:1]] = family.traces[t].shapes[template, indices]
        rows += _rows_of_template(family, own, [(t, i[:1]) for t, i in some], shared)
        for t, indices in some:
            del family.traces[t].shapes[own, indices[:1]]
    return rows


def _space(one: Trace, index: int | None, layers: int) -> dict[str, Any]:
    values = {
        k: v for k, v in one.values.items()
        if not CERTAINLY_HARMLESS.search(k) and k.rpartition(".")[2] not in _SKIPPED
    }  # fmt: skip
    return values if index is None else {**values, "i": index, "layers": layers}


def _explain_plain(
    observed: dict[tuple[int, int | None], list[Any]], traces: Sequence[Trace], texts: Sequence[str]
) -> None:
    """Replace plain sizes by expressions, in place. Raises Unexplained."""
    length = len(next(iter(observed.values())))
    for n in range(length):
        plain = {place: shape[n] for place, shape in observed.items() if type(shape[n]) is int}
        if not plain:
            continue
        # Those in equal company are explained together: other sizes' expressions tell kinds apart.
        company: dict[Any, list[Any]] = defaultdict(list)
        for place in plain:
            company[tuple(s for s in observed[place] if isinstance(s, str))].append(place)
        for places in company.values():
            found = explain([(traces[t].values, plain[t, i]) for t, i in places], texts)
            if found is None:
                found_by = _explained_by_kind(places, traces, {p: plain[p] for p in places}, texts)
                for place in places:
                    observed[place][n] = found_by[place]
                continue
            for place in places:
                observed[place][n] = found


def _explained_by_kind(
    places: Sequence[Any], traces: Sequence[Trace], plain: Mapping[Any, int], texts: Sequence[str]
) -> dict[Any, str]:
    """Return the expression of each place's size, where kinds of layers, or one or two switches,
    tell places of different expressions apart. Raises Unexplained."""
    values = traces[0].values
    kinds = [
        k
        for k, v in values.items()
        if isinstance(v, list) and re.search(r"types?$|pattern|layers", k)
    ]
    switches = [k for k, v in values.items() if isinstance(v, bool) or v is None]
    ways: list[tuple[str, ...]] = [(k,) for k in (*kinds, *switches)]
    ways += list(itertools.combinations(kinds, 2)) + list(itertools.combinations(switches, 2))
    for way in ways:
        groups: dict[Any, list[Any]] = defaultdict(list)
        for t, i in places:
            groups[tuple(_kind_at(traces[t].values.get(k), i) for k in way)].append((t, i))
        if len(groups) < 2:
            continue
        made: dict[Any, str] = {}
        for some in groups.values():
            found = explain([(traces[t].values, plain[t, i]) for t, i in some], texts)
            if found is None:
                break
            made |= dict.fromkeys(some, found)
        else:
            return made
    raise Unexplained(f"size {sorted(set(plain.values()))[:6]}")


def _kind_at(value: Any, index: int | None) -> str:
    if isinstance(value, list) and index is not None and index < len(value):
        return str(value[index])
    return str(bool(value) if isinstance(value, int) else value)


def _product(sizes: Sequence[str]) -> str:
    texts = [str(s) for s in sizes if str(s) != "1"]
    return " * ".join(t if re.match(r"[\w.\[\]]+\Z", t) else f"({t})" for t in texts) or "1"


def derived_values(family: Family, needed: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how scalars and lists that the rows need follow from the raw keys."""
    scalars: dict[str, Any] = {}
    lists: dict[str, Any] = {}
    points = family.resolved
    for key in [k for k in points[0].values if k in needed]:
        if "." in key:
            continue
        present = [p for p in points if key in p.values]
        if isinstance(next((p.values[key] for p in present if p.values[key] is not None), 0), list):
            continue
        texts = [p.texts.get(key, "None") for p in present]
        if all(
            t == key or (t == repr(p.raw.get(key))) for t, p in zip(texts, present, strict=True)
        ):
            continue
        rules = Rules([_raw_space(p.raw) for p in present], layered=False)
        found: list[tuple[str, str]] = []
        for text in dict.fromkeys(texts):
            same = np.array([t == text for t in texts])
            if text.startswith("["):
                continue
            condition = rules.condition(same)
            if condition is None:
                family.problems.append(f"{key} = {text}: when?")
                continue
            found.append((condition, text))
        scalars[key] = found
        needed |= {n for pair in found for text in pair if text for n in expressions.names(text)}
    for key in [k for k in points[0].values if k in needed]:
        values = [p.values.get(key) for p in points]
        if not isinstance(next((v for v in values if v is not None), 0), list):
            continue
        rule = _list_rule(family, key, needed)
        if rule is not None:
            lists[key] = rule
    return scalars, lists


def _raw_space(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {
        k: v for k, v in raw.items()
        if not CERTAINLY_HARMLESS.search(k) and k not in _SKIPPED and not isinstance(v, dict)
    }  # fmt: skip


def _list_rule(  # noqa: PLR0911, PLR0912 - a case for each kind of list
    family: Family, key: str, needed: set[str]
) -> Any:
    """Return the rule of a list that is not given: the kinds with conditions on a layer's index,
    or (``members``) the condition of the indices that it holds."""
    points = [
        p for p in family.resolved if p.raw.get(key) is None and p.values.get(key) is not None
    ]
    if not points:
        return None
    if family.layers != family.layers_key:  # only a text with a letter for each layer explains
        texts = [k for k in family.legacy if any(isinstance(p.raw.get(k), str) for p in points)]
        points = [p for p in points if any(isinstance(p.raw.get(k), str) for k in texts)]
        if not points:
            return None
    layers = [family.count_of(p.values) for p in points]
    by_layer = all(len(p.values[key]) == n for p, n in zip(points, layers, strict=True))
    spaces, wanted_values = [], []
    for p, n in zip(points, layers, strict=True):
        if not isinstance(n, int):
            return None
        known = {
            **_raw_space(p.raw),
            **{k: v for k, v in p.values.items() if not isinstance(v, list) and k in p.raw},
        }
        known.pop(key, None)
        for other in family.lists:
            known[other] = p.values.get(other)
        for i in range(n):
            spaces.append({**known, "i": i, "layers": n})
            wanted_values.append(p.values[key][i] if by_layer else i in p.values[key])
    spaces_kept = spaces
    rules = Rules(spaces_kept, layered=True)
    if not by_layer:
        condition = rules.condition(np.array(wanted_values, dtype=bool))
        if condition is None:
            family.problems.append(f"members of {key}: when?")
            return None
        needed |= expressions.names(condition) if condition else set()
        family.lists[key] = True
        return {"members": condition}
    made, otherwise = [], []
    for value in dict.fromkeys(map(repr, wanted_values)):
        condition = rules.condition(np.array([repr(v) == value for v in wanted_values]))
        kind = next(v for v in wanted_values if repr(v) == value)
        if condition is None:
            otherwise.append(["", kind])
        else:
            needed |= expressions.names(condition) if condition else set()
            made.append([condition, kind])
    if len(otherwise) > 1:
        family.problems.append(f"{key} is {' or '.join(str(k) for _, k in otherwise)}: when?")
        return None
    made += otherwise
    family.lists[key] = True
    rule: dict[str, Any] = {"kinds": made}
    if family.layers != family.layers_key:
        rule["count"] = f"len({texts[0]})"
        needed |= {texts[0]}
    return rule


SIZES: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "embedding_dim", "embed_dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "feed_forward": ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size",
                     "ffn_config.ffn_hidden_size"),
    "expert_width": ("moe_intermediate_size", "ffn_config.ffn_hidden_size", "intermediate_size"),
    "vocabulary": ("vocab_size",),
    "positions": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    "chosen": ("num_experts_per_tok", "moe_topk", "moe_top_k", "moe_k", "num_selected_experts",
               "num_experts_per_token", "top_k_experts", "experts_per_token",
               "ffn_config.moe_top_k", "moe_router_topk", "expert_top_k", "router_top_k"),
}  # fmt: skip


def derive(model_type: str) -> Derived:
    """Return a family's entry of the table, checked against every model that was built."""
    family = Family(model_type)
    if not family.traces:
        return Derived({}, ["no configuration could be built", *family.problems[:1]])
    family.problems.clear()
    uncached = sorted({t.cache_problem for t in family.traces if t.cache_problem})
    if all(t.cache_problem for t in family.traces):
        family.problems.append(f"cache: {uncached[0]}")
    rows = _with_latents(rows_of(family))
    if not any(r.part == "head" for r in rows) and model_type not in causal_types():
        # A text model that transformers holds only inside another, whose head is beside it.
        rows.append(
            Row(
                "head",
                "lm_head.weight",
                "1",
                "not tie_word_embeddings",
                ("vocab_size", "hidden_size"),
            )
        )
        family.defaults.setdefault("tie_word_embeddings", False)
    values = family.traces[0].values
    reverse = family.cls.attribute_map
    sizes = {}
    for name, keys in SIZES.items():
        key = next((k for k in (reverse.get(k, k) for k in keys) if k in values), None)
        if key is not None:
            sizes[name] = key
    experts = next((r for r in rows if r.part == "expert"), None)
    if experts is not None:
        sizes["experts"] = experts.sizes[0]
        if "chosen" not in sizes:
            family.problems.append("no key says how many experts a token passes")
    keys_row = next((r for r in rows if r.part == "token" and r.name.endswith(".keys")), None)
    if keys_row is not None and len(keys_row.sizes) == 2:
        sizes["kv_heads"], sizes["head_dim"] = keys_row.sizes
    texts = [t for r in rows for t in (r.repetitions, r.condition, r.product) if t]
    needed = {n for text in texts for n in expressions.names(text)}
    needed |= {n for text in sizes.values() for n in expressions.names(text)}
    needed = (needed - {"layers"}) | expressions.names(family.layers)
    scalars, lists = derived_values(family, needed)
    needed -= {"layers", "i"}
    defaults = {
        key: family.raw({}).get(key, values.get(key)) for key in sorted(needed)
        if key in family.defaults or key in family.legacy or "." in key
    }  # fmt: skip
    entry = {
        "model_type": model_type,
        "layers": family.layers,
        "defaults": defaults,
        "aliases": {a: k for a, k in reverse.items() if k in defaults},
        "nullable": sorted(k for k in defaults if _nullable(family.cls, k)),
        "sizes": sizes,
        "scalars": scalars,
        "lists": lists,
        "weights": [
            [r.part, r.name, r.repetitions, r.condition, r.product] for r in rows
            if r.part not in {"token", "state", "window"}
        ],
        "cache": [
            [r.part, r.condition, r.product] for r in rows if r.part in {"token", "state", "window"}
        ],
        "latent": any(r.name == _LATENT for r in rows),
    }  # fmt: skip
    return check(family, entry)


def _nullable(cls: Any, key: str) -> bool:
    f = getattr(cls, "__dataclass_fields__", {}).get(key)
    return f is None or "None" in str(f.type)


_LATENT = "cache.{}.token.latent"


def _with_latents(rows: list[Row]) -> list[Row]:
    """Return the rows with the latent vector of multi-head latent attention in place of the keys
    and values that transformers expands it to: servers keep the latent."""
    down = [r for r in rows if re.search(r"kv_a_proj|kv_down|wkv_a", r.name)
            and r.name.endswith("weight") and "norm" not in r.name]  # fmt: skip
    if not down or not any("kv_lora_rank" in s for r in down for s in r.sizes):
        return rows
    latent = [
        Row("token", _LATENT, "layers", r.condition, ("kv_lora_rank + qk_rope_head_dim",))
        for r in down
    ]
    conditions = {r.condition for r in down}
    kept = [
        r for r in rows
        if not r.name.endswith((".keys", ".values")) or not {r.condition, ""} & conditions
    ]  # fmt: skip
    return [*kept, *latent]


def check(family: Family, entry: dict[str, Any]) -> Derived:
    """Return the entry with the keys that it takes: harmless where a change was counted right,
    fixed at the default where it was not."""
    harmless, fixed = set(), {}
    base_wrong = ""
    for one in family.traces:
        changed = {k: v for k, v in one.inputs.items() if k not in family.base}
        wrong = difference(entry, one)
        if wrong and not changed:
            base_wrong = wrong
        for key in changed:
            name = family.cls.attribute_map.get(key, key)
            if wrong and len(changed) == 1:
                fixed[name] = family.raw({}).get(name)
                family.problems.append(f"{changed}: {wrong}")
            elif not wrong and name not in entry["defaults"]:
                harmless.add(name)
    entry["fixed"] = {k: v for k, v in fixed.items() if k not in harmless}
    harmless |= without_effect(family.cls, entry)
    entry["harmless"] = sorted(
        k for k in {*harmless, *(k for k in family.defaults if CERTAINLY_HARMLESS.search(k))}
        if k not in entry["fixed"]
    )  # fmt: skip
    if base_wrong:
        family.problems.insert(0, f"defaults: {base_wrong}")
    family.problems += unlike_the_class(family, entry)
    return Derived(entry, family.problems, family.traces)


def without_effect(cls: Any, entry: Mapping[str, Any]) -> set[str]:
    """Return keys that no expression of an entry uses and that cannot be a size: fractions, and
    values that the class computes itself, whatever a file says."""
    fields = getattr(cls, "__dataclass_fields__", {})
    found = set()
    for name, value in flat(cls()).items():
        fraction = isinstance(value, float) or (
            isinstance(value, list) and bool(value) and all(isinstance(v, float) for v in value)
        )
        computed = name not in fields and "." not in name and not isinstance(value, list)
        if (fraction or computed) and name not in entry["defaults"]:
            found.add(name)
    found |= {  # fractions that are None by default
        name for name, f in fields.items()
        if "float" in str(f.type) and "list" not in str(f.type) and name not in entry["defaults"]
    }  # fmt: skip
    return found


def difference(entry: Mapping[str, Any], one: Trace) -> str:
    """Return how the count by an entry differs from a model that was built; empty: by nothing that
    matters."""
    try:
        counted = families.count(entry, one.inputs, "config")
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    built = {name for name, _ in one.sizes}
    parameters = sum(
        w.count for w in counted.weights if w.part != "head" or w.name in built
    )  # a text model's head is beside it in the model that sees
    if abs(parameters / one.parameters - 1) > 0.01:
        return f"{parameters / one.parameters:.3f} of its weights"
    return ""


def unlike_the_class(family: Family, entry: Mapping[str, Any], draws: int = 60) -> list[str]:
    """Return values that the entry fills in otherwise than the class, at configurations of several
    changed keys that nothing was derived from."""
    source = random.Random(7)  # noqa: S311 - a draw of test cases  # nosec B311
    singles = [{k: v} for k, v in family._variants() if not isinstance(v, dict)]
    singles += [
        {k: n} for k, v in family.defaults.items() for n in (4, 7)
        if type(v) is int and _OF_LAYERS.search(k) and k != family.layers_key
    ]  # fmt: skip
    problems: dict[str, None] = {}
    for _ in range(draws if singles else 0):
        inputs = dict(family.base)
        for one in source.sample(singles, min(3, len(singles))):
            inputs |= one
        try:
            wanted = family.resolve(inputs).values
        except Exception:  # noqa: S112 - the class refuses such values  # nosec B112
            continue
        try:
            values = families.resolved(entry, inputs, "config")
        except DocumentError as error:
            problems.setdefault(f"resolved: {str(error)[:80]}")
            continue
        for key in {*entry["scalars"], *entry["lists"]}:
            if key in wanted and values.get(key) != wanted[key]:
                problems.setdefault(f"resolved: {key} differs from the class")
    return list(problems)


def causal_types() -> set[str]:
    """Return the model types that transformers loads as causal language models."""
    from transformers.models.auto import modeling_auto  # noqa: PLC0415

    return set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


class Seeing(Family):
    """A model with encoders beside its language model: of its keys only those of the encoders are
    varied, and only weights outside the language model are kept."""

    def _defaults(self) -> dict[str, Any]:
        self.legacy = {}
        return {}

    def _base(self) -> dict[str, Any]:
        self.text_key = next(
            (k for k in ("text_config", "language_config") if k in self.cls.sub_configs),
            "text_config",
        )
        config = self.cls()
        text = getattr(config, self.text_key)
        self.text_family = text.model_type
        layers = type(text).attribute_map.get("num_hidden_layers", "num_hidden_layers")
        base: dict[str, Any] = {self.text_key: {"model_type": text.model_type, layers: 4}}
        base |= {
            key: {}
            for key in self.cls.sub_configs
            if key != self.text_key and hasattr(getattr(config, key, None), "model_type")
        }  # a file with a part of an encoder's keys means that encoder's own defaults
        try:
            self.cls(**base)
        except Exception:
            base.pop(self.text_key)
        return base

    def _layers_by_list(self) -> str:
        return "1"

    def resolve(self, inputs: Mapping[str, Any]) -> Resolved:
        """Return the values of the configuration; nothing is derived from raw keys."""
        values = flat(self.cls(**inputs))
        return Resolved(dict(values), values, {})

    def _resolve_many(self) -> Iterator[Resolved]:
        yield self.resolve(self.base)

    def _trace_many(self) -> Iterator[Trace]:
        values = flat(self.cls(**self.base))
        large = [
            k for k, v in values.items()
            if type(v) is int and v > 1 and k.count(".") == 1 and not CERTAINLY_HARMLESS.search(k)
            and not k.startswith(f"{self.text_key}.")
        ]  # fmt: skip
        tried: list[dict[str, Any]] = [{}]
        for b in range(len(large).bit_length()):
            changed: dict[str, Any] = defaultdict(dict)
            for n, key in enumerate(large):
                outer, _, inner = key.partition(".")
                if n >> b & 1:
                    changed[outer][inner] = 2 * values[key]
            tried.append(dict(changed))
        for inputs in tried:
            try:
                one = trace(self.model_type, {**self.base, **inputs}, cache=False, seeing=True)
            except Exception as error:
                self.problems.append(f"{inputs}: {type(error).__name__}: {str(error)[:90]}")
                continue
            for place in list(one.shapes):
                name = place[0]
                if name.startswith((*one.text_prefixes, "lm_head")) or not one.text_prefixes:
                    del one.shapes[place], one.sizes[place]
            yield one


def derive_seeing(model_type: str) -> Derived:
    """Return the entry of a model with encoders beside its language model."""
    family = Seeing(model_type)
    if not family.traces or not family.traces[0].shapes:
        return Derived({}, ["no weights beside the language model", *family.problems[:1]])
    family.problems.clear()
    rows = rows_of(family)
    values = family.traces[0].values
    texts = [t for r in rows for t in (r.repetitions, r.condition, r.product) if t]
    needed = {n for text in texts for n in expressions.names(text)} - {"layers"}
    config = family.cls()
    towers = {
        key: getattr(config, key).model_type for key in family.cls.sub_configs
        if key != family.text_key and hasattr(getattr(config, key, None), "model_type")
    }  # fmt: skip
    tied = getattr(config, "tie_word_embeddings", None)
    if tied is None:
        tied = getattr(getattr(config, family.text_key), "tie_word_embeddings", False)
    entry = {
        "text": family.text_key,
        "family": family.text_family,
        "tied": bool(tied),
        "towers": towers,
        "entry": {
            "model_type": model_type,
            "layers": "1",
            "defaults": {k: values.get(k) for k in sorted(needed)},
            "aliases": {}, "nullable": [], "sizes": {}, "scalars": {}, "lists": {},
            "weights": [["tower", r.name, r.repetitions, r.condition, r.product] for r in rows],
            "cache": [], "latent": False, "fixed": {}, "harmless": [],
        },
    }  # fmt: skip
    for one in family.traces:
        counted = families.count(entry["entry"], one.inputs, "config")
        total = sum(w.count for w in counted.weights)
        if abs(total / one.parameters - 1) > 0.01:
            family.problems.append(f"{one.inputs}: {total / one.parameters:.3f} of its weights")
    return Derived(entry, family.problems, family.traces)


def holds_a_text_model(model_type: str) -> bool:
    """Return whether a family's configuration holds a language model's beside encoders."""
    return bool({"text_config", "language_config"} & set(config_class(model_type).sub_configs))
