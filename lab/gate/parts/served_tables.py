"""Language models of 2025 and 2026, models and accelerators left out; the shipped method alone."""

from __future__ import annotations

import numpy as np

from berth.predictor.families.language_model.physics import SATURATED, TPOT, TTFT
from lab.datasets.llm_tables import INFERENCEX
from lab.gate.part import Work
from lab.ground.table import Flags
from lab.llm.cases import rows_of, table
from lab.llm.language_models import errors
from lab.llm.served_tables import ratio_pairs, tau_of
from lab.llm.situations import ACCELERATORS, MODELS, Held, folds, leave_out
from lab.llm.widths import coverage, nested_log_widths, shipped_widths


def figures(work: Work) -> dict[str, float]:
    """Return errors, order and coverage."""
    data = table(SATURATED)
    held = leave_out(data, folds(data, MODELS, work.seed), work.seed)
    work.advance()
    log = np.empty(len(data))
    log[held.row] = held.process
    recent = np.array([version != "0.17" for version in data.versions])
    pairs = np.array(ratio_pairs(data))
    own, real = (values[pairs[:, 0]] - values[pairs[:, 1]] for values in (log, data.log_seconds))
    made = {
        "maximum-load.median": errors(
            SATURATED, data.log_seconds[recent], log[recent]
        ).median_error,
        "maximum-load.tau": tau_of(data, log, recent),
        "maximum-load.coverage": covered(SATURATED, held, MODELS, recent),
        "ratio.median": float(np.median(np.abs(np.expm1(own - real)))),
        "ratio.tau": float(np.mean(np.sign(own * real))),
    }
    for head, name in ((TTFT, "first-token"), (TPOT, "each-token")):
        data = table(head)
        held = leave_out(data, folds(data, ACCELERATORS, work.seed), work.seed)
        work.advance()
        rows = rows_of(data, INFERENCEX.path)
        of_data = rows[held.row]
        off = errors(head, held.measured[of_data], held.process[of_data])
        made[f"{name}.median"] = off.median_error
        made[f"{name}.coverage"] = covered(head, held, ACCELERATORS, rows)
    return made


def covered(head: str, held: Held, split: str, rows: Flags) -> float:
    """Return the share of these rows of the table inside their intervals."""
    widths = nested_log_widths(held, split, shipped_widths()[head])
    inside = coverage(held, widths, rows[held.row])
    return float("nan") if inside is None else inside[0]
