"""Makes workloads for transformers that are described only by their size, before a model file
exists."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.plugin.workloads.files import WorkloadOptions, with_options
from berth.predictor.core.workload import Workload, workload_of
from berth.predictor.families.graph.model import model_workload
from berth.predictor.families.graph.workload import RunMode
from berth.predictor.families.language_model.workload import LanguageModelWorkload
from berth.predictor.graphs.front_ends.transformer import transformer

SEQUENCE = 1024
"""Default sequence length in tokens."""
PURPOSES = ("serve", "inference", "training")
_HEAD = 64
_ASPECT = 128.0
"""Width over number of layers, typical of decoders."""
_PER_LAYER = 12
"""Parameters of a layer over width squared: attention 4, feed-forward 8."""
_VOCABULARY = 32_000
_MOST_LAYERS, _MOST_WIDTH, _MOST_SEQUENCE = 512, 65_536, 131_072


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """A decoder's number of layers and width (hidden size)."""

    layers: int
    width: int

    @classmethod
    def of(cls, billions: float | None, layers: int | None, width: int | None) -> DecoderShape:
        """Return a shape derived from the number of parameters (billions), layers or width,
        whichever are given.

        Raises UsageError for a shape that is out of bounds.
        """
        if billions is not None:
            whole = billions * 1e9
            if width is None:
                guess = (whole * _ASPECT / _PER_LAYER) ** (1 / 3)
                if layers is not None:
                    guess = (whole / (_PER_LAYER * layers)) ** 0.5
                width = max(_HEAD, round(guess / _HEAD) * _HEAD)
            if layers is None:
                inner = max(whole - 2 * _VOCABULARY * width, 0.5 * whole)
                layers = max(1, round(inner / (_PER_LAYER * width**2)))
        if layers is None or width is None:
            raise UsageError("a model's size is its parameters, or layers and width")
        if not (1 <= layers <= _MOST_LAYERS and _HEAD <= width <= _MOST_WIDTH):
            raise UsageError(
                f"{layers} layers of width {width} are out of bounds",
                hint=f"1 to {_MOST_LAYERS} layers, width {_HEAD} to {_MOST_WIDTH}",
            )
        return cls(layers, -(-width // _HEAD) * _HEAD)

    @property
    def parameters(self) -> float:
        """Return the number of parameters of the weight matrices."""
        return _PER_LAYER * self.layers * float(self.width) ** 2 + 2.0 * _VOCABULARY * self.width

    @property
    def heads(self) -> int:
        """Return the number of attention heads."""
        return self.width // _HEAD

    @property
    def name(self) -> str:
        """Return the name of the workload made from this shape."""
        return f"transformer-{self.parameters / 1e9:.3g}b"


def described(
    shape: DecoderShape, purpose: str, *, sequence: int | None, options: WorkloadOptions
) -> Workload:
    """Return the workload for a purpose: a served language model, one inference run, or a training
    step.

    Raises UsageError for an unknown purpose, or an invalid sequence length or option.
    """
    if purpose not in PURPOSES:
        raise UsageError(f"{purpose!r} is none of {', '.join(PURPOSES)}")
    tokens = SEQUENCE if sequence is None else sequence
    if tokens > _MOST_SEQUENCE:
        raise UsageError(f"a sequence has at most {_MOST_SEQUENCE} tokens")
    if purpose == "serve":
        if sequence is not None and options.input_tokens is None:
            options = replace(options, input_tokens=sequence)
        service = LanguageModelWorkload(name=shape.name, config=_config(shape))
        return with_options(workload_of(service), options)
    data = transformer(
        layers=shape.layers, width=shape.width, heads=shape.heads, vocabulary=_VOCABULARY,
        sequence=tokens,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="berth-described-") as folder:
        path = Path(folder, f"{shape.name}.onnx")
        path.write_bytes(data)
        graph = model_workload(
            path, name=shape.name, mode=RunMode(purpose), batch=options.batch,
            precision=options.precision,
        )  # fmt: skip
    other_options = replace(options, batch=None, precision=None)
    return with_options(workload_of(graph), other_options)


def _config(shape: DecoderShape) -> dict[str, object]:
    """Return the Hugging Face configuration of a decoder of this shape."""
    return {
        "model_type": "gpt_neox",
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": 4 * shape.width,
        "vocab_size": _VOCABULARY,
        "max_position_embeddings": _MOST_SEQUENCE,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
