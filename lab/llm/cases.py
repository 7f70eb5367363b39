"""Measured cases of one predicted quantity (*head*), such as the time to the first token."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.config import LanguageModel, from_mapping
from berth.predictor.families.language_model.load import Load
from berth.predictor.families.language_model.physics import OFFLINE, TTFT, Case, log_terms
from berth.predictor.families.language_model.residual import (
    Codes,
    Integers,
    numbers,
    signature,
    ties,
)
from berth.predictor.hardware.unit import unit_named
from lab.datasets.llm import BITS, bench_rows, serving_rows
from lab.ground.table import Table, whole

CONFIGS = Path(__file__).with_name("data") / "configs.json"


@dataclass(frozen=True)
class Cases(Table):
    """Rows of one head."""

    cases: tuple[Case, ...]
    accelerators: tuple[str, ...]
    frameworks: tuple[str, ...]
    models: tuple[str, ...]
    """Signature of each row's model."""
    blocks: tuple[str, ...]
    """(hardware, framework, model)."""
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


@cache
def table(head: str) -> Cases:
    """Return all measured cases of a head."""
    if head == OFFLINE:
        rows = bench_rows()
        loads = [Load(r.batch, r.length, r.length, tensor_parallel=r.gpus) for r in rows]
        seconds = [row.latency_s for row in rows]
        places = [row.hardware for row in rows]
        names = [(row.model, row.framework, row.block) for row in rows]
    else:
        served = serving_rows()
        loads = [
            Load(
                r.batch, r.input_tokens, r.output_tokens, BITS[r.precision],
                16.0 if r.precision in {"bf16", "int4"} else 8.0, r.tensor, 1, r.data, r.expert,
            )
            for r in served
        ]  # fmt: skip
        seconds = [row.ttft_s if head == TTFT else row.tpot_s for row in served]
        places = [row.system for row in served]
        names = [(row.model, row.framework, row.block) for row in served]
    cases = [
        Case(models()[model], load, unit_named(place))
        for (model, _, _), load, place in zip(names, loads, places, strict=True)
    ]
    return table_of(head, cases, [f for _, f, _ in names], [b for *_, b in names], seconds)


def table_of(
    head: str,
    cases: Sequence[Case],
    frameworks: Sequence[str],
    blocks: Sequence[str],
    seconds: Sequence[float],
) -> Cases:
    """Return a table of measured cases."""
    accelerators = tuple(c.device.sheet.name for c in cases)
    signatures = tuple(signature(c.model) for c in cases)
    names = (tuple(sorted(set(each))) for each in (accelerators, frameworks, signatures))
    codes = Codes(*names)
    return Cases(
        cases=tuple(cases),
        accelerators=accelerators,
        frameworks=tuple(frameworks),
        models=signatures,
        blocks=tuple(blocks),
        log_terms=log_terms(head, cases),
        ties=ties(cases, frameworks, codes),
        numbers=numbers(cases),
        log_seconds=np.log(np.array(seconds, dtype=np.float64)),
        head=head,
        codes=codes,
    )
