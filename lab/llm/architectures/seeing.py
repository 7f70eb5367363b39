"""Derive the encoders of a model that sees beside its language model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from berth.predictor.families.language_model import expressions, families
from lab.llm.architectures.derive import Derived
from lab.llm.architectures.family import CERTAINLY_HARMLESS, Family, Resolved
from lab.llm.architectures.rows import rows_of
from lab.llm.architectures.samples import SAMPLES
from lab.llm.architectures.trace import Trace, config_class, flat, trace


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
        sample = next(iter(SAMPLES.get(text.model_type, ())), {})
        base: dict[str, Any] = {self.text_key: {"model_type": text.model_type, layers: 4, **sample}}
        self.towers = [key for key in self.cls.sub_configs if key != self.text_key]
        base |= {key: {} for key in self.towers}  # a part of an encoder's keys: its own defaults
        base |= {k: v for sample in self.samples for k, v in sample.items() if k != self.text_key}
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
                traced = trace(self.model_type, {**self.base, **inputs}, cache=False, seeing=True)
            except Exception as error:
                self.problems.append(f"{inputs}: {type(error).__name__}: {str(error)[:90]}")
                continue
            for place in list(traced.shapes):
                name = place[0]
                if name.startswith((*traced.text_prefixes, "lm_head")) or not traced.text_prefixes:
                    del traced.shapes[place], traced.sizes[place]
            yield traced


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
    config, filled = family.cls(), family.cls(**family.base)
    towers = {key: getattr(filled, key).model_type for key in family.towers}
    tied = getattr(config, "tie_word_embeddings", None)
    if tied is None:
        tied = getattr(getattr(config, family.text_key), "tie_word_embeddings", False)
    entry = {
        "text": family.text_key,
        "family": family.text_family,
        "tied": bool(tied),
        "towers": towers,
        "optional": [key for key in towers if getattr(config, key, None) is None],
        "entry": {
            "model_type": model_type,
            "layers": "1",
            "defaults": {k: values.get(k) for k in sorted(needed)},
            "aliases": {}, "nullable": [], "sizes": {}, "scalars": {}, "lists": {},
            "weights": [["tower", r.name, r.repetitions, r.condition, r.product] for r in rows],
            "cache": [], "latent": False, "fixed": {}, "harmless": [],
        },
    }  # fmt: skip
    for traced in family.traces:
        counted = families.count(entry["entry"], traced.inputs, "config")
        total = sum(w.count for w in counted.weights)
        if abs(total / traced.parameters - 1) > 0.01:
            family.problems.append(
                f"{traced.inputs}: {total / traced.parameters:.3f} of its weights"
            )
    return Derived(entry, family.problems, family.traces)


def holds_a_text_model(model_type: str) -> bool:
    """Return whether a family's configuration holds a language model's beside encoders."""
    return bool({"text_config", "language_config"} & set(config_class(model_type).sub_configs))
