"""Measured cases of one head, ready to learn from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from berth.predictor.families.language_model.config import LanguageModel, from_mapping
from berth.predictor.families.language_model.load import Load
from berth.predictor.families.language_model.physics import (
    OFFLINE,
    TPOT,
    TTFT,
    Case,
    Floats,
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
from lab.datasets.llm import BITS, bench_rows, serving_rows

CONFIGS = Path(__file__).with_name("data") / "configs.json"


@dataclass(frozen=True)
class Table:
    """Rows of one head; all arrays have as many."""

    head: str
    cases: tuple[Case, ...]
    accelerators: tuple[str, ...]
    frameworks: tuple[str, ...]
    blocks: tuple[str, ...]
    """(hardware, framework, model)."""
    codes: Codes
    log_terms: Floats
    ties: Integers
    numbers: Floats
    log_seconds: Floats
    """What was measured."""

    def __len__(self) -> int:
        return len(self.cases)

    def take(self, index: NDArray[np.int64]) -> Table:
        """These rows."""
        return Table(
            self.head,
            tuple(self.cases[i] for i in index),
            tuple(self.accelerators[i] for i in index),
            tuple(self.frameworks[i] for i in index),
            tuple(self.blocks[i] for i in index),
            self.codes,
            self.log_terms[index],
            self.ties[index],
            self.numbers[index],
            self.log_seconds[index],
        )


@cache
def models() -> Mapping[str, LanguageModel]:
    """The data sets' models by name."""
    raw = json.loads(CONFIGS.read_text(encoding="utf-8"))
    return {name: from_mapping(value, source=CONFIGS, name=name) for name, value in raw.items()}


@cache
def table(head: str) -> Table:
    """Everything that was measured of a head."""
    if head == OFFLINE:
        cases = tuple(
            Case(
                models()[row.model],
                Load(row.batch, row.length, row.length, tensor_parallel=row.gpus),
                unit_named(row.hardware),
            )
            for row in bench_rows()
        )
        rows = bench_rows()
        seconds = [row.latency_s for row in rows]
        return table_of(head, cases, [r.framework for r in rows], [r.block for r in rows], seconds)
    kept = serving_rows()
    cases = tuple(
        Case(
            models()[row.model],
            Load(
                row.batch, row.input_tokens, row.output_tokens, BITS[row.precision],
                16.0 if row.precision in {"bf16", "int4"} else 8.0, row.tensor, 1, row.data,
                row.expert,
            ),
            unit_named(row.system),
        )
        for row in kept
    )  # fmt: skip
    seconds = [{TTFT: row.ttft_s, TPOT: row.tpot_s}[head] for row in kept]
    return table_of(head, cases, [r.framework for r in kept], [r.block for r in kept], seconds)


def table_of(
    head: str,
    cases: Sequence[Case],
    frameworks: Sequence[str],
    blocks: Sequence[str],
    seconds: Sequence[float],
) -> Table:
    """A table of measured cases."""
    accelerators = tuple(c.device.sheet.name for c in cases)
    codes = Codes(
        tuple(sorted(set(accelerators))),
        tuple(sorted(set(frameworks))),
        tuple(sorted({signature(c.model) for c in cases})),
    )
    return Table(
        head,
        tuple(cases),
        accelerators,
        tuple(frameworks),
        tuple(blocks),
        codes,
        log_terms(head, cases),
        ties(cases, frameworks, codes),
        numbers(cases),
        np.log(np.array(seconds, dtype=np.float64)),
    )
