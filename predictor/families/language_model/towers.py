"""Find the language model in a configuration that also has encoders of pictures or sound, and count
these towers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model import families
from berth.predictor.families.language_model.refusals import family_of

TEXT_KEYS = ("text_config", "llm_config", "language_config", "language_model_config",
             "text_model_config")  # fmt: skip
_WORDS = ("vision", "visual", "audio", "speech", "vit_config", "img_", "sound", "whisper")
_FROM_OUTSIDE = ("torch_dtype", "dtype")
_TIED = "tie_word_embeddings"


@dataclass(frozen=True, slots=True)
class Towers:
    """Encoders beside a language model."""

    parameters: float = 0.0
    names: str = ""


def is_tower(key: str) -> bool:
    return any(word in key for word in _WORDS) and key.endswith(("config", "vision", "vit"))


def text_part(raw: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    outer = family_of(raw)
    composite = known["composites"].get(outer, {})
    thinker = raw.get("thinker_config")
    around: Mapping[str, Any] = thinker if isinstance(thinker, dict) else raw
    for key in (composite.get("text", "text_config"), *TEXT_KEYS):
        nested = around.get(key)
        if isinstance(nested, dict):
            outside = {k: around[k] for k in _FROM_OUTSIDE if around.get(k) is not None}
            family = str(nested.get("model_type") or composite.get("family") or outer).lower()
            said = (around.get(_TIED), nested.get(_TIED), composite.get("tied"))
            tied = next(({_TIED: value} for value in said if value is not None), {})
            return family, {**outside, **{k: v for k, v in nested.items() if k != _TIED}, **tied}
    if composite and outer not in known["families"]:
        outside = {k: v for k, v in raw.items() if k not in composite["towers"]}
        return str(composite["family"]), outside
    return outer, dict(raw)


def beside(
    raw: Mapping[str, Any], text: Mapping[str, Any], known: Mapping[str, Any], source: Path | str
) -> Towers:
    """Return the encoders beside the language model. Raises DocumentError for one that cannot be
    counted."""
    thinker = raw.get("thinker_config")
    around = thinker if isinstance(thinker, dict) else raw
    composite = known["composites"].get(family_of(around)) or known["composites"].get(
        family_of(raw)
    )
    classes = raw.get("architectures")
    named = str(classes[0]) if isinstance(classes, list) and classes else ""
    if composite is not None and named.endswith("ForCausalLM"):
        return Towers()  # transformers' class of the language model alone
    own = known["families"].get(family_of(around), {"defaults": ()})["defaults"]
    nested = {
        key: value for key, value in around.items()
        if isinstance(value, dict) and is_tower(key)
        and not any(name.startswith(f"{key}.") for name in own)  # counted with the language model
    }  # fmt: skip
    if composite is not None and "entry" in composite:
        expected = composite["towers"]
        named_as = {None, family_of(around)}  # files before transformers 5 name the whole model
        same = all(
            value.get("model_type") in {*named_as, expected.get(key)}
            for key, value in nested.items()
        )
        if same:
            filled = {**around, composite["text"]: dict(text)}
            absent = [key for key in composite.get("optional", ()) if around.get(key) is None]
            weights = [
                row for row in composite["entry"]["weights"]
                if not any(f"{key}." in row[-1] for key in absent)
            ]  # fmt: skip
            counted = families.count({**composite["entry"], "weights": weights}, filled, source)
            total = sum(w.count for w in counted.weights)
            present = [key for key in expected or nested if key not in absent]
            return Towers(total, _names(present, total))
    total = 0.0
    for key, value in nested.items():
        usual = known["towers"].get(str(value.get("model_type")), {})
        total += _usual({**usual, **value}, key, source)
    return Towers(total, _names(nested, total))


def _names(nested: Iterable[str], total: float) -> str:
    if not total:
        return ""
    kinds = sorted(key.removesuffix("_config") for key in nested) or ["vision"]
    return f"{' and '.join(kinds)}: {total / 1e9:.2g} billion parameters"


def _usual(value: Mapping[str, Any], key: str, source: Path | str) -> float:
    plain = {name.removeprefix("vt_").removeprefix("vit_"): v for name, v in value.items()}
    width = _first(plain, "hidden_size", "width", "embed_dim", "d_model")
    depth = _first(plain, "num_hidden_layers", "depth", "layers", "encoder_layers")
    if width is None or depth is None:
        raise DocumentError(
            source,
            "is a tower that Berth cannot count: it has no width and number of layers",
            key=key,
        )
    inner = _first(plain, "intermediate_size", "mlp_dim", "encoder_ffn_dim") or 4 * width
    return float(depth * (4 * width * width + 2 * width * inner))


def _first(values: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = values.get(name)
        if type(value) is int and 0 < value <= 1_000_000:
            return value
    return None
