"""Hold the count of language models to transformers' own classes.

``python -m lab lm-architectures`` builds each class of causal language models at its defaults on
torch's meta device and compares weights, weights that a token passes, and the cache of a sequence
of 1 Ki, 32 Ki and 128 Ki tokens with Berth's count of the same ``config.json``; then it compares
the count of published files with the sizes on their models' cards.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.config import (
    LanguageModel,
    from_mapping,
    is_encoder,
    of_class,
)

LENGTHS = (1024, 32 * 1024, 128 * 1024)
PARAMETERS_OFF, OTHERS_OFF = 0.03, 0.05
"""Largest relative errors of a right count: of weights, and of active weights and cache."""
RIGHT, REFUSED, WRONG, UNKNOWN = "right", "refused", "wrong", "cannot be built"
ENCODER = "encoder"
"""Rightly refused: a class of an encoder with a causal head, which serves no tokens."""

_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_INDEXER = {"indexer_n_heads": 8, "indexer_kv_heads": 1, "indexer_head_dim": 256,
            "indexer_budget": 2048, "indexer_compress_ratio": 4}  # fmt: skip
BUILT_AT: Mapping[str, Mapping[str, Any]] = {
    "dots1": {"n_routed_experts": 32, "n_shared_experts": 2, "num_experts_per_tok": 4,
              "first_k_dense_replace": 1},
    "hunyuan_v1_dense": {"head_dim": 96, "num_key_value_heads": 8},
    "hunyuan_v1_moe": {"head_dim": 96, "num_key_value_heads": 8, "num_experts": 24, "moe_topk": 3},
    "ministral": {"head_dim": 96, "num_key_value_heads": 8},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 4,
                 "num_hidden_layers": 16},
    "nemotron": {"num_key_value_heads": 8},
    "deepseek_v2": {"num_experts_per_tok": 6},
    "dbrx": {"attn_config": {"kv_n_heads": 8, "clip_qkv": 8.0, "rope_theta": 500000.0}},
    "cohere_compass_text": {"rope_parameters": {"full_attention": _ROPE}},
    "qwen4_exp_text": _INDEXER,
    "qwen4_exp": {"text_config": _INDEXER},
}  # fmt: skip
"""Settings given to classes that cannot build or run a model of their own defaults."""


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


class TookTooLong(Exception):
    """A model could not be built or run in time."""


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TookTooLong in the body after so many seconds of the processor's time."""

    def stop(*_: Any) -> None:
        raise TookTooLong(f"over {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def causal_classes() -> Mapping[str, str]:
    """Return the class of each model type that transformers loads as a causal language model."""
    from transformers.models.auto import modeling_auto  # noqa: PLC0415

    return dict(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def config_of(model_type: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``config.json`` that transformers writes for a family with ``changes``."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: PLC0415

    config: Any = CONFIG_MAPPING[model_type](**changes)
    raw: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    raw.setdefault("model_type", model_type)
    raw["architectures"] = [causal_classes().get(model_type, "")]
    return raw


def truth(raw: Mapping[str, Any], seconds: int = 60) -> tuple[LanguageModel, bool]:
    """Return what the class of a ``config.json`` holds, and whether a forward pass showed its
    cache. Raises what the class raises."""
    from berth.predictor.families.language_model import transformers_child  # noqa: PLC0415

    with at_most(seconds):
        model = transformers_child.built(raw)
    reply = transformers_child.weighed(model)
    try:
        with at_most(seconds):
            cache = list(transformers_child.cached(model))
    except Exception:  # the model's own forward pass fails on the meta device
        cache = []
    return of_class({**reply, "cache": cache or [(0, None, 0, 0, 0)]}, raw), bool(cache)


def verdict(model_type: str) -> Verdict:
    """Return whether Berth counts a family's defaults right, refuses them, or is wrong.

    A class that cannot build or run a model of its defaults is built at ``BUILT_AT``.
    """
    changes = BUILT_AT.get(model_type, {})
    try:
        raw = config_of(model_type, changes)
        if is_encoder(raw):
            return Verdict(model_type, ENCODER)
        true, has_cache = truth(raw)
    except Exception as error:  # any that the class raises
        return Verdict(model_type, UNKNOWN, f"{type(error).__name__}: {str(error)[:90]}")
    try:
        counted = from_mapping(raw, source="config.json", name=model_type)
    except DocumentError as error:
        return Verdict(model_type, REFUSED, str(error.message)[:110])
    found = compared(model_type, counted, true, has_cache)
    at = f"at {', '.join(changes)}" if changes else ""
    return replace(found, detail="; ".join(filter(None, (found.detail, at))))


def compared(name: str, counted: LanguageModel, true: LanguageModel, cache: bool) -> Verdict:
    """Return the verdict of a count beside what is true, with the cache where that is known."""
    pairs = [
        ("parameters", counted.parameters, true.parameters, PARAMETERS_OFF),
        ("active parameters", counted.active_parameters, true.active_parameters, OTHERS_OFF),
    ]
    pairs += [
        (f"cache of {n} tokens", counted.cached_values(n), true.cached_values(n), OTHERS_OFF)
        for n in LENGTHS if cache
    ]  # fmt: skip
    wrong = [
        f"{quantity} {ours:.4g}, true {theirs:.4g}"
        for quantity, ours, theirs, most in pairs
        if abs(ours - theirs) > most * max(theirs, 1.0)
    ]
    if wrong:
        return Verdict(name, WRONG, "; ".join(wrong))
    return Verdict(name, RIGHT, "" if cache else "without cache")


FORMS = Path(__file__).with_name("data") / "published_forms.json"
"""Public ``config.json`` files of models with their published billions of parameters."""


def form_verdict(name: str, billions: float, raw: Mapping[str, Any]) -> Verdict:
    """Return whether a published file is counted as its model's card says, within 3 %."""
    try:
        counted = from_mapping(raw, source="config.json", name=name)
    except DocumentError as error:
        return Verdict(name, REFUSED, str(error.message)[:110])
    if abs(counted.parameters / 1e9 - billions) > PARAMETERS_OFF * billions:
        return Verdict(name, WRONG, f"{counted.parameters / 1e9:.4g} billion, true {billions:.4g}")
    return Verdict(name, RIGHT)


def form_verdicts() -> list[Verdict]:
    """Return the verdict of each published file."""
    forms = json.loads(FORMS.read_text(encoding="utf-8"))
    return [form_verdict(name, form["billions"], form["config"]) for name, form in forms.items()]


def main(arguments: list[str]) -> int:
    """Run the command; the exit status is 1 where a count is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m lab lm-architectures", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("families", nargs="*", help="model types (default: every class)")
    options = parser.parse_args(arguments)
    quiet()
    wrong = printed(map(verdict, options.families or causal_classes()))
    if not options.families:
        wrong += printed(form_verdicts())
    return int(wrong > 0)


def printed(verdicts: Iterable[Verdict]) -> int:
    """Print verdicts and their numbers; return how many are wrong."""
    counts: Counter[str] = Counter()
    for each in verdicts:
        counts[each.verdict] += 1
        print(f"{each.model_type:28} {each.verdict:8} {each.detail}", flush=True)
    total = sum(counts.values())
    kinds = ", ".join(f"{counts[v]} {v}" for v in (RIGHT, REFUSED, WRONG, UNKNOWN))
    encoders = f", {counts[ENCODER]} rightly refused: encoders" if counts[ENCODER] else ""
    print(f"{kinds}{encoders}, of {total}")
    return counts[WRONG]
