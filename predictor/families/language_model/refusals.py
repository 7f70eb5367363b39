"""Name a configuration that is not a decoder's for what it is, with what Berth wants instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError

ENCODERS = frozenset({
    "albert", "bert", "bert-generation", "big_bird", "bigbird", "bigbird_pegasus", "bart",
    "blenderbot", "blenderbot-small", "camembert", "canine", "convbert", "data2vec-text", "deberta",
    "deberta-v2", "distilbert", "electra", "ernie", "ernie_m", "esm", "eurobert", "flaubert",
    "fnet", "fsmt", "funnel", "gte", "ibert", "layoutlm", "layoutlmv2", "layoutlmv3", "led",
    "longformer", "longt5", "luke", "m2m_100", "marian", "markuplm", "mbart", "mega",
    "megatron-bert", "mobilebert", "modernbert", "mpnet", "mra", "mt5", "mvp", "nezha", "new",
    "nllb-moe", "nomic_bert", "jina_bert", "nystromformer", "pegasus", "pegasus_x", "perceiver",
    "plbart", "prophetnet", "qdqbert", "rembert", "roberta", "roberta-prelayernorm", "roc_bert",
    "roformer", "splinter", "squeezebert", "switch_transformers", "t5", "t5gemma", "tapas", "udop",
    "umt5", "visual_bert", "xlm", "xlm-roberta", "xlm-roberta-xl", "xlnet", "xmod", "yoso",
    "reformer", "neobert", "ultrabert", "lxmert", "xlm-prophetnet", "cpmant",
})  # fmt: skip
"""Families that read a whole text at once, or translate one into another."""
SEEING = frozenset({
    "align", "altclip", "beit", "blip", "blip-2", "chinese_clip", "clap", "clip", "clip_text_model",
    "clip_vision_model", "clipseg", "convnext", "convnextv2", "cvt", "data2vec-vision", "deit",
    "depth_anything", "detr", "dinov2", "dinov3_vit", "dpt", "efficientnet", "flava",
    "grounding-dino", "hubert", "imagegpt", "jina_clip", "levit", "mask2former", "mobilevit",
    "open_clip", "owlvit", "owlv2", "resnet", "sam", "sam2", "seamless_m4t", "segformer", "siglip",
    "siglip2", "siglip_vision_model", "speech_to_text", "swin", "swinv2", "trocr", "vilt", "vit",
    "vit_mae", "vits", "wav2vec2", "wavlm", "whisper", "xclip", "yolos", "musicgen",
    "musicgen_melody", "git", "encodec", "vision-encoder-decoder", "encoder-decoder", "colpali",
    "speech-encoder-decoder", "timm_wrapper", "moonshine", "bark", "kosmos-2", "donut-swin",
})  # fmt: skip
"""Families of pictures, sound, or both with texts, that do not chat."""
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


def is_encoder(raw: Mapping[str, Any]) -> bool:
    """Return whether a configuration is of an encoder or encoder-decoder model, for which only one
    run of the graph can be predicted."""
    family = family_of(raw)
    if family in ENCODERS or family in SEEING:
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
    family = family_of(raw)
    if not family and not raw.get("architectures"):
        raise DocumentError(
            source,
            "has neither model_type nor architectures",
            hint="give the config.json of a Hugging Face model",
        )
    if is_encoder(raw):
        classes = raw.get("architectures")
        first = classes[0] if isinstance(classes, list) and classes else None
        named = f" ({str(first)[:60]})" if first and str(first).lower() != family else ""
        raise DocumentError(
            source,
            f"is of an encoder, {family[:60]!r}{named}, not a decoder; only decoders serve tokens",
            hint=_EXPORT if family in SEEING else _ONE_RUN + _EXPORT,
        )


def other_file(raw: Mapping[str, Any]) -> tuple[str, str] | None:  # noqa: PLR0911
    """Return what a JSON object beside a model's weights is, and what to give instead; None: it may
    be a configuration."""
    if "peft_type" in raw or ("lora_alpha" in raw and "r" in raw):
        base = str(raw.get("base_model_name_or_path") or "its base model")[:100]
        kind = str(raw.get("peft_type") or "LoRA")[:40]
        return (
            f"is the {kind} adapter of {base}, not a model",
            "give the config.json of the base model; an adapter adds less than 1 % to it",
        )
    if "_diffusers_version" in raw or "_class_name" in raw:
        name = str(raw.get("_class_name") or "a part")[:60]
        return (
            f"is of a diffusers pipeline ({name}), which makes pictures and serves no tokens",
            "export its network to ONNX (`optimum-cli export onnx`) and give unet/model.onnx "
            "or transformer/model.onnx",
        )
    if "model_type" in raw or "architectures" in raw:
        return None
    if "weight_map" in raw:
        return (
            "is the index of a model's weight files, not its configuration",
            "give the config.json beside it",
        )
    if {"dim", "n_layers"} <= raw.keys() or {"dim", "n_heads"} <= raw.keys():
        return (
            "is a params.json of the original release of Llama or Mistral, not a config.json",
            "give the config.json of the model in the Hugging Face format",
        )
    if "quantization" in raw and "producer" in raw:
        return (
            "says how a model's weights are quantised, not what the model is",
            "give the config.json beside it; Berth reads this file, too",
        )
    if "tokenizer_class" in raw or "added_tokens_decoder" in raw or "added_tokens" in raw:
        return "is of a tokenizer, not of a model", "give the config.json beside it"
    if "processor_class" in raw or "image_processor_type" in raw or "feature_extractor_type" in raw:
        return "is of a preprocessor, not of a model", "give the config.json beside it"
    if "transformers_version" in raw and any(k.endswith("token_id") for k in raw):
        return (
            "holds settings of generation, not a model",
            "give the config.json beside it",
        )
    return None
