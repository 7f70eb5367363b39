"""Hold the count of language models to transformers' own classes, and write the table of families.

``python -m lab lm-architectures`` builds each class of causal language models at its defaults on
torch's meta device and compares weights, weights that a token passes, and the cache of a sequence
of 1 Ki, 32 Ki and 128 Ki tokens with Berth's count of the same ``config.json``. ``--write`` derives
``families.json`` anew.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.config import LanguageModel, from_mapping

LENGTHS = (1024, 32 * 1024, 128 * 1024)
PARAMETERS_OFF, OTHERS_OFF = 0.03, 0.05
"""Largest relative errors of a right count: of weights, and of active weights and cache."""
RIGHT, REFUSED, WRONG, UNKNOWN = "right", "refused", "wrong", "cannot be built"


@dataclass(frozen=True, slots=True)
class Truth:
    """The sizes that transformers' class has, which are taken as true."""

    parameters: float
    active: float
    cached: tuple[float, ...] | None
    """Values of one sequence at each of ``LENGTHS``; None: no forward pass on the meta device."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of one class."""

    model_type: str
    verdict: str
    detail: str = ""


def quiet() -> None:
    """Keep transformers off the network and silent."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)


def causal_classes() -> Mapping[str, str]:
    """Return the class of each model type that transformers loads as a causal language model."""
    from transformers.models.auto import modeling_auto  # noqa: PLC0415

    return dict(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def config_of(model_type: str, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the ``config.json`` that transformers writes for a family at its defaults."""
    from lab.llm.architectures.trace import config_class  # noqa: PLC0415

    config = config_class(model_type)(**(changes or {}))
    raw: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    raw.setdefault("model_type", model_type)
    raw["architectures"] = [causal_classes().get(model_type, "")]
    return raw


def truth(model_type: str, changes: Mapping[str, Any] | None = None, seconds: int = 60) -> Truth:
    """Return what the family's class holds. Raises what it raises."""
    import torch  # noqa: PLC0415
    from transformers import initialization  # noqa: PLC0415

    from lab.llm.architectures.trace import at_most, config_class, model_class  # noqa: PLC0415

    config = config_class(model_type)(**(changes or {}))
    with at_most(seconds), torch.device("meta"), initialization.no_init_weights():
        model = model_class(model_type).from_config(config)
    model.tie_weights()
    sizes = {name: float(weight.numel()) for name, weight in model.named_parameters()}
    text = config.get_text_config(decoder=True)
    routed = sum(n for name, n in sizes.items() if is_routed(name))
    experts, chosen = _first(text, EXPERTS), _first(text, CHOSEN)
    tied = not any(re.search(r"(lm_head|embed_out)\.weight$", name) for name in sizes)
    tables = sum(n for name, n in sizes.items() if _is_table(name))
    towers = sum(n for name, n in sizes.items() if _is_tower(name))
    head = max((n for name, n in sizes.items() if _is_table(name)), default=0.0) if tied else 0.0
    total = sum(sizes.values())
    active = total - towers - tables + head
    if routed and experts and chosen:
        active -= routed * (1 - min(chosen / experts, 1.0))
    return Truth(total, active, _cached(model, text, seconds))


EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
CHOSEN = ("num_experts_per_tok", "moe_topk", "moe_top_k", "moe_k", "num_experts_per_token",
          "top_k_experts", "num_selected_experts")  # fmt: skip


def is_routed(name: str) -> bool:
    """Return whether a weight belongs to experts of which a token passes some."""
    return bool(re.search(r"\bexperts\b", name)) and "shared" not in name


def _is_table(name: str) -> bool:
    return bool(
        re.search(r"(embed|wte|wpe|word_embeddings|tokens_embed|positions_embed)", name)
    ) and (".layers." not in name and not re.search(r"lm_head|embed_out|projection", name))


def _is_tower(name: str) -> bool:
    return bool(re.search(r"vision|visual|audio|image|multi_modal|patch", name))


def _first(config: Any, names: Iterable[str]) -> float:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int):
            return float(value)
    return 0.0


def _cached(model: Any, text: Any, seconds: int) -> tuple[float, ...] | None:
    from lab.llm.architectures.trace import TOKENS, at_most, cache_layers  # noqa: PLC0415

    try:
        with at_most(seconds):
            layers = cache_layers(model)
    except Exception:
        return None
    rank = getattr(text, "kv_lora_rank", None)
    totals = []
    for length in LENGTHS:
        total = 0.0
        for layer in layers:
            for name, value in vars(layer).items():
                listed = value.values() if isinstance(value, dict) else [value]
                for tensor in listed:
                    if not hasattr(tensor, "dim") or tensor.dim() < 2:
                        continue
                    size = tensor.numel()
                    if TOKENS in tensor.shape:
                        if rank and name in {"keys", "values"}:  # servers keep the latent vector
                            size = (rank + text.qk_rope_head_dim) * TOKENS * (name == "keys")
                        window = getattr(layer, "sliding_window", None) or length
                        size = size // TOKENS * min(length, window)
                    total += size
        totals.append(total)
    return tuple(totals)


def verdict(model_type: str) -> Verdict:
    """Return whether Berth counts a family's defaults right, refuses them, or is wrong."""
    try:
        raw = config_of(model_type)
    except Exception as error:
        return Verdict(model_type, UNKNOWN, f"{type(error).__name__}: {str(error)[:90]}")
    try:
        counted = from_mapping(raw, source="config.json", name=model_type)
    except DocumentError as error:
        return Verdict(model_type, REFUSED, str(error.message)[:110])
    try:
        return compared(model_type, counted, truth(model_type))
    except Exception as error:
        return Verdict(model_type, UNKNOWN, f"{type(error).__name__}: {str(error)[:90]}")


def compared(name: str, counted: LanguageModel, known: Truth) -> Verdict:
    """Return the verdict of a count beside what is true."""
    pairs = [
        ("parameters", counted.parameters, known.parameters, PARAMETERS_OFF),
        ("active parameters", counted.active_parameters, known.active, OTHERS_OFF),
    ]
    for length, values in zip(LENGTHS, known.cached or (), strict=False):
        pairs.append(
            (f"cache of {length} tokens", counted.cached_values(length), values, OTHERS_OFF)
        )
    wrong = [
        f"{what} {ours:.4g}, true {true:.4g}"
        for what, ours, true, most in pairs
        if abs(ours - true) > most * max(true, 1.0)
    ]
    if wrong:
        return Verdict(name, WRONG, "; ".join(wrong))
    return Verdict(name, RIGHT, "" if known.cached else "without cache")


def main(arguments: list[str]) -> int:
    """Run the command; the exit status is 1 where a count is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m lab lm-architectures", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("families", nargs="*", help="model types (default: every class)")
    parser.add_argument("--write", action="store_true", help="derive these families anew")
    parser.add_argument("--folder", type=Path, help="keep derived entries here and go on from them")
    options = parser.parse_args(arguments)
    quiet()
    if options.write:
        from lab.llm.architectures.write_table import write  # noqa: PLC0415

        return write(options.families or derived_types(), options.folder)
    counts: Counter[str] = Counter()
    for model_type in options.families or causal_classes():
        found = verdict(model_type)
        counts[found.verdict] += 1
        print(f"{found.model_type:28} {found.verdict:8} {found.detail}", flush=True)
    total = sum(counts.values())
    print(", ".join(f"{counts[v]} {v}" for v in (RIGHT, REFUSED, WRONG, UNKNOWN)), f"of {total}")
    return int(counts[WRONG] > 0)


def derived_types() -> list[str]:
    """Return the model types that the table is derived from: causal language models, models that
    see, and the language models inside these."""
    from transformers.models.auto import modeling_auto  # noqa: PLC0415
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: PLC0415

    outer = list(modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    inner = []
    for name in outer:
        held = CONFIG_MAPPING[name].sub_configs.get("text_config")
        inner.append(getattr(held, "model_type", "") or "")
    return [n for n in dict.fromkeys([*causal_classes(), *inner, *outer]) if n]
