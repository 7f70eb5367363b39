"""Find how values that a file does not give follow from those that it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from berth.predictor.families.language_model import expressions
from lab.llm.architectures.family import CERTAINLY_HARMLESS, SKIPPED, Family
from lab.llm.architectures.rules import Rules


def derived_values(
    family: Family, needed: set[str]
) -> tuple[dict[str, Any], dict[str, Any], set[str]]:
    """Return how scalars and lists that the rows need follow from the raw keys, and the keys that
    follow from nothing and must be given, as transformers writes them."""
    scalars: dict[str, Any] = {}
    lists: dict[str, Any] = {}
    must_be_given: set[str] = set()
    points = family.resolved
    by_layer = {
        key: _rule_by_layer(family, key, needed) for key in family.by_layer if key in needed
    }
    for key in [k for k in points[0].values if k in needed]:
        if "." in key or key in by_layer:
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
        cases = [
            (rules.condition(np.array([t == text for t in texts])), text)
            for text in dict.fromkeys(texts) if not text.startswith("[")
        ]  # fmt: skip
        if any(condition is None for condition, _ in cases):
            must_be_given.add(key)
            continue
        scalars[key] = cases
        needed |= {n for pair in cases for text in pair if text for n in expressions.names(text)}
    for key in [k for k in points[0].values if k in needed and k not in by_layer]:
        values = [p.values.get(key) for p in points]
        if not isinstance(next((v for v in values if v is not None), 0), list):
            continue
        rule = _list_rule(family, key, needed)
        if rule is not None:
            lists[key] = rule
        elif any(p.raw.get(key) is None and p.values.get(key) is not None for p in points):
            must_be_given.add(key)
    must_be_given |= {key for key, rule in by_layer.items() if rule is None}
    lists |= {key: rule for key, rule in by_layer.items() if rule is not None}
    return scalars, lists, must_be_given


def _raw_space(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {
        k: v for k, v in raw.items()
        if not CERTAINLY_HARMLESS.search(k) and k not in SKIPPED and not isinstance(v, dict)
    }  # fmt: skip


_ENOUGH = 60


def _rule_by_layer(family: Family, key: str, needed: set[str]) -> dict[str, Any] | None:
    """Return the rule of a key that differs between layers, where a file gives one number for all:
    expressions with conditions on a layer's index. None: it must be given by layer."""
    spaces: list[dict[str, Any]] = []
    texts: list[str] = []
    values: list[Any] = []
    for point in family.resolved[:_ENOUGH]:  # the class's own, samples, single changes
        layers = family.count_of(point.values) or 0
        lists = {
            k: v for k, v in point.values.items()
            if isinstance(v, list) and len(v) == layers and k not in family.by_layer
        }  # fmt: skip
        spaces += [
            {**_raw_space(point.raw), **lists, "i": i, "layers": layers} for i in range(layers)
        ]
        text = point.texts.get(key, "None")
        texts += text if key in point.by_layer else [text] * layers
        values += point.values[key] if key in point.by_layer else [None] * layers
    constants = {text for text in texts if text.isdigit()}
    told_apart = [  # a constant is hidden where the key has the same value
        n for n, (text, value) in enumerate(zip(texts, values, strict=True))
        if text != key or str(value) not in constants
    ]  # fmt: skip
    spaces, texts = [spaces[n] for n in told_apart], [texts[n] for n in told_apart]
    rules = Rules(spaces, layered=True)
    cases = [
        (rules.condition(np.array([t == text for t in texts])), text)
        for text in dict.fromkeys(texts)
    ]
    if any(condition is None for condition, _ in cases):
        return None
    needed |= {n for case in cases for text in case if text for n in expressions.names(text)}
    return {"each": cases}


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
    rules = Rules(spaces, layered=True)
    if not by_layer:
        if len(set(layers)) > 1 and len({repr(p.values[key]) for p in points}) == 1:
            return None  # a list of the class's own, whatever the number of layers
        condition = rules.condition(np.array(wanted_values, dtype=bool))
        if condition is None:
            return None
        needed |= expressions.names(condition) if condition else set()
        family.lists[key] = True
        return {"members": condition}
    kinds, otherwise = [], []
    for value in dict.fromkeys(map(repr, wanted_values)):
        condition = rules.condition(np.array([repr(v) == value for v in wanted_values]))
        kind = next(v for v in wanted_values if repr(v) == value)
        if condition is None:
            otherwise.append(["", kind])
        else:
            needed |= expressions.names(condition) if condition else set()
            kinds.append([condition, kind])
    if len(otherwise) > 1:
        return None
    family.lists[key] = True
    rule: dict[str, Any] = {"kinds": kinds + otherwise}
    if family.layers != family.layers_key:
        rule["count"] = f"len({texts[0]})"
        needed |= {texts[0]}
    return rule
