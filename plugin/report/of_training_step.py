"""A model's training step: its time and memory by platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from berth.plugin.report.of_forecast import sources_data, sources_part
from berth.plugin.report.of_model import memory_columns
from berth.plugin.report.parts import Column, Part, Report, Table, data_of, interval
from berth.predictor.core.prediction import Basis

if TYPE_CHECKING:
    from berth.predictor.core.forecast import Forecast
    from berth.predictor.core.prediction import Interval
    from berth.predictor.families.training_step.predictor import StepPrediction
    from berth.predictor.graphs.graph import ModelGraph


@dataclass(frozen=True, slots=True)
class StepRow:
    """A training step on one platform."""

    step: StepPrediction
    need: Interval
    """Memory of a GPU, or of the host where there is none; 95 %."""
    on_gpu: bool
    fits: str
    abstained: str | None

    @property
    def can_act(self) -> bool:
        """Whether its time is more than a prior, and no abstention."""
        return self.step.basis is not Basis.PRIOR and self.abstained is None

    def memory(self, *, on_gpu: bool) -> Interval | None:
        """Return its memory of the GPU, or of the host; None: it takes none that is counted."""
        return self.need if self.on_gpu is on_gpu else None


STEPS: tuple[Column[StepRow], ...] = (
    Column("Platform", "platform", lambda row: row.step.platform),
    interval("Step", "step_s", lambda row: row.step.seconds),
    Column("Samples/s", "samples_per_s", lambda row: row.step.samples_per_s, "{:.4g}".format),
    *memory_columns(StepRow.memory),
    Column("Fits", "fits", lambda row: row.fits),
    Column("In", "precision", lambda row: row.step.precision),
    Column("Basis", "basis", lambda row: row.step.basis.value),
)
"""A training step on each platform."""


@dataclass(frozen=True, slots=True)
class StepRanking:
    """A training step over platforms, ranked."""

    name: str
    graph: ModelGraph
    forecast: Forecast
    amount: float | None
    """Steps that a job does; None: not known."""
    rows: Sequence[StepRow]
    copies: int
    """GPUs of a node, a copy of the model on each."""
    with_sources: bool


def step_report(ranking: StepRanking) -> Report:
    """Report the time and memory of a training step by platform."""
    rows, copies = ranking.rows, ranking.copies
    learnt = sorted({row.step.learnt_on for row in rows})
    notes = [
        f"Learnt on {' and '.join(learnt)}; prior: its rates by the ratio of roofs. Loading data "
        "is not in it."
    ]
    if copies > 1:
        notes.append(
            f"GPUs: {copies} of a node, a copy on each with this batch of its own. A step is one "
            f"batch of one GPU: {copies} of them are done at once, in {copies} times the time "
            "shown. Memory is that of each."
        )
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.abstained is not None:
            reasons.setdefault(row.abstained, []).append(row.step.platform)
    notes += [
        f"Not to be acted on: {', '.join(names)}: {reason}." for reason, names in reasons.items()
    ]
    if ranking.graph.unknown:
        names = ", ".join(sorted(ranking.graph.unknown))
        notes.append(f"Unknown operators count no operations: {names}")
    if ranking.forecast.whole_job and ranking.amount is not None:
        notes.append(f"A job does {ranking.amount:g} such steps; `berth place` ranks by the whole.")
    table = Table("Platforms ranked", STEPS, rows, [not row.can_act for row in rows])
    parts = [Part("", tables=[table], notes=notes)]
    if ranking.with_sources:
        parts.append(sources_part(ranking.forecast, [row.step.platform for row in rows]))
    headline = (
        f"{ranking.name}, batch {ranking.graph.batch}, a training step: forward, backward, SGD "
        "with momentum"
    )
    return Report(headline, "", parts)


def step_data(ranking: StepRanking) -> dict[str, Any]:
    """Return the time and memory of a training step for JSON."""
    graph = ranking.graph
    return {
        "model": ranking.name,
        "graph": graph.digest,
        "mode": "training",
        "batch": graph.batch,
        "copies": ranking.copies,
        "parameters": graph.parameters,
        "unknown_operators": dict(graph.unknown),
        "predictions": [
            {
                **data_of(STEPS, row),
                "abstained": row.abstained,
                "learnt_on": row.step.learnt_on,
                "sources": sources_data(ranking.forecast, row.step.platform),
            }
            for row in ranking.rows
        ],
        "unit": ranking.forecast.unit.value,
        "amount": ranking.amount,
    }
