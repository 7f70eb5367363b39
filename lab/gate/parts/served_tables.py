"""Language models of 2025 and 2026, models and accelerators left out; the shipped method alone."""

from __future__ import annotations

import numpy as np

from berth.predictor.families.language_model.physics import SATURATED, TPOT, TTFT
from lab.datasets.llm_tables import INFERENCEX
from lab.gate.part import Work
from lab.gate.parts.llm import held_rows, scored
from lab.llm.cases import table
from lab.llm.language_models import errors
from lab.llm.served_tables import ratio_pairs, tau_of
from lab.llm.situations import ACCELERATORS, MODELS
from lab.llm.widths import coverage, nested_log_widths, shipped_widths


def figures(work: Work) -> dict[str, float]:
    """Return errors, order and coverage."""
    data = table(SATURATED)
    held = held_rows(work, SATURATED, MODELS)
    work.advance()
    log = np.empty(len(data))
    log[held.row] = held.process
    recent = np.array([version != "0.17" for version in data.versions])
    pairs = np.array(ratio_pairs(data))
    own, real = (values[pairs[:, 0]] - values[pairs[:, 1]] for values in (log, data.log_seconds))
    widths = nested_log_widths(held, MODELS, shipped_widths()[SATURATED])
    inside = coverage(held, widths, recent[held.row])
    made = {
        "maximum-load.median": errors(
            SATURATED, data.log_seconds[recent], log[recent]
        ).median_error,
        "maximum-load.tau": tau_of(data, log, recent),
        "maximum-load.coverage": float("nan") if inside is None else inside[0],
        "ratio.median": float(np.median(np.abs(np.expm1(own - real)))),
        "ratio.tau": float(np.mean(np.sign(own * real))),
    }
    for head, name in ((TTFT, "first-token"), (TPOT, "each-token")):
        figures_of_head = scored(work, head, ACCELERATORS, INFERENCEX.path)
        made |= {f"{name}.{each}": figures_of_head[each] for each in ("median", "coverage")}
        work.advance()
    return made
