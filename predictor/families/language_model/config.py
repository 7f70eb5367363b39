"""Count a decoder language model from its Hugging Face ``config.json``: parameters, bits of its
weights, and what its cache keeps of a sequence.

The count is by the table of families (``families``); a published family that transformers has not
is counted as one that it has (``published``). A family that is in neither, a number that is not
known to change nothing, and a file that describes no decoder are refused.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model import families, keys, towers
from berth.predictor.families.language_model.by_transformers import (
    COUNTED,
    count_by_transformers,
    counted_before,
    is_installed,
)
from berth.predictor.families.language_model.families import CountedModel
from berth.predictor.families.language_model.model_files import read_model_config
from berth.predictor.families.language_model.published import as_transformers, published
from berth.predictor.families.language_model.refusals import is_encoder, refuse_what_is_no_decoder
from berth.predictor.families.language_model.weights import WeightFormats, formats

__all__ = ["Attention", "LanguageModel", "from_mapping", "is_config", "is_encoder", "read_config"]

MOST_PARAMETERS = 1e14


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention layers of one type: their number, cached values per token, and window."""

    layers: int
    values_per_token: float
    """Cached values per token and layer: K and V together, or the latent vector of MLA."""
    window: int | None = None
    """Maximum number of tokens in the cache; None: unlimited."""


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Shape and parameter counts of a decoder. Parameters are numbers of weights, not bytes."""

    name: str
    family: str
    layers: int
    hidden_size: int
    heads: int
    kv_heads: float
    """Number of KV heads, as a mean over layers."""
    head_dim: int
    feed_forward_size: int
    vocabulary: int
    positions: int
    """Length of the longest sequence that it was made for; 0: no limit is known."""
    attention: tuple[Attention, ...]
    state_values: float
    """Number of state values per sequence, independent of its length (linear attention)."""
    attention_parameters: float
    dense_parameters: float
    """Parameters of the feed-forward layers that every token passes, including shared experts."""
    expert_parameters: float
    """Parameters of all routed experts together."""
    experts: int
    experts_per_token: int
    moe_layers: int
    embedding_parameters: float
    """Parameters of the output matrix, and of the input embedding where it is of the same size."""
    tied: bool
    latent_attention: bool
    weight_bits: float
    """Stored bits per weight of the layers, as a mean: with scales, and with the modules that are
    not quantised."""
    compute_bits: float = 16.0
    """Bits of the operands of most matrix products; 16 where only the weights are quantised."""
    weight_format: str = ""
    """Method of quantisation of the checkpoint; empty: none."""
    end_bits: float = 16.0
    """Stored bits of embeddings, tables and towers, at least."""
    lookup_parameters: float = 0.0
    """Parameters of tables that are read and not multiplied: positions, embeddings of layers, and
    what an input embedding has beyond the output matrix."""
    tower_parameters: float = 0.0
    """Parameters of encoders of pictures or sound beside the language model, with projections."""
    towers: str = ""
    """Which these are; empty: none."""

    @property
    def end_parameters(self) -> float:
        """Return the number of parameters beside the layers: embeddings, tables and towers."""
        ends = self.embedding_parameters * (1 if self.tied else 2)
        return ends + self.lookup_parameters + self.tower_parameters

    @property
    def parameters(self) -> float:
        """Return the number of all parameters, including embeddings and towers."""
        layers = self.attention_parameters + self.dense_parameters + self.expert_parameters
        return layers + self.end_parameters

    @property
    def active_parameters(self) -> float:
        """Return the number of parameters that are multiplied for one token: without the input
        embedding, with the output matrix."""
        routed = self.expert_parameters * self.experts_per_token / max(self.experts, 1)
        return (
            self.attention_parameters + self.dense_parameters + routed + self.embedding_parameters
        )

    def cached_values(self, tokens: float) -> float:
        """Return the number of cached values of one sequence of ``tokens`` tokens, over all
        layers."""
        growing = sum(
            a.layers * a.values_per_token * min(tokens, a.window or math.inf)
            for a in self.attention
        )
        return growing + self.state_values

    @property
    def attending_width(self) -> float:
        """Return the sum of heads x head size over all attention layers; attention needs 4 FLOP per
        unit and pair of tokens."""
        growing = sum(a.layers for a in self.attention)
        return float(growing * self.heads * self.head_dim)


def read_config(path: Path) -> LanguageModel:
    """Return the language model that a ``config.json`` describes. Raises DocumentError for any
    other file."""
    raw = with_count(read_model_config(path), path)
    name = raw.get("_name_or_path") or path.parent.name or path.stem
    return from_mapping(raw, source=path, name=str(name)[:200])


def is_config(raw: Mapping[str, Any]) -> bool:
    """Return whether a JSON object looks like a Hugging Face configuration and not like a Berth
    document."""
    return "schema" not in raw and ("model_type" in raw or "architectures" in raw)


def from_mapping(raw: Mapping[str, Any], *, source: Path | str, name: str) -> LanguageModel:
    """Return the language model that a parsed configuration describes. Raises DocumentError for
    anything that is not a decoder, or that cannot be counted."""
    refuse_what_is_no_decoder(raw, source)
    known = families.table()
    named, text = towers.text_part(raw, known)
    family, config = as_transformers(text, named, source)
    entry = known["families"].get(family) or published().get(family, {}).get("entry")
    bits, names = formats(raw, text, source), (name, family, source)
    if entry is None and COUNTED in raw:
        return _model(counted_before(raw[COUNTED], family, source), bits, towers.Towers(), names)
    if entry is None:
        raise DocumentError(
            source,
            f"is of the family {family[:60]!r}, which Berth cannot count",
            key="model_type",
            hint="where berth[language] is installed, transformers counts families that it has",
        )
    tower = towers.beside(raw, text, known, source)
    model = _model(families.count(entry, config, source), bits, tower, names)
    keys.check(entry, config, known["harmless"], model, source)
    return model


def of_class(reply: Mapping[str, Any], raw: Mapping[str, Any]) -> LanguageModel:
    """Return the language model that the class of a configuration holds (``transformers_child``),
    in 16 bits."""
    kind = str(raw["model_type"])
    counted = counted_before(reply, kind, kind)
    return _model(counted, WeightFormats(16), towers.Towers(), (kind, kind, kind))


def with_count(raw: dict[str, Any], source: Path | str) -> dict[str, Any]:
    """Return a configuration that ``from_mapping`` can count: one of a family that only
    transformers has, where that is installed, with its count. Raises DocumentError."""
    refuse_what_is_no_decoder(raw, source)
    known = families.table()
    named, text = towers.text_part(raw, known)
    if as_transformers(text, named, source)[0] in known["families"] or not is_installed():
        return raw
    return {**raw, COUNTED: count_by_transformers(raw, source)}


def _model(
    counted: CountedModel,
    bits: WeightFormats,
    tower: towers.Towers,
    names: tuple[str, str, Path | str],
) -> LanguageModel:
    name, family, source = names
    sums: defaultdict[str, float] = defaultdict(float)
    for weight in counted.weights:
        sums[weight.part] += weight.count
    experts, chosen = int(counted.size("experts", 1)), int(counted.size("chosen"))
    if sums["expert"] and not 1 <= chosen <= max(experts, 1):
        raise DocumentError(
            source, f"is {chosen}, more than the {experts} experts or none",
            key=str(counted.entry["sizes"].get("chosen", "num_experts_per_tok")),
        )  # fmt: skip
    head, table = sums["head"], sums["embedding"]
    tied = head == 0
    output = table if tied else head
    attention: Counter[tuple[float, int | None]] = Counter(
        (layer.per_token, layer.window) for layer in counted.cache if layer.per_token
    )
    heads = max(int(counted.size("heads", 1)), 1)
    with_keys = [layer for layer in counted.cache if layer.heads]
    kv_heads = counted.size("kv_heads", heads)
    head_dim = counted.size("head_dim", counted.size("hidden", 1) // heads)
    if with_keys:
        kv_heads = sum(layer.heads for layer in with_keys) / len(with_keys)
        head_dim = max(layer.head_dim for layer in with_keys)
    moe = len({w.name.partition(".experts")[0] for w in counted.weights if w.part == "expert"})
    stored, compute = _bits(counted, bits)
    model = LanguageModel(
        name=name,
        family=family,
        layers=len(counted.cache),
        hidden_size=int(counted.size("hidden", 1)),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=max(int(head_dim), 1),
        feed_forward_size=int(
            counted.size("expert_width" if moe else "feed_forward", 4 * counted.size("hidden", 1))
        ),
        vocabulary=int(counted.size("vocabulary", 1)),
        positions=int(counted.size("positions")),
        attention=tuple(Attention(n, v, w) for (v, w), n in attention.items()),
        state_values=sum(layer.state for layer in counted.cache),
        attention_parameters=sums["attention"],
        dense_parameters=sums["dense"],
        expert_parameters=sums["expert"],
        experts=experts if moe else 1,
        experts_per_token=chosen if moe else 1,
        moe_layers=moe,
        embedding_parameters=output,
        tied=tied,
        latent_attention=_latent(counted),
        weight_bits=stored,
        compute_bits=compute,
        weight_format=bits.method,
        end_bits=bits.end_bits,
        lookup_parameters=sums["lookup"] + (0.0 if tied else table - output),
        tower_parameters=tower.parameters + sums["tower"],
        towers=tower.names,
    )
    _check_shape(model, counted, source)
    if not 0 < model.parameters <= MOST_PARAMETERS:
        raise DocumentError(source, f"describes {model.parameters:.3g} parameters; too many")
    return model


def _check_shape(model: LanguageModel, counted: CountedModel, source: Path | str) -> None:
    sizes = counted.entry["sizes"]
    heads = str(sizes.get("heads", "num_attention_heads"))
    if "defaults" not in counted.entry:
        return  # its class has built it
    # A class whose own heads do not divide its width takes any.
    own = counted.entry["defaults"]
    takes_any = (own.get(sizes.get("hidden")) or 0) % (own.get(heads) or 1)
    derived = not takes_any and model.head_dim == model.hidden_size // model.heads
    if derived and model.hidden_size % model.heads and not model.latent_attention:
        raise DocumentError(
            source, f"is {model.heads}, which does not divide hidden_size {model.hidden_size}",
            key=heads,
        )  # fmt: skip
    if model.kv_heads > model.heads and not model.latent_attention and "heads" in sizes:
        raise DocumentError(
            source, f"is {model.kv_heads:g}, more than the {model.heads} heads",
            key=str(sizes.get("kv_heads", "num_key_value_heads")),
        )  # fmt: skip


def _latent(counted: CountedModel) -> bool:
    rank = counted.values.get("kv_lora_rank")
    return bool(counted.entry["latent"] and rank)


def _bits(counted: CountedModel, known: WeightFormats) -> tuple[float, float]:
    """Return the mean stored bits per weight of the layers, and the bits in which most of the
    weights that a token passes are multiplied."""
    if not known.rules:
        return known.plain_bits, known.plain_bits
    stored = total = 0.0
    by_compute: defaultdict[float, float] = defaultdict(float)
    for weight in counted.weights:
        if weight.part not in {"attention", "dense", "expert"}:
            continue
        form = known.of(weight.name)
        total += weight.count
        stored += weight.count * (known.plain_bits if form is None else form.bits)
        compute = known.plain_bits if form is None else form.compute_bits or known.plain_bits
        by_compute[compute] += weight.count
    if not total:
        return known.plain_bits, known.plain_bits
    return stored / total, max(by_compute, key=lambda bits: by_compute[bits])
