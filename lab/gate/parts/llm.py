"""Serving of language models: held-out rows, blocks and accelerators, as Berth answers."""

from __future__ import annotations

from berth.predictor.families.language_model.candidates import Novelty
from berth.predictor.families.language_model.physics import OFFLINE, TPOT, TTFT
from lab.gate.part import Work
from lab.ground.resume import Resume
from lab.llm.held_out import coverage, errors_of, held_rows
from lab.llm.language_models import key_of

HEADS = {"throughput": OFFLINE, "first-token": TTFT, "each-token": TPOT}
SHOWN = {
    "rows": Novelty.NOTHING, "blocks": Novelty.COMBINATION, "accelerators": Novelty.DEVICE,
}  # fmt: skip


def figures(work: Work) -> dict[str, float]:
    """Return median error, order and coverage by quantity and by what is new."""
    made: dict[str, float] = {}
    for name, head in HEADS.items():
        found = held_rows(
            head, work.seed, resume=Resume(work.folder), key=key_of(head, work.seed),
            advance=work.advance, novelties=SHOWN.values(),
        )  # fmt: skip
        for short, novelty in SHOWN.items():
            rows = found[novelty]
            errors = errors_of(rows.measured, rows.nested()[0], rows.block)
            made[f"{name}.{short}.median"] = errors.median_error
            made[f"{name}.{short}.tau"] = errors.kendall_tau
            made[f"{name}.{short}.coverage"] = coverage(rows)
    return made
