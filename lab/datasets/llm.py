"""Measured serving of language models: LLM-Inference-Bench and NVIDIA's aiconfigurator.

* LLM-Inference-Bench: latency of a batch of equal requests (input = output = length), 16-bit, by
  accelerator, count, framework and model. Tokens a second are ``2 x length x batch / latency``
  everywhere: the published throughput of llama.cpp is of one sequence. "Intel PVC GPU" and "Intel
  Max 1550" are the same part, measured up to ten times apart: two places.
* aiconfigurator's silicon measurements: TTFT and TPOT of servers under a closed load. Where the
  published parallelism is a square beyond a node (``moe_tp = moe_ep = g`` and ``g x g`` = 16 or 64
  GPUs), the same measurement often stands there a second time with ``g`` GPUs: it is read as
  ``g``; equal measurements of one configuration count once, and of several measurements the newest
  (first tokens of one configuration differ up to 40 times between versions). Batch is here over
  all replicas. Rows without a precision are 16-bit: a step of them takes what reading 16-bit
  weights takes. GB200 is left out: its rows are of several servers, or contradict each other (8 and
  42 ms a token).

Model configurations are in ``training/llm/data/configs.json``: the numbers of each model's public
``config.json``. DeciLM-7B's 67 KV heads are the published sum.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from berth.predictor.families.language_model.framework import release
from lab.datasets import DataSet, locate

BENCH = DataSet(
    path="llm/llm_inference_bench.csv",
    title="LLM-Inference-Bench, offline latency of language models on eight accelerators",
    source="LLM-Inference-Bench (https://github.com/argonne-lcf/LLM-Inference-Bench)",
    licence="BSD-3-Clause",
    sha256="1c85f61a6fc7285d98a79554e0fc58bb7a0cffc9c4ab642a3ac04601833af6a0",
)
SERVING = DataSet(
    path="llm/serving_silicon.parquet",
    title="TTFT and TPOT of language-model servers on four NVIDIA systems",
    source="NVIDIA aiconfigurator (https://github.com/ai-dynamo/aiconfigurator)",
    licence="Apache-2.0",
    sha256="faea14cc5d3c48f9de8b4037c15e8e3988a9f68a2c6d487998b2d584625fc3ae",
)
_NODE = 8
"""GPUs of a node of the systems that square counts stand at."""
BITS = {"bf16": 16.0, "fp16": 16.0, "fp8": 8.0, "fp4": 4.0, "int4": 4.0}


@dataclass(frozen=True, slots=True)
class BenchRow:
    """LLM-Inference-Bench: one batch."""

    hardware: str
    gpus: int
    framework: str
    model: str
    length: int
    batch: int
    latency_s: float


@dataclass(frozen=True, slots=True)
class ServingRow:
    """aiconfigurator: one server under one load."""

    system: str
    framework: str
    model: str
    precision: str
    input_tokens: int
    output_tokens: int
    batch: int
    tensor: int
    data: int
    expert: int
    version: str
    """The framework's version; empty where it is not published."""
    date: str
    """Day of the measurement; empty where it is not published."""
    ttft_s: float
    tpot_s: float


@cache
def bench_rows() -> tuple[BenchRow, ...]:
    """LLM-Inference-Bench in the file's order. Raises ToolMissing or DocumentError."""
    with locate(BENCH).open(newline="", encoding="utf-8") as stream:
        return tuple(
            BenchRow(
                hardware=row["Hardware"],
                gpus=int(row["Num of Hardware"]),
                framework=row["Framework"].lower(),
                model=row["Model"],
                length=int(row["Input Output Length"]),
                batch=int(row["Batch Size"]),
                latency_s=float(row["Latency"]),
            )
            for row in csv.DictReader(stream)
        )


@cache
def serving_rows() -> tuple[ServingRow, ...]:
    """aiconfigurator's newest measurements, each once. Needs pyarrow (the ``train`` extra)."""
    import pyarrow.parquet  # noqa: PLC0415

    found: dict[tuple[object, ...], ServingRow] = {}
    for row in pyarrow.parquet.read_table(locate(SERVING)).to_pylist():
        if row["system"] == "gb200":
            continue
        # Rows with dp, tp or ep of 0 or nothing mean 1.
        data, tensor, expert, split = (
            int(row[name] or 1) if row[name] == row[name] else 1
            for name in ("attention_dp_size", "tp_size", "moe_ep_size", "moe_tp_size")
        )
        batch = int(row["batch_size"]) * data
        if split == expert and tensor * data == expert * expert > _NODE:
            data = expert if data > 1 else 1
            tensor = expert // data
        one = ServingRow(
            system=row["system"],
            framework=row["backend"],
            model=row["model_path"],
            precision=row["precision"] or "bf16",
            input_tokens=int(row["isl"]),
            output_tokens=int(row["osl"]),
            batch=batch,
            tensor=tensor,
            data=data,
            expert=min(expert, tensor * data),
            version=row["backend_version"] or "",
            date=(re.findall(r"measured=([\d-]{10})", row["silicon_data_source"]) or [""])[0],
            ttft_s=row["silicon_ttft_ms"] / 1e3,
            tpot_s=row["silicon_tpot_ms"] / 1e3,
        )
        measured = (one.system, one.framework, one.model, one.precision, one.input_tokens,
                    one.output_tokens, one.ttft_s, one.tpot_s)  # fmt: skip
        kept = found.get(measured)
        if kept is None or one.tensor * one.data < kept.tensor * kept.data:
            found[measured] = one
    return newest(found.values())


R = TypeVar("R")


def newest(rows: Iterable[R]) -> tuple[R, ...]:
    """Return the newest of the measurements of each configuration, by date and then by version."""
    by_configuration: dict[R, R] = {}
    dated: Any = sorted(rows, key=lambda row: (row.date, release(row.version)))
    for row in dated:
        by_configuration[replace(row, version="", date="", ttft_s=0.0, tpot_s=0.0)] = row
    return tuple(by_configuration.values())
