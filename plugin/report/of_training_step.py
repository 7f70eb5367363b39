"""Reports a training step of a deep-learning model: its time and memory by platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from berth.plugin.report.of_forecast import sources_data, sources_part
from berth.plugin.report.of_model import memory_columns
from berth.plugin.report.parts import Column, Part, Report, Table, data_of, interval, worth_showing
from berth.predictor.core.prediction import Basis

if TYPE_CHECKING:
    from berth.predictor.core.forecast import Forecast
    from berth.predictor.core.prediction import Interval
    from berth.predictor.families.training_step.predictor import StepPrediction
    from berth.predictor.graphs.graph import ModelGraph


@dataclass(frozen=True, slots=True)
class StepRow:
    """The prediction of a training step on one platform."""

    step: StepPrediction
    need: Interval
    """Memory in bytes: of one GPU, or of the host on a platform without GPUs; 95 % interval."""
    on_gpu: bool
    fits: str
    abstained: str | None
    steps: float | None = None
    """Number of steps of the job; None: unknown."""

    @property
    def job_s(self) -> Interval | None:
        """Return the seconds of the whole job; None: its number of steps is unknown."""
        return None if self.steps is None else self.step.seconds.scaled(self.steps)

    @property
    def can_act(self) -> bool:
        """Return whether the time is reliable enough to act on: neither a prior (an estimate
        without measurements) nor an abstention."""
        return self.step.basis is not Basis.PRIOR and self.abstained is None

    def memory(self, *, on_gpu: bool) -> Interval | None:
        """Return the step's memory on the GPU, or on the host; None: the platform uses the
        other."""
        return self.need if self.on_gpu is on_gpu else None


STEPS: tuple[Column[StepRow], ...] = (
    Column("Platform", "platform", lambda row: row.step.platform),
    interval("Step", "step_s", lambda row: row.step.seconds),
    Column(
        "Samples/s",
        "samples_per_s",
        lambda row: row.step.samples_per_s,
        "{:.4g}".format,
        kind=float,
    ),
    interval("Job", "job_s", lambda row: row.job_s, is_optional=True),
    *memory_columns(StepRow.memory),
    Column("Fits", "fits", lambda row: row.fits),
    Column("In", "precision", lambda row: row.step.precision),
    Column("Basis", "basis", lambda row: row.step.basis.value),
)
"""The columns of a training step's predictions by platform."""


@dataclass(frozen=True, slots=True)
class StepRanking:
    """A training step's predictions on the platforms, ranked."""

    name: str
    graph: ModelGraph
    forecast: Forecast
    amount: float | None
    """Number of training steps in a job; None: unknown."""
    rows: Sequence[StepRow]
    copies: int
    """Number of a node's GPUs that train, each with its own copy of the model."""
    with_sources: bool


def step_report(ranking: StepRanking) -> Report:
    """Return the report of a training step's time and memory by platform."""
    rows, copies = ranking.rows, ranking.copies
    learnt = sorted({row.step.learnt_on for row in rows})
    notes = [
        f"Learnt on {' and '.join(learnt)}; prior: its rates by the ratio of roofs. Loading data "
        "is not in it."
    ]
    if copies > 1:
        notes.append(
            f"GPUs: {copies} of a node, a copy on each with this batch of its own: a step is of "
            f"all {copies} together, {copies} x {ranking.graph.batch} samples (a platform without "
            "GPUs does as many). Memory is that of each."
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
        notes.append(f"A job does {ranking.amount:g} such steps.")
    table = Table(
        "Platforms ranked", worth_showing(STEPS, rows), rows, [not row.can_act for row in rows]
    )
    parts = [Part("", tables=[table], notes=notes)]
    if ranking.with_sources:
        parts.append(sources_part(ranking.forecast, [row.step.platform for row in rows]))
    headline = (
        f"{ranking.name}, batch {ranking.graph.batch}, a training step: forward, backward, SGD "
        "with momentum"
    )
    return Report(headline, "", parts)


def step_data(ranking: StepRanking) -> dict[str, Any]:
    """Return the time and memory of a training step by platform, for JSON."""
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
