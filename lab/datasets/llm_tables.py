"""Measured serving of language models in 2025 and 2026: TensorRT-LLM's tables and InferenceX.

* TensorRT-LLM's performance overviews: output tokens a second of requests that were given all at
  once, by version. The overview of 0.17 gives no number of requests in its tables; it is read as
  that of the same lengths in 1.0, which the overviews have in common.
* InferenceX: median TTFT and TPOT of DeepSeek-R1 under a closed load, by accelerator, framework
  and date. Its GPUs are the tensor-parallel ones (the attention's replicas and the groups of
  experts are on the same GPUs), as tokens a second and latencies together say. Left out:
  disaggregated servers and speculative decoding. Of several measurements of one configuration the
  newest counts: between versions first tokens differ up to 29 times.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache

from lab.datasets import DataSet, locate
from lab.datasets.llm import newest

TABLES = DataSet(
    path="llm/tensorrt_llm_tables.csv",
    title="TensorRT-LLM's performance overviews 0.17, 1.0 and 1.2",
    source="TensorRT-LLM's documentation (https://github.com/NVIDIA/TensorRT-LLM)",
    licence="Apache-2.0",
    sha256="5c2d4241a3e87c7941217fd7cd3f987456d48440420cb9f1c66d2d01569df1d5",
)
INFERENCEX = DataSet(
    path="llm/inferencex.parquet",
    title="InferenceX, TTFT and TPOT of DeepSeek-R1 on six accelerators in 2025 and 2026",
    source="SemiAnalysis InferenceX (https://github.com/SemiAnalysisAI/InferenceX)",
    licence="Apache-2.0",
    sha256="411043eba63c5278f56e809bb2368a64dd27675a23d79cdd26bd3be6181fec7f",
)
_MODELS = {
    "Llama-3.1-70B": "meta-llama/Llama-3.1-70B",
    "Llama-3.3-70B": "meta-llama/Llama-3.1-70B",
    "Llama-3.1-8B": "meta-llama/Llama-3.1-8B-Instruct",
    "Llama-3.1-405B": "meta-llama/Llama-3.1-405B",
    "Qwen3-235B-A22B": "Qwen/Qwen3-235B-A22B-FP8",
    "Mistral-7B": "mistralai/Mistral-7B-v0.3",
    "Mixtral-8x7B": "mistralai/Mixtral-8x7B-v0.1",
    "Llama-4-Scout": "meta-llama/Llama-4-Scout-17B-16E",
    "Llama-4-Maverick": "meta-llama/Llama-4-Maverick-17B-128E",
    "DeepSeek-R1": "deepseek-ai/DeepSeek-R1",
}
_ACCELERATORS = {
    "a100": "a100-sxm-80gb", "l40s": "l40s-48gb", "h100": "h100-sxm-80gb", "gh200": "gh200-96gb",
    "h200": "h200-sxm-141gb", "b200": "b200-sxm-180gb", "b300": "b300-sxm-288gb",
    "pro6000": "rtx-pro-6000-server-96gb", "mi300x": "mi300x-192gb", "mi325x": "mi325x-256gb",
}  # fmt: skip
_FRAMEWORKS = {"trt": "trtllm", "sglang": "sglang", "vllm": "vllm"}


@dataclass(frozen=True, slots=True)
class TableRow:
    """TensorRT-LLM's tables: requests that were given all at once."""

    version: str
    model: str
    """The model's name, as ``lab/llm/data/configs.json`` has it."""
    accelerator: str
    """The accelerator's name, as the catalogue of devices has it."""
    precision: str
    input_tokens: int
    output_tokens: int
    requests: int
    tensor: int
    pipeline: int
    data: int
    expert: int
    tokens_per_s: float
    """Output tokens a second of all GPUs together."""

    @property
    def seconds(self) -> float:
        """Return the time of all requests."""
        return self.requests * self.output_tokens / self.tokens_per_s


@dataclass(frozen=True, slots=True)
class ClosedRow:
    """InferenceX: one server under a closed load."""

    accelerator: str
    framework: str
    version: str
    """The version that the container image's name has; empty where it is not published."""
    date: str
    precision: str
    input_tokens: int
    output_tokens: int
    concurrency: int
    tensor: int
    data: int
    expert: int
    ttft_s: float
    tpot_s: float
    model: str = "deepseek-ai/DeepSeek-R1"


@cache
def table_rows() -> tuple[TableRow, ...]:
    """TensorRT-LLM's tables in the file's order. Raises ToolMissing or DocumentError."""
    with locate(TABLES).open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    lengths = {
        (r["input_tokens"], r["output_tokens"]): r["requests"] for r in rows if r["requests"]
    }
    return tuple(
        TableRow(
            version=row["version"],
            model=_MODELS[row["model"]],
            accelerator=_ACCELERATORS[row["accelerator"]],
            precision=row["precision"].lower(),
            input_tokens=int(row["input_tokens"]),
            output_tokens=int(row["output_tokens"]),
            requests=int(float(lengths[row["input_tokens"], row["output_tokens"]])),
            tensor=int(row["tp"]),
            pipeline=int(row["pp"]),
            data=int(row["dp"]),
            expert=int(row["ep"]),
            tokens_per_s=float(row["output_tokens_per_s"]),
        )
        for row in rows
    )


@cache
def closed_rows() -> tuple[ClosedRow, ...]:
    """InferenceX's newest measurements. Needs pyarrow (the ``train`` extra)."""
    import pyarrow.parquet  # noqa: PLC0415

    rows = []
    for row in pyarrow.parquet.read_table(locate(INFERENCEX)).to_pylist():
        if row["disagg"] or row["spec_method"] != "none":
            continue
        gpus = int(row["decode_tp"])
        replicas = gpus if row["decode_dp_attention"] else 1
        version = re.search(r":v?(\d+\.\d+[\w.]*)", row["image"] or "")
        rows.append(ClosedRow(
            accelerator=_ACCELERATORS[row["hardware"]],
            framework=_FRAMEWORKS[row["framework"]],
            version=version[1] if version else "",
            date=row["date"],
            precision=row["precision"],
            input_tokens=int(row["input_tokens"]),
            output_tokens=int(row["output_tokens"]),
            concurrency=int(row["concurrency"]),
            tensor=gpus // replicas,
            data=replicas,
            expert=int(row["decode_ep"]),
            ttft_s=row["median_ttft_s"],
            tpot_s=row["median_tpot_s"],
        ))  # fmt: skip
    return newest(rows)
