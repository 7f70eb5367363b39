"""Derive a family's entry of the table and hold it to every model that was built.

What could not be explained is a problem; a family with a problem that matters is not listed.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from berth.predictor.families.language_model import expressions, families
from lab.llm.architectures.family import CERTAINLY_HARMLESS, Family
from lab.llm.architectures.rows import Row, rows_of
from lab.llm.architectures.trace import Trace, flat
from lab.llm.architectures.values import derived_values


@dataclass
class Derived:
    """A family's entry of the table, and what could not be explained."""

    entry: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)


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
    """Return a family's entry of the table, checked against every model that was built.

    Models of several changed keys at once are drawn; those that an entry counts wrong are added to
    what the next is derived from.
    """
    family = Family(model_type)
    if not family.traces:
        return Derived({}, ["no configuration could be built", *family.problems[:1]])
    source = random.Random(7)  # noqa: S311 - a draw of test cases  # nosec B311
    for _ in range(ROUNDS):
        derived = entry_of(family)
        wrong = [
            traced for traced in drawn(family, source)
            if not derived.entry["fixed"].keys() & family.names(traced) and
            difference(derived.entry, traced)
        ]  # fmt: skip
        if not wrong:
            return derived
        family.traces += wrong
    derived.problems += [f"drawn: {difference(derived.entry, traced)}" for traced in wrong[:2]]
    return derived


ROUNDS = 3
DRAWS = 12


def drawn(family: Family, source: random.Random) -> Iterator[Trace]:
    """Yield models of several changed keys that nothing was derived from: pairs of switches, and
    three keys drawn at random."""
    singles = [*family.variants(), *family.layered]
    switches = [s for s in singles if not isinstance(next(iter(s.values())), dict | list)]
    pairs = list(itertools.combinations(switches, 2))
    source.shuffle(pairs)
    threes = [source.sample(singles, 3) for _ in range(DRAWS if len(singles) > 2 else 0)]
    for several in [*pairs[:DRAWS], *threes]:
        inputs = dict(family.base)
        for changes in several:
            inputs |= changes
        with contextlib.suppress(Exception):  # the class refuses such values
            yield family.traced(inputs)


def entry_of(family: Family) -> Derived:
    """Return the entry that follows from a family's models, and what it does not explain."""
    model_type = family.model_type
    family.problems.clear()
    family.lists.clear()
    rows = _with_latents(rows_of(family), family)
    if all(t.cache_problem for t in family.traces):
        by_projection = cache_by_projection(rows)
        windowed = any("window" in key for key in family.traces[0].values)
        recurrent = any(_KEEPS_MORE.search(r.name) for r in rows)
        if windowed or recurrent or not by_projection:
            family.problems.append(f"cache: {family.traces[0].cache_problem}")
        rows += by_projection
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
    experts = [r.sizes[0] for r in sorted(rows, key=lambda r: -len(r.sizes)) if r.part == "expert"]
    if experts:
        sizes["experts"] = experts[0]
        rows = [  # matrices of all experts in one tensor, under any name
            replace(r, part="expert") if len(r.sizes) == 3 and r.sizes[0] == experts[0] else r
            for r in rows
        ]
        if "chosen" not in sizes:
            family.problems.append("no key says how many experts a token passes")
    if any(r.name == _LATENT for r in rows):
        width = "(qk_nope_head_dim + qk_rope_head_dim + v_head_dim) // 2"
        sizes["head_dim"] = family.by_layer_text(width).replace("[i]", "[0]")
        sizes["kv_heads"] = sizes["heads"]
    texts = [t for r in rows for t in (r.repetitions, r.condition, r.product) if t]
    needed = {n for text in texts for n in expressions.names(text)}
    needed |= {n for text in sizes.values() for n in expressions.names(text)}
    needed = (needed - {"layers"}) | expressions.names(family.layers)
    scalars, lists, must_be_given = derived_values(family, needed)
    needed -= {"layers", "i"}
    defaults = {
        key: None if key in must_be_given else family.raw({}).get(key, values.get(key))
        for key in sorted(needed)
        if {key} & {*family.defaults, *family.legacy, *must_be_given} or "." in key
    }
    entry = {
        "model_type": model_type,
        "layers": family.layers,
        "defaults": defaults,
        "aliases": {a: k for a, k in reverse.items() if k in defaults},
        "nullable": sorted(k for k in defaults if k in must_be_given or _nullable(family.cls, k)),
        "sizes": sizes,
        "scalars": scalars,
        "lists": lists,
        "weights": [
            [r.part, r.name, r.repetitions, r.condition, r.product] for r in rows
            if r.part not in {"token", "state", "window"}
        ],
        "cache": [
            ["keys", r.condition, *r.sizes]
            if r.name.endswith(".keys") and len(r.sizes) == 2
            else [r.part, r.condition, r.product]
            for r in rows if r.part in {"token", "state", "window"}
        ],
        "latent": any(r.name == _LATENT for r in rows),
    }  # fmt: skip
    return check(family, entry)


_KEEPS_MORE = re.compile("conv|A_log|indexer|mamba|ssm|rnn|linear_attn")
_KEYS_AND_VALUES = re.compile(r"(_|\.)(k|v|key|value|kv)(_proj)?\.weight$")


def cache_by_projection(rows: list[Row]) -> list[Row]:
    """Return the cache of a class whose forward pass shows none on the meta device: what its
    projections of keys and values yield."""
    return [
        Row("token", f"cache.{{}}.token.{r.name}", "layers", r.condition, r.sizes[:1])
        for r in rows if r.part == "attention" and _KEYS_AND_VALUES.search(r.name)
    ]  # fmt: skip


def _nullable(cls: Any, key: str) -> bool:
    f = getattr(cls, "__dataclass_fields__", {}).get(key)
    return f is None or "None" in str(f.type)


_LATENT = "cache.{}.token.latent"


def _with_latents(rows: list[Row], family: Family) -> list[Row]:
    """Return the rows with the latent vector of multi-head latent attention in place of the keys
    and values that transformers expands it to: servers keep the latent."""
    latent_sizes = (family.by_layer_text("kv_lora_rank + qk_rope_head_dim"),)
    down = [r for r in rows if re.search(r"kv_a_proj|kv_down|wkv_a", r.name)
            and r.name.endswith("weight") and "norm" not in r.name]  # fmt: skip
    if not down or not any("kv_lora_rank" in s for r in down for s in r.sizes):
        return rows
    latent = [Row("token", _LATENT, "layers", r.condition, latent_sizes) for r in down]
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
    for traced in family.traces:
        changed = {k: v for k, v in traced.inputs.items() if k not in family.base}
        wrong = difference(entry, traced)
        if wrong and not changed:
            base_wrong = wrong
        for key in changed:
            name = family.name_of(key)
            if wrong and len(changed) == 1:
                fixed[name] = family.raw({}).get(name)
                counted = name in entry["defaults"] and not wrong.startswith("DocumentError")
                family.problems.append(f"{'counted: ' * counted}{changed}: {wrong}")
            elif not wrong and name not in entry["defaults"]:
                harmless.add(name)
    entry["fixed"] = {k: v for k, v in fixed.items() if k not in harmless}
    several = [
        wrong for traced in family.traces
        if len(family.names(traced)) > 1 and not family.names(traced) & entry["fixed"].keys()
        and (wrong := difference(entry, traced))
    ]  # fmt: skip
    family.problems += [f"several keys: {wrong}" for wrong in several[:2]]
    harmless |= without_effect(family.cls, entry)
    entry["harmless"] = sorted(
        k for k in {*harmless, *(k for k in family.defaults if CERTAINLY_HARMLESS.search(k))}
        if k not in entry["fixed"]
    )  # fmt: skip
    if base_wrong:
        family.problems.insert(0, f"defaults: {base_wrong}")
    return Derived(entry, family.problems, family.traces)


def without_effect(cls: Any, entry: Mapping[str, Any]) -> set[str]:
    """Return keys that no expression of an entry uses and that cannot be a size: fractions, and
    values that the class computes itself, whatever a file says."""
    fields = getattr(cls, "__dataclass_fields__", {})
    harmless = set()
    for name, value in flat(cls()).items():
        fraction = isinstance(value, float) or (
            isinstance(value, list) and bool(value) and all(isinstance(v, float) for v in value)
        )
        computed = name not in fields and "." not in name and not isinstance(value, list)
        if (fraction or computed) and name not in entry["defaults"]:
            harmless.add(name)
    harmless |= {  # fractions that are None by default
        name for name, f in fields.items()
        if "float" in str(f.type) and "list" not in str(f.type) and name not in entry["defaults"]
    }  # fmt: skip
    return harmless


def difference(entry: Mapping[str, Any], traced: Trace) -> str:
    """Return how the count by an entry differs from a model that was built; empty: by nothing that
    matters."""
    as_written = {  # what follows from no rule is given, as the class fills it in
        key: value for key, value in traced.values.items()
        if entry["defaults"].get(key, 0) is None and key not in {*entry["scalars"], *entry["lists"]}
    }  # fmt: skip
    try:
        counted = families.count(entry, {**as_written, **traced.inputs}, "config")
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    built = {name for name, _ in traced.sizes}
    parameters = sum(
        w.count for w in counted.weights if w.part != "head" or w.name in built
    )  # a text model's head is beside it in the model that sees
    if abs(parameters / traced.parameters - 1) > 0.01:
        return f"{parameters / traced.parameters:.3f} of its weights"
    if traced.cache_problem or entry["latent"]:
        return ""
    kept: dict[str, float] = defaultdict(float)
    for (name, _), size in traced.sizes.items():
        if name.startswith("cache"):
            kept[name.split(".")[2]] += float(np.prod(size, dtype=float))
    ours = {
        "token": sum(layer.per_token for layer in counted.cache),
        "state": sum(layer.state for layer in counted.cache),
        "window": sum(layer.window or 0.0 for layer in counted.cache),
    }
    for part, value in ours.items():
        if abs(value - kept[part]) > 0.01 * max(kept[part], 1.0):
            return f"cache: {part} {value:g}, true {kept[part]:g}"
    return ""


def causal_types() -> set[str]:
    """Return the model types that transformers loads as causal language models."""
    from transformers.models.auto import modeling_auto  # noqa: PLC0415

    return set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
