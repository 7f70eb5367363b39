"""Serving of language models as the documentation prints it: every fold, baselines beside it."""

from __future__ import annotations

from berth.predictor.families.language_model.physics import OFFLINE, TPOT, TTFT
from lab.gate.part import Work
from lab.gate.parts.llm import FIRST_DATA
from lab.ground.resume import Resume
from lab.llm.cases import rows_of, table
from lab.llm.language_models import errors, split_results
from lab.llm.situations import ACCELERATORS, BLOCKS, PAIRS, ROWS, predicted

HEADS = {"throughput": OFFLINE, "first-token": TTFT, "each-token": TPOT}
SPLITS = {"rows": ROWS, "blocks": BLOCKS, "pairs": PAIRS, "accelerators": ACCELERATORS}


def figures(work: Work) -> dict[str, float]:
    """Return median and mean errors of the shipped method, and its coverage."""
    made: dict[str, float] = {}
    for name, head in HEADS.items():
        for short, split in SPLITS.items():
            found = split_results(head, split, work.seed, Resume(work.folder))
            work.advance()
            ours, held = found.results[0].figures, found.held
            own = rows_of(table(head), FIRST_DATA[head])[held.row]
            off = errors(head, held.measured[own], predicted(held)[own])
            made[f"{name}.{short}.median"] = off.median_error
            made[f"{name}.{short}.mean"] = off.mean_error
            if ours.coverage is not None:
                made[f"{name}.{short}.coverage"] = ours.coverage
    return made
