"""Define the workload of a served language model: configuration, load, and number of requests of a
job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.profile import Name, RunsOn, Target
from berth.predictor.core.forecast import WorkUnit
from berth.predictor.core.workload import Amount, Workload, WorkloadKind, digest_of
from berth.predictor.families.graph.workload import plain_name
from berth.predictor.families.language_model.config import from_mapping, with_count
from berth.predictor.families.language_model.load import CHUNK_TOKENS, USABLE_SHARE
from berth.predictor.families.language_model.model_files import read_model_config

LANGUAGE_MODEL_WORKLOAD_SCHEMA = "berth.language-model-workload/1"
_COUNT = Field(default=1, ge=1, le=10_000_000)


class LanguageModelWorkload(Document):
    """Workload of a decoder language model that serves equal requests at constant concurrency."""

    schema_: str = Field(default=LANGUAGE_MODEL_WORKLOAD_SCHEMA, alias="schema")
    name: Name
    config: dict[str, Any] = Field(min_length=1, max_length=10_000)
    """Contents of the model's Hugging Face ``config.json``."""
    framework: str = Field(default="vllm", min_length=1, max_length=64)
    concurrency: int = _COUNT
    """Number of sequences served at the same time."""
    input_tokens: int = Field(default=1024, ge=1, le=10_000_000)
    output_tokens: int = Field(default=128, ge=1, le=10_000_000)
    weight_bits: float | None = Field(default=None, ge=1, le=64)
    """Bits per weight; None: as in the checkpoint."""
    kv_bits: float = Field(default=16.0, ge=1, le=64)
    tensor_parallel: int = _COUNT
    pipeline_parallel: int = _COUNT
    data_parallel: int = _COUNT
    expert_parallel: int = _COUNT
    most_sequences: int | None = Field(default=None, ge=1, le=10_000_000)
    """Number of sequences that one replica serves at the same time at most (vLLM:
    ``max_num_seqs``); None: the framework's default."""
    memory_share: float = Field(default=USABLE_SHARE, gt=0, le=1)
    """Share of the GPU's memory that the framework may use (vLLM: ``gpu_memory_utilization``)."""
    prefix_hit_rate: float = Field(default=0.0, ge=0, lt=1)
    """Share of the prompts' tokens whose K and V are cached from earlier requests."""
    chunk_tokens: int = Field(default=CHUNK_TOKENS, ge=1, le=10_000_000)
    """Number of prompt tokens that the framework processes at the same time (vLLM:
    ``max_num_batched_tokens``)."""
    amount: Amount = Amount(unit=WorkUnit.REQUEST)
    runs_on: RunsOn = RunsOn(targets=(Target.CUDA,))

    @property
    def gpus(self) -> int:
        """Return the number of GPUs that the model is served on."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel


def describe(document: LanguageModelWorkload) -> Workload:
    """Return the workload of a document; one unit of its predictions is a request, with its share
    of the server's time at full load."""
    runs_on = document.runs_on
    if runs_on.gpus == 0:
        runs_on = runs_on.model_copy(update={"gpus": document.gpus})
    return Workload(
        "language-model", document.name, digest_of(document), runs_on, document.amount, document
    )


KIND = WorkloadKind("language-model", LanguageModelWorkload, describe)


def language_model_workload(path: Path, **load: Any) -> LanguageModelWorkload:
    """Return the workload of a decoder's ``config.json``; ``load``: other fields of the workload.

    Raises DocumentError for a file that is not the configuration of a decoder.
    """
    raw = with_count(read_model_config(path), path)
    from_mapping(raw, source=path, name=path.name)
    load_fields = {key: value for key, value in load.items() if value is not None}
    return LanguageModelWorkload(**{"name": plain_name(path), "config": raw, **load_fields})
