"""Find how values that a file does not give follow from those that it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from berth.predictor.families.language_model import expressions
from lab.llm.architectures.family import CERTAINLY_HARMLESS, SKIPPED, Family
from lab.llm.architectures.rules import Rules


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
        if not CERTAINLY_HARMLESS.search(k) and k not in SKIPPED and not isinstance(v, dict)
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
