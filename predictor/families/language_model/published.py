"""Count published families whose code comes with the model as a family that transformers has.

``published.json`` says of each: which family has the same matrices (``family``; its own where the
files of one that transformers has hold keys that its class ignores: ``harmless``); its keys as
expressions over the file's (``keys``), where they differ; lists with other words for the same kinds
of layers (``lists``); what must hold for the count to be right (``equal``); and keys that change
nothing (``harmless``). That code itself is never run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.expressions import MissingKey, evaluate, names
from berth.predictor.families.language_model.families import LAYERS_AT_MOST, flat, table

_FILE = Path(__file__).with_name("published.json")


@cache
def published() -> Mapping[str, Any]:
    """Return the published families by model type."""
    read: Mapping[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return read


def as_transformers(
    text: Mapping[str, Any], family: str, source: Path | str
) -> tuple[str, Mapping[str, Any]]:
    """Return the family to count as, and the configuration in its keys. Raises DocumentError."""
    rule = published().get(family)
    if rule is None or ("when" in rule and text.get(rule["when"]) is None):
        return family, text
    optional = dict.fromkeys(rule.get("optional", ()))
    values = {**optional, **{k: v for k, v in flat(text).items() if v is not None}}
    target = str(rule.get("family", family))
    own = table()["families"].get(target, {}).get("defaults", {})
    layers = values.get("num_hidden_layers")
    layers = layers if type(layers) is int and 0 <= layers <= LAYERS_AT_MOST else 0
    used: set[str] = set()
    made: dict[str, Any] = {}
    try:
        for key, expression in rule.get("keys", {}).items():
            used |= {name.partition(".")[0] for name in names(expression)}
            made[key] = evaluate(expression, values)
        for key, expression in rule.get("equal", {}).items():
            used.add(key)
            wanted = evaluate(expression, values) if values.get(key) is not None else None
            if wanted is not None and values[key] not in (wanted, [wanted] * layers):
                raise DocumentError(
                    source, f"is {str(values[key])[:40]}; Berth counts {family} only with {wanted}",
                    key=key,
                )  # fmt: skip
    except MissingKey as missing:
        raise DocumentError(source, "is missing", key=str(missing)) from None
    except (ArithmeticError, LookupError, TypeError, ValueError):
        raise DocumentError(source, f"has values that make no {family} model") from None
    for key, kinds in rule.get("lists", {}).items():
        try:
            made[key] = [
                next(kind for condition, kind in kinds
                     if not condition or evaluate(condition, {**values, "i": i}))
                for i in range(layers)
            ]  # fmt: skip
        except LookupError:  # the class's default
            continue
        except (ArithmeticError, TypeError):
            raise DocumentError(source, f"has values that make no {family} model") from None
    left_out = {*(used - own.keys()), *rule.get("harmless", ())}
    kept = {key: value for key, value in text.items() if key not in left_out}
    return target, {**kept, **made}
