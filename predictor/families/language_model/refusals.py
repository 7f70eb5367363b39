"""Name a configuration that is not a decoder's for what it is, with what Berth wants instead."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.families.language_model.families import table

OTHER_ENCODERS = frozenset({
    "bert-generation", "bigbird", "blip", "blip-2", "ernie_m", "git", "gte", "jina_bert",
    "jina_clip", "kosmos-2", "mega", "musicgen", "musicgen_melody", "neobert", "new", "nezha",
    "nomic_bert", "open_clip", "qdqbert", "trocr", "udop", "vision-encoder-decoder", "whisper",
    "xlm-prophetnet", "xlnet",
})  # fmt: skip
"""Families that read a whole text, picture or sound at once, beside those that transformers has for
such tasks (``encoders`` of the table)."""
_ENCODING_CLASS = re.compile(
    r"(For(MaskedLM|PreTraining|SequenceClassification|TokenClassification|QuestionAnswering"
    r"|MultipleChoice|NextSentencePrediction|ImageClassification|ObjectDetection|CTC"
    r"|AudioClassification|Retrieval|SentenceEmbedding|RewardModel)"
    r"|Bert\w*Model|RobertaModel|CLIP\w*|SiglipModel|ViT\w*Model|NewModel|EncoderModel"
    r"|EmbeddingModel|T5ForConditionalGeneration|T5EncoderModel)$"
)
_EXPORT = (
    "export it to ONNX with `optimum-cli export onnx --model MODEL FOLDER`, then give "
    "FOLDER/model.onnx"
)
_ONE_RUN = "`berth predict config.json --dim sequence=128` predicts one run; or "


def family_of(raw: Mapping[str, Any]) -> str:
    """Return the model type of a configuration in lower case; empty: it names none."""
    return str(raw.get("model_type") or "").lower()


def is_of_texts(raw: Mapping[str, Any]) -> bool:
    named = f"{family_of(raw)} {' '.join(raw)}"
    return not re.search("clip|vi[ts]|image|audio|speech|whisper|wav|sam|siglip|detr|swin", named)


def is_encoder(raw: Mapping[str, Any]) -> bool:
    """Return whether a configuration is of an encoder or encoder-decoder model, for which only one
    run of the graph can be predicted."""
    family = family_of(raw)
    if family in OTHER_ENCODERS or family in table()["encoders"]:
        return True
    if any(family.startswith(f"{e}-") for e in ("bert", "roberta", "t5", "clip", "vit")):
        return True
    if bool(raw.get("is_encoder_decoder")):
        return True
    classes = raw.get("architectures")
    named = [str(c) for c in classes] if isinstance(classes, list) else []
    return bool(named) and all(_ENCODING_CLASS.search(c) for c in named)


def refuse_what_is_no_decoder(raw: Mapping[str, Any], source: Path | str) -> None:
    """Raise DocumentError for a JSON object that is the configuration of no decoder, saying what it
    is."""
    problem = other_file(raw)
    if problem is not None:
        raise DocumentError(source, problem[0], hint=problem[1])
    refuse_nameless(raw, source)
    family = family_of(raw)
    draft = _draft_in(raw)
    if draft:
        raise DocumentError(
            source,
            f"is of {draft[:60]!r}, which proposes tokens to another model and serves none alone",
            hint="give the config.json of the model that it assists",
        )
    if is_encoder(raw):
        classes = raw.get("architectures")
        first = classes[0] if isinstance(classes, list) and classes else None
        named = f" ({str(first)[:60]})" if first and str(first).lower() != family else ""
        raise DocumentError(
            source,
            f"is of an encoder, {family[:60]!r}{named}, not a decoder; only decoders serve tokens",
            hint=_ONE_RUN + _EXPORT if is_of_texts(raw) else _EXPORT,
        )


def _draft_in(raw: Mapping[str, Any]) -> str:
    """Return the name by which a configuration says that it is of a draft model or a head that
    proposes tokens (Eagle, Medusa, MTP); empty: it does not.

    A class with more than ``ForCausalLM`` at its end has other matrices than the family's own. The
    first Eagle heads name their family's class: they are one wide layer.
    """
    classes = raw.get("architectures")
    named = [str(c) for c in classes] if isinstance(classes, list) else []
    family = family_of(raw)
    if family.endswith("_assistant") or _DRAFT.search(family):
        return family
    altered = (c for c in named if "ForCausalLM" in c and not c.endswith("ForCausalLM"))
    of_class = next((c for c in named if _DRAFT.search(c)), "") or next(altered, "")
    width = raw.get("hidden_size")
    if str(raw.get("num_hidden_layers")) == "1" and isinstance(width, int) and width >= _WIDE:
        return f"{family} of one layer"
    return of_class or next((key for key in raw if _DRAFT_KEY.match(key)), "")


_WIDE = 1024
"""Width that no language model of a single layer has."""


_DRAFT = re.compile(
    r"eagle|Eagle|EAGLE|[Mm]edusa|[Hh]ydra(?=$|For|Model|_)|[Dd]raft|[Ss]peculator|DFlash|dflash"
    r"|(?<!num_)(?<![a-z])mtp(_model)?$|MTP(Model|For|$)|NextN(For|Model|$)"
)
"""Part of the name of a class or family that only models that propose tokens have."""
_DRAFT_KEY = re.compile(r"draft_|eagle_|medusa_|speculators_|dflash_")


def refuse_nameless(raw: Mapping[str, Any], source: Path | str) -> None:
    """Raise DocumentError for a configuration that names no model."""
    if not family_of(raw) and not raw.get("architectures"):
        raise DocumentError(
            source,
            "has neither model_type nor architectures",
            hint="give the config.json of a Hugging Face model",
        )


_BESIDE = "give the config.json beside it"
_OTHER_FILES: tuple[tuple[tuple[set[str], ...], str, str], ...] = (
    (({"peft_type"}, {"lora_alpha", "r"}),
     "is the {peft_type} adapter of {base_model_name_or_path}, not a model",
     "give the config.json of the base model; an adapter adds less than 1 % to it"),
    (({"_diffusers_version"}, {"_class_name"}),
     "is of a diffusers pipeline ({_class_name}), which makes pictures and serves no tokens",
     "export its network to ONNX (`optimum-cli export onnx`) and give unet/model.onnx "
     "or transformer/model.onnx"),
    (({"model_type"}, {"architectures"}), "", ""),
    (({"weight_map"},), "is the index of a model's weight files, not its configuration", _BESIDE),
    (({"dim", "n_layers"}, {"dim", "n_heads"}),
     "is a params.json of the original release of Llama or Mistral, not a config.json",
     "give the config.json of the model in the Hugging Face format"),
    (({"quantization", "producer"},),
     "says how a model's weights are quantised, not what the model is",
     "give the config.json beside it; Berth reads this file, too"),
    (({"tokenizer_class"}, {"added_tokens_decoder"}, {"added_tokens"}),
     "is of a tokenizer, not of a model", _BESIDE),
    (({"processor_class"}, {"image_processor_type"}, {"feature_extractor_type"}),
     "is of a preprocessor, not of a model", _BESIDE),
    (({"transformers_version", "eos_token_id"}, {"transformers_version", "bos_token_id"}),
     "holds settings of generation, not a model", _BESIDE),
)  # fmt: skip
"""Files beside a model's weights: keys that show one, what it is, what to give."""


def other_file(raw: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return what a JSON object beside a model's weights is, and what to give instead; None: it may
    be a configuration."""
    for ways, problem, hint in _OTHER_FILES:
        if any(raw.keys() >= keys for keys in ways):
            shown = {key: str(value)[:100] for key, value in raw.items() if value}
            return (
                (problem.format_map(defaultdict(lambda: "a model", shown)), hint) if hint else None
            )
    return None
