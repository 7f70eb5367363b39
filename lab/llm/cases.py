"""Measured cases of one predicted quantity (*head*), such as the time to the first token."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.config import LanguageModel, from_mapping
from berth.predictor.families.language_model.load import MOST_SEQUENCES, LlmLoad
from berth.predictor.families.language_model.physics import (
    MEAN,
    OFFLINE,
    SATURATED,
    TTFT,
    LlmCase,
    log_terms,
)
from berth.predictor.families.language_model.residual import (
    Codes,
    Integers,
    numbers,
    signature,
    ties,
)
from berth.predictor.hardware.unit import unit_named
from lab.datasets.llm import BENCH, BITS, SERVING, ServingRow, bench_rows, serving_rows
from lab.datasets.llm_tables import (
    INFERENCEX,
    TABLES,
    ClosedRow,
    TableRow,
    closed_rows,
    table_rows,
)
from lab.ground.table import Flags, Table, whole

CONFIGS = Path(__file__).with_name("data") / "configs.json"


@dataclass(frozen=True)
class Cases(Table):
    """Rows of one head."""

    cases: tuple[LlmCase, ...]
    accelerators: tuple[str, ...]
    frameworks: tuple[str, ...]
    models: tuple[str, ...]
    """Signature of each row's model."""
    blocks: tuple[str, ...]
    """(accelerator, framework, signature of the model)."""
    versions: tuple[str, ...]
    """Version of each row's framework; empty: not published."""
    data_sets: tuple[str, ...]
    """File of each row."""
    log_terms: Floats
    ties: Integers
    numbers: Floats
    log_seconds: Floats
    """Measured natural logarithm of seconds."""
    head: str = whole()
    codes: Codes = whole()


@cache
def models() -> Mapping[str, LanguageModel]:
    """Return the data sets' models by name."""
    raw = json.loads(CONFIGS.read_text(encoding="utf-8"))
    return {name: from_mapping(value, source=CONFIGS, name=name) for name, value in raw.items()}


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured row of any data set."""

    case: LlmCase
    framework: str
    version: str
    """Version of the framework, or the month of the measurement; empty: not published."""
    seconds: float
    data_set: str


@cache
def table(head: str) -> Cases:
    """Return all measured cases of a head."""
    return table_of(head, {OFFLINE: _bench, SATURATED: _tables}.get(head, partial(_served, head))())


def _bench() -> list[Measured]:
    return [
        Measured(
            LlmCase(models()[r.model], LlmLoad(r.batch, r.length, r.length, tensor_parallel=r.gpus),
                 unit_named(r.hardware)),
            r.framework, "", r.latency_s, BENCH.path,
        )
        for r in bench_rows()
    ]  # fmt: skip


def _served_load(
    row: TableRow | ServingRow | ClosedRow,
    batch: int,
    *,
    pipeline: int = 1,
    most_sequences: int | None = None,
) -> LlmLoad:
    bits = BITS[row.precision]
    return LlmLoad(
        batch, row.input_tokens, row.output_tokens, bits, cache_bits(row.precision),
        row.tensor, data_parallel=row.data, expert_parallel=row.expert, pipeline_parallel=pipeline,
        most_sequences=most_sequences,
        weight_format=models()[row.model].weight_format if bits == 4 else "",
    )  # fmt: skip


def _tables() -> list[Measured]:
    most = MOST_SEQUENCES["trtllm"]
    return [
        Measured(
            LlmCase(
                models()[r.model],
                _served_load(r, r.requests, pipeline=r.pipeline, most_sequences=most),
                unit_named(r.accelerator),
            ),
            "trtllm", r.version, r.seconds, TABLES.path,
        )
        for r in table_rows()
    ]  # fmt: skip


def _served(head: str) -> list[Measured]:
    first = head == TTFT
    rows = [
        Measured(
            LlmCase(models()[r.model], _served_load(r, r.batch), unit_named(r.system)),
            r.framework + MEAN * first, r.version, r.ttft_s if first else r.tpot_s, SERVING.path,
        )
        for r in serving_rows()
    ] + [
        Measured(
            LlmCase(models()[r.model], _served_load(r, r.concurrency), unit_named(r.accelerator)),
            r.framework, r.version, r.ttft_s if first else r.tpot_s, INFERENCEX.path,
        )
        for r in closed_rows()
    ]  # fmt: skip
    # While requests wait, a published time to the first token is the queue's, not the server's.
    return [row for row in rows if not first or _resident(row.case)]


def _resident(case: LlmCase) -> bool:
    return case.at_once >= case.load.batch / case.load.data_parallel


def cache_bits(precision: str) -> float:
    """Return the bits of a KV cache beside weights of this precision, as the data sets' servers
    are set up."""
    return 16.0 if precision in {"bf16", "fp16", "int4"} else 8.0


def table_of(head: str, rows: Sequence[Measured]) -> Cases:
    """Return a table of measured cases."""
    cases = tuple(replace(r.case, framework=r.framework.removesuffix(MEAN)) for r in rows)
    accelerators = tuple(c.device.sheet.name for c in cases)
    frameworks = tuple(r.framework for r in rows)
    signatures = tuple(signature(c.model) for c in cases)
    codes = Codes(
        accelerators=tuple(sorted(set(accelerators))),
        frameworks=tuple(sorted(set(frameworks))),
        models=tuple(sorted(set(signatures))),
    )
    return Cases(
        cases=cases,
        accelerators=accelerators,
        frameworks=frameworks,
        models=signatures,
        blocks=tuple(
            f"{accelerator} | {framework.removesuffix(MEAN)} | {model}"
            for accelerator, framework, model in zip(
                accelerators, frameworks, signatures, strict=True
            )
        ),
        versions=tuple(r.version for r in rows),
        data_sets=tuple(r.data_set for r in rows),
        log_terms=log_terms(head, cases),
        ties=ties(cases, frameworks, codes),
        numbers=numbers(cases, with_queue=head == SATURATED),
        log_seconds=np.log(np.array([r.seconds for r in rows], dtype=np.float64)),
        head=head,
        codes=codes,
    )


def rows_of(table: Cases, path: str) -> Flags:
    """Return which rows are of a data set."""
    return np.array([each == path for each in table.data_sets])
