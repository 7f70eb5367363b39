"""Define how a language model is served (batch, lengths, parallelism, bits), and count its memory.

The memory of one GPU (weights, KV cache, activations) is counted, not learnt: no public data set
has the peak memory of served language models. Its interval is a rule (``SLACK``,
``RUNTIME_BYTES``) and is marked unverified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.predictor.core.prediction import Interval
from berth.predictor.families.language_model.config import LanguageModel

QUANTISED = {"fp16": 16.0, "bf16": 16.0, "fp32": 32.0, "fp8": 8.0, "int8": 8.0, "fp4": 4.0,
             "int4": 4.0}  # fmt: skip
NOMINAL_BITS = (2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)
_MOST = 10_000_000
MOST_SEQUENCES = {"vllm": 1024, "trtllm": 2048, "tensorrt-llm": 2048, "sglang": 2048}
"""Number of sequences that a framework serves at the same time at most, by its defaults
(``max_num_seqs`` of vLLM on data-centre GPUs, ``max_batch_size`` of TensorRT-LLM,
``max_running_requests`` of SGLang)."""
USABLE_SHARE = 0.95
CHUNK_TOKENS = 8192
"""Number of prompt tokens that a framework processes at the same time (vLLM's default of
``max_num_batched_tokens``): longer prompts are cut into chunks."""


@dataclass(frozen=True, slots=True)
class LlmLoad:
    """Load and parallelism with which a language model is served. Raises UsageError for impossible
    values."""

    batch: int
    """Number of sequences served at the same time, over all data-parallel replicas."""
    input_tokens: int
    output_tokens: int
    weight_bits: float = 16.0
    kv_bits: float = 16.0
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    """Number of replicas of the attention layers; each serves an equal part of the batch."""
    expert_parallel: int = 1
    """Number of groups into which the experts are split, over the same GPUs."""
    compute_bits: float | None = None
    """Bits of the operands of matrix products that the checkpoint asks for; None: those of the
    weights."""
    weight_format: str = ""
    """Method of quantisation (``mxfp4``), by which accelerators and servers choose their products
    (``weights.product_bits``)."""
    most_sequences: int | None = None
    """Number of sequences that one replica serves at the same time at most; None: the framework's
    default."""
    memory_share: float = USABLE_SHARE
    """Share of the GPU's memory that the framework may use."""
    prefix_hit_rate: float = 0.0
    """Share of the prompts' tokens whose K and V are cached from earlier requests."""
    chunk_tokens: int = CHUNK_TOKENS

    def __post_init__(self) -> None:
        counts = {
            "batch": self.batch, "input tokens": self.input_tokens,
            "output tokens": self.output_tokens, "tensor parallel": self.tensor_parallel,
            "pipeline parallel": self.pipeline_parallel, "data parallel": self.data_parallel,
            "expert parallel": self.expert_parallel, "most sequences": self.most_sequences or 1,
            "tokens of a chunk": self.chunk_tokens,
        }  # fmt: skip
        for name, value in counts.items():
            if type(value) is not int or not 1 <= value <= _MOST:
                raise UsageError(f"{name} must be from 1 to {_MOST} (it is {value})")
        for name, bits in (("weights", self.weight_bits), ("cache", self.kv_bits)):
            if not 1 <= bits <= 64:
                raise UsageError(f"{name} of {bits:g} bits are not known")
        if not 0 < self.memory_share <= 1 or not 0 <= self.prefix_hit_rate < 1:
            raise UsageError(
                f"a share of memory of {self.memory_share:g} or a prefix hit rate of "
                f"{self.prefix_hit_rate:g} is not from 0 to 1"
            )

    @property
    def gpus(self) -> int:
        """Return the number of GPUs that the load uses."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def nominal_bits(self) -> float:
        """Return the weights' bits without scales and unquantised modules: 4.6 are 4."""
        return min(NOMINAL_BITS, key=lambda bits: abs(math.log(self.weight_bits / bits)))

    @property
    def context(self) -> float:
        """Return the mean number of tokens in a sequence's cache over the decoding steps."""
        return self.input_tokens + self.output_tokens / 2

    @property
    def computed_tokens(self) -> float:
        """Return the number of tokens of a prompt that are computed: those not cached before."""
        return max(1.0, self.input_tokens * (1 - self.prefix_hit_rate))

    def at_once(self, model: LanguageModel, memory_bytes: float) -> float:
        """Return the mean number of sequences that one replica serves at the same time, on GPUs of
        ``memory_bytes``; the others wait."""
        # The memory that a real server reserves about equals the uncounted memory: add no slack.
        fits = memory(model, self).resident(memory_bytes)
        # A sequence's cache grows while it is served: on average it is not yet full.
        fits *= (self.input_tokens + self.output_tokens) / self.context
        each = self.batch / self.data_parallel
        return max(1.0, min(each, fits, self.most_sequences or each))

    def check(self, model: LanguageModel, framework: str = "") -> None:
        """Raise UsageError if the model cannot be served with this parallelism."""
        if self.pipeline_parallel > model.layers:
            raise UsageError(f"{self.pipeline_parallel} stages are more than {model.layers} layers")
        if self.expert_parallel > model.experts:
            raise UsageError(f"{self.expert_parallel} groups are more than {model.experts} experts")
        if self.expert_parallel > self.gpus:
            raise UsageError(f"{self.expert_parallel} groups of experts on {self.gpus} GPUs")
        if framework in MOST_SEQUENCES and model.heads % self.tensor_parallel:
            raise UsageError(
                f"{framework} cannot split {model.heads} heads over {self.tensor_parallel} "
                "tensor-parallel GPUs",
                hint="tensor=N must divide the model's number of attention heads",
            )


RUNTIME_BYTES = 1.0e9
"""Bytes of CUDA context, code and communication buffers of a framework on one GPU: an
assumption."""
SLACK = 0.1
"""Share of memory above the counted bytes, for fragmentation, padding, norms and workspace: an
assumption."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of memory on the GPU that holds most."""

    weights: float
    cache: float
    """KV cache of one replica's part of the batch with all sequences at full length."""
    cache_of_one: float
    activations: float
    share: float
    """Share of the GPU's memory that the framework may use."""

    @property
    def peak(self) -> Interval:
        """Return the bytes of memory with the whole batch resident at full length."""
        low = self.weights + self.cache
        mid = low + self.activations + RUNTIME_BYTES
        return Interval(low, mid, mid * (1 + SLACK))

    @property
    def least(self) -> float:
        """Return the upper bound of the bytes with one resident sequence: the least memory to run
        at all."""
        need = self.weights + self.cache_of_one + self.activations + RUNTIME_BYTES
        return need * (1 + SLACK)

    def fits(self, memory_bytes: float) -> bool:
        """Return whether one sequence is certain to fit on a GPU of ``memory_bytes``."""
        return self.least <= memory_bytes * self.gets

    @property
    def gets(self) -> float:
        """Return the share of a GPU's memory that the least memory must fit in."""
        return min(1.0, self.share / USABLE_SHARE)

    def resident(self, memory_bytes: float) -> float:
        """Return the number of sequences of one replica whose KV cache fits in ``memory_bytes`` at
        the same time (at least 1)."""
        room = memory_bytes * self.share - self.weights - self.activations - RUNTIME_BYTES
        return max(room / self.cache_of_one, 1.0) if self.cache_of_one else 1e9


def memory(model: LanguageModel, load: LlmLoad) -> Memory:
    """Return the bytes of weights, KV cache and activations on one GPU for a model under a load."""
    shards = load.tensor_parallel * load.pipeline_parallel
    ends = model.end_parameters / load.tensor_parallel
    sharded = (model.attention_parameters + model.dense_parameters) / shards
    sharded += model.expert_parameters / max(shards, load.expert_parallel * load.pipeline_parallel)
    weights = (sharded * load.weight_bits + ends * max(load.weight_bits, model.end_bits)) / 8
    # Heads are split over GPUs; MLA's latent and a single head are copied to each GPU.
    heads = 1.0 if model.latent_attention else min(model.kv_heads, load.tensor_parallel)
    tokens = load.input_tokens + load.output_tokens
    cache_of_one = (
        model.cached_values(tokens) * load.kv_bits / 8 / max(heads, 1.0) / load.pipeline_parallel
    )
    each = -(-load.batch // load.data_parallel)
    each = min(each, load.most_sequences or each)
    at_once = min(each * load.input_tokens, load.chunk_tokens)
    width = 4 * model.hidden_size + (
        2 * model.feed_forward_size * model.experts_per_token
        + 2 * model.heads * model.head_dim
    ) / load.tensor_parallel  # fmt: skip
    logits = each * model.vocabulary * 4 / load.tensor_parallel
    activations = at_once * width * 2 + logits
    return Memory(weights, cache_of_one * each, cache_of_one, activations, load.memory_share)
