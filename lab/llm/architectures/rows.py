"""Find for each weight and cached tensor of a family its size as an expression, and the condition
under which a layer has it."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from berth.predictor.families.language_model import expressions
from berth.predictor.families.language_model.transformers_child import part_of
from lab.llm.architectures.family import CERTAINLY_HARMLESS, SKIPPED, Family
from lab.llm.architectures.rules import Rules
from lab.llm.architectures.trace import Trace, counts, prefix_of

IMMATERIAL = 0.002
"""Share of a model's weights below which an unexplained weight is left out."""


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
    most = counts(traces)
    texts, shares = _known_texts(family), _largest_shares(traces)
    rules: dict[str, Rules] = {}
    by_template: dict[str, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    for t, template, indices, _ in _every_shape(traces):
        by_template[template].append((t, indices))
    rows: list[Row] = []
    for template, places in by_template.items():
        try:
            rows += _rows_of_template(family, template, places, (most, texts, rules))
        except Unexplained as problem:
            if shares[template] > IMMATERIAL or template.startswith("cache"):
                family.problems.append(f"{template}: {problem}")
    return rows


def _every_shape(
    traces: Sequence[Trace],
) -> Iterator[tuple[int, str, tuple[int, ...], tuple[str | int, ...]]]:
    """Yield each trace's number with the names, indices and shapes that it has."""
    for t, traced in enumerate(traces):
        for (template, indices), shape in traced.shapes.items():
            yield t, template, indices, shape


class Unexplained(Exception):
    """No expression or condition agrees with what was observed."""


def _largest_shares(traces: Sequence[Trace]) -> dict[str, float]:
    """Return the largest share of a model's weights that each name has."""
    largest: dict[str, float] = defaultdict(float)
    for traced in traces:
        totals: dict[str, float] = defaultdict(float)
        for (name, _), size in traced.sizes.items():
            totals[name] += float(np.prod(size, dtype=float))
        parameters = max(traced.parameters, 1)
        for name, total in totals.items():
            largest[name] = max(largest[name], total / parameters)
    return largest


def _known_texts(family: Family) -> list[str]:
    """Return expressions that may explain a plain size: those seen, keys, products of keys."""
    traces = family.traces
    seen: dict[str, None] = {}
    for *_, shape in _every_shape(traces):
        seen.update(dict.fromkeys(s for s in shape if isinstance(s, str)))
    keys = [
        k for k, v in traces[0].values.items() if type(v) is int and v > 0
        and not CERTAINLY_HARMLESS.search(k)
    ]  # fmt: skip
    keys += [
        k for traced in traces for k, v in traced.values.items()
        if type(v) is int and v > 0 and k not in keys and not CERTAINLY_HARMLESS.search(k)
    ]  # fmt: skip
    used = {n for text in seen for n in expressions.names(text)}
    keys = sorted(dict.fromkeys([*keys, *family.by_layer]), key=lambda k: k not in used)
    keys = [family.by_layer_text(k) for k in keys]
    lists = [k for k, v in traces[0].values.items() if isinstance(v, list)]
    lengths = [f"len({k})" for k in lists]
    simple = [*keys, *(t for t in seen if t not in keys), *lengths]
    parts = [k for k in keys if k in used or "head" in k or "size" in k][:24]
    wide = [k for k in simple if re.search(r"size|embd|d_model|hidden|dim|inner|width", k)]
    split = [k for k in parts if re.search(r"head|group|expand|num|kernel", k)]
    combined = [f"{a} // {b}" for a in wide for b in split if a != b]
    combined += [f"{a} * {b}" for a, b in itertools.combinations_with_replacement(parts, 2)]
    combined += [f"2 * {a}" for a in parts] + [f"{a} - 1" for a in parts]
    combined += [f"{a} + 1" for a in parts] + [f"{a} + 2" for a in parts]
    combined += [f"{a} + {b} - 2" for a, b in itertools.combinations(parts, 2)]  # two convolutions
    combined += [f"{a} * {b} // {c}" for a in parts for b in wide for c in split if c not in (a, b)]
    combined += [f"{a} - {b}" for a in parts for b in parts if a != b]
    combined += [f"{a} + {b}" for a in simple for b in simple if a < b]
    combined += [  # patches of a picture, and one for its class
        f"({picture} // {patch}) ** 2 + 1"
        for picture in keys if picture.endswith("image_size")
        for patch in keys if patch.endswith("patch_size")
    ]  # fmt: skip
    combined += [  # adapters of a block that layers of a kind share in turn
        f"({length} - before({kinds}, i) + {blocks} - 1) // {blocks}"
        for blocks in keys if "block" in blocks for length in lengths for kinds in lists
    ]  # fmt: skip
    return [*simple, *combined]


def _factors(traces: Sequence[Trace]) -> list[str]:
    """Return the factors of the sizes of key and value projections: a cache's sizes are these."""
    texts: dict[str, None] = {}
    for _, name, _, shape in _every_shape(traces):
        if re.search(r"(\b|_)(k|v|key|value|kv)(_proj|_b_proj)?\.weight", name):
            for size in (s for s in shape if isinstance(s, str)):
                texts.update(dict.fromkeys(expressions.factors(size)))
    return list(texts)


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


def _rows_of_template(
    family: Family,
    template: str,
    places: Sequence[tuple[int, tuple[int, ...]]],
    shared: tuple[Mapping[str, list[int]], Sequence[str], dict[str, Rules]],
) -> list[Row]:
    counts, texts, rules = shared
    traces = family.traces
    layered = "{}" in template
    prefix = prefix_of(template)
    # Several inner indices (experts of a list) are one more size where all are equal.
    groups: dict[tuple[int, int | None], list[tuple[tuple[int, ...], Any]]] = defaultdict(list)
    for t, indices in places:
        shape = traces[t].shapes[template, indices]
        groups[t, indices[0] if indices else None].append((indices[1:], shape))
    shapes: dict[tuple[int, int | None], tuple[tuple[str | int, ...], ...]] = {}
    for (t, index), inner in groups.items():
        general = [
            tuple(shape) if index is None else tuple(map(family.by_layer_text, shape))
            for _, shape in inner
        ]
        if len(inner) > 1 and len(set(general)) == 1:
            shapes[t, index] = ((len(inner), *general[0]),)
        else:
            shapes[t, index] = tuple(general)
    if any(len(s) > 1 for s in shapes.values()) or len({len(s[0]) for s in shapes.values()}) > 1:
        return _separately(family, template, places, shared)
    observed = {place: list(shape[0]) for place, shape in shapes.items()}
    cached = template.startswith("cache")
    factors = [family.by_layer_text(text) for text in _factors(traces)] if cached else []
    _explain_plain(observed, family, [*factors, *texts])
    # Layers without a cache of their own, at the end, are layers too.
    layers = [
        max(n, family.count_of(traced.values) or 0) if cached else n
        for n, traced in zip(counts[prefix], traces, strict=True)
    ] if layered else []  # fmt: skip
    domain = [
        (t, i)
        for t in range(len(traces))
        for i in (range(layers[t]) if layered else [None])
        if not cached or not traces[t].cache_problem
    ]
    key = f"{prefix}|{cached}" if layered else str(len(domain))
    if key not in rules:
        rules[key] = Rules(
            [_space(traces[t], family.by_layer, i, layers[t] if layered else 0) for t, i in domain],
            layered=layered,
        )
    repetitions = "1"
    if layered:
        if cached:
            repetitions = "layers"
        else:
            text = explain(
                [({**traces[t].values, "layers": family.count_of(traces[t].values)}, n)
                 for t, n in enumerate(counts[prefix]) if n], ["layers", *texts],
            )  # fmt: skip
            if text is None:
                raise Unexplained(f"number of {prefix} is {counts[prefix]}")
            repetitions = text
    rows: list[Row] = []
    for product in dict.fromkeys(tuple(v) for v in observed.values()):
        wanted = np.array([tuple(observed.get(p, ())) == product for p in domain])
        condition = rules[key].condition(wanted)
        if condition is None:
            raise Unexplained(
                f"{product} in {[i for (t, i), w in zip(domain, wanted, strict=True) if w][:20]}"
            )
        part = template.split(".")[2] if cached else part_of(template)
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


def _space(
    traced: Trace, by_layer: Sequence[str], index: int | None, layers: int
) -> dict[str, Any]:
    values = {
        k: v for k, v in traced.values.items()
        if not CERTAINLY_HARMLESS.search(k) and k.rpartition(".")[2] not in SKIPPED
        and k not in by_layer
    }  # fmt: skip
    return values if index is None else {**values, "i": index, "layers": layers}


def _explain_plain(
    observed: dict[tuple[int, int | None], list[Any]], family: Family, texts: Sequence[str]
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
            text = explain([(family.values_at(t, i), plain[t, i]) for t, i in places], texts)
            by_place = (
                dict.fromkeys(places, text) if text is not None
                else _explained_by_kind(places, family, plain, texts)
            )  # fmt: skip
            for place in places:
                observed[place][n] = by_place[place]


def _explained_by_kind(
    places: Sequence[Any], family: Family, plain: Mapping[Any, int], texts: Sequence[str]
) -> dict[Any, str]:
    """Return the expression of each place's size, where kinds of layers, or one or two switches,
    tell places of different expressions apart. Raises Unexplained."""
    traces = family.traces
    values = traces[0].values
    kinds = [
        k
        for k, v in values.items()
        if isinstance(v, list) and re.search(r"types?$|pattern|layers", k)
    ]
    switches = [
        k for k, v in values.items()
        if isinstance(v, bool) or any(t.values.get(k, 0) is None for t in traces)
    ]  # fmt: skip
    ways: list[tuple[str, ...]] = [(k,) for k in (*kinds, *switches)]
    ways += list(itertools.combinations(kinds, 2)) + list(itertools.combinations(switches, 2))
    for way in ways:
        groups: dict[Any, list[Any]] = defaultdict(list)
        for t, i in places:
            groups[tuple(_kind_at(traces[t].values.get(k), i) for k in way)].append((t, i))
        if len(groups) < 2:
            continue
        text_of_place: dict[Any, str] = {}
        for some in groups.values():
            text = explain([(family.values_at(t, i), plain[t, i]) for t, i in some], texts)
            if text is None:
                break
            text_of_place |= dict.fromkeys(some, text)
        else:
            return text_of_place
    raise Unexplained(f"size {sorted({plain[place] for place in places})[:6]}")


def _kind_at(value: Any, index: int | None) -> str:
    if isinstance(value, list) and index is not None and index < len(value):
        return str(value[index])
    return str(bool(value) if isinstance(value, int) else value)


def _product(sizes: Sequence[str]) -> str:
    texts = [str(s) for s in sizes if str(s) != "1"]
    return " * ".join(t if re.match(r"[\w.\[\]]+\Z", t) else f"({t})" for t in texts) or "1"
