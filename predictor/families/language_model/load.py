"""How a language model is to be served: batch, lengths, parallelism and bits."""

from __future__ import annotations

from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.predictor.families.language_model.config import LanguageModel

QUANTISED = {"fp16": 16.0, "bf16": 16.0, "fp32": 32.0, "fp8": 8.0, "int8": 8.0, "fp4": 4.0,
             "int4": 4.0}  # fmt: skip
_MOST = 10_000_000


@dataclass(frozen=True, slots=True)
class Load:
    """One way to serve. Raises UsageError where it makes no sense."""

    batch: int
    """Sequences at a time, over all data-parallel replicas."""
    input_tokens: int
    output_tokens: int
    weight_bits: float = 16.0
    kv_bits: float = 16.0
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    """Replicas of the attention layers; each has its part of the batch."""
    expert_parallel: int = 1
    """Into how many groups the experts are dealt, among the same GPUs."""

    def __post_init__(self) -> None:
        counts = {
            "batch": self.batch, "input tokens": self.input_tokens,
            "output tokens": self.output_tokens, "tensor parallel": self.tensor_parallel,
            "pipeline parallel": self.pipeline_parallel, "data parallel": self.data_parallel,
            "expert parallel": self.expert_parallel,
        }  # fmt: skip
        for name, value in counts.items():
            if type(value) is not int or not 1 <= value <= _MOST:
                raise UsageError(f"{name} must be from 1 to {_MOST} (it is {value})")
        for name, bits in (("weights", self.weight_bits), ("cache", self.kv_bits)):
            if not 1 <= bits <= 64:
                raise UsageError(f"{name} of {bits:g} bits are not known")

    @property
    def gpus(self) -> int:
        """All that it takes."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def context(self) -> float:
        """Mean tokens that a step of decoding looks back on."""
        return self.input_tokens + self.output_tokens / 2

    def check(self, model: LanguageModel) -> None:
        """Raises UsageError where the model cannot be served so."""
        if self.pipeline_parallel > model.layers:
            raise UsageError(f"{self.pipeline_parallel} stages are more than {model.layers} layers")
        if self.expert_parallel > model.experts:
            raise UsageError(f"{self.expert_parallel} groups are more than {model.experts} experts")
        if self.expert_parallel > self.gpus:
            raise UsageError(f"{self.expert_parallel} groups of experts on {self.gpus} GPUs")
