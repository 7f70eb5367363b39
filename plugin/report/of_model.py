"""Reports a deep-learning model's time, memory, energy and price on each platform, by rooflines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from berth.pilot.errors import UsageError
from berth.pilot.units import format_bytes, format_count
from berth.plugin.report.of_forecast import sources_data, sources_part
from berth.plugin.report.parts import (
    Column,
    Part,
    Report,
    Table,
    data_of,
    interval,
    middle,
    plain,
    seconds,
    worth_showing,
)
from berth.predictor.core.prediction import Basis, Bound

if TYPE_CHECKING:
    from berth.pilot.platform import Platform
    from berth.predictor.core.forecast import Forecast
    from berth.predictor.core.prediction import Interval
    from berth.predictor.footprint.energy import RunEnergy
    from berth.predictor.footprint.footprint import Footprint, MemoryTask
    from berth.predictor.graphs.graph import ModelGraph
    from berth.predictor.graphs.roofline import Roofline, Spot
    from berth.predictor.hardware.device import Numbers

# ruff: noqa: PLC0415 - numpy and pydantic are slow, and other kinds of workload do without

MOST_OPERATORS = 8
"""Maximum number of operators in the table of a roofline; also of platforms named in one
sentence."""
_BOUNDS = (Bound.COMPUTE, Bound.MEMORY, Bound.LAUNCH)
_FITS = {"yes": "yes", "may": "may not fit", "no": "does not fit"}
_ROOFLINE = (
    "the roofline, at the share of it that operators were measured to reach elsewhere in fp32 one "
    "after the other; no run of this model"
)


@dataclass(frozen=True)
class Memories:
    """One model's memory on GPUs and CPUs for each task, computed when first needed."""

    graph: ModelGraph
    numbers: Numbers | None
    platforms: Mapping[str, Platform]
    _counted: dict[tuple[MemoryTask, bool], Footprint] = field(default_factory=dict)

    def by(self, task: MemoryTask, *, on_gpu: bool) -> Footprint:
        """Return the memory of one task on GPUs or on CPUs."""
        from berth.predictor.footprint.footprint import count, footprint

        known = self._counted.get((task, on_gpu))
        if known is None:
            need = count(self.graph, task, on_gpu=on_gpu, numbers=self.numbers)
            known = self._counted[task, on_gpu] = footprint(need)
        return known

    def row(self, line: Roofline) -> ModelRow:
        """Return the table row of the model on one platform; its energy is an unverified
        estimate."""
        from berth.predictor.footprint.energy import energy
        from berth.predictor.footprint.footprint import MemoryTask

        idle_w = self.platforms[line.roof.platform].idle_power_w
        drawn = energy(line.seconds, line.roof.power_w, idle_w, line.time_share(Bound.LAUNCH))
        return ModelRow(line, self.by(MemoryTask.INFERENCE, on_gpu=line.roof.is_gpu), drawn)

    def other_tasks(self) -> list[str]:
        """Return sentences on the GPU memory of other tasks, such as training, and on its
        limits."""
        from berth.predictor.footprint.footprint import MemoryTask

        ways = (
            (MemoryTask.RECORDED, "while autograd records"),
            (MemoryTask.TRAINING, "training with Adam"),
        )
        texts = (f"{way} {_span(self.by(task, on_gpu=True).memory)}" for task, way in ways)
        runtime = self.by(MemoryTask.INFERENCE, on_gpu=True).runtime
        return [
            f"On a GPU also: {', '.join(texts)}.",
            f"Memory on GPUs is that of {runtime.framework}; {runtime.limits}.",
        ]


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model's prediction on one platform."""

    line: Roofline
    footprint: Footprint
    energy: RunEnergy | None
    runs: float | None = None
    """Number of runs of the job; None: unknown."""

    @property
    def job_s(self) -> Interval | None:
        """Return the seconds of the whole job; None: its number of runs is unknown."""
        return None if self.runs is None else self.line.seconds.scaled(self.runs)

    @property
    def platform(self) -> str:
        """Return the platform's name."""
        return self.line.roof.platform

    @property
    def can_act(self) -> bool:
        """Return whether the model fits and its time is more than a prior (an unmeasured
        estimate)."""
        return self.line.fits and self.line.basis is not Basis.PRIOR

    @property
    def fits(self) -> str:
        """Return whether the model's memory fits: ``yes``, ``may`` or ``no``."""
        return self.footprint.fits(self.line.roof.memory_bytes).value

    def memory(self, *, on_gpu: bool) -> Interval | None:
        """Return the model's memory on the GPU, or on the host; None: the platform uses the
        other."""
        return self.footprint.memory if self.line.roof.is_gpu is on_gpu else None


def _span(memory: Interval) -> str:
    low, mid, high = (format_bytes(end) for end in (memory.low, memory.mid, memory.high))
    is_one_unit = low.split()[1] == high.split()[1]
    return f"{mid} ({low.split()[0] if is_one_unit else low} to {high})"


def memory_columns(of: Any) -> tuple[Column[Any], Column[Any]]:
    """Return the columns of host and GPU memory; ``of(record, on_gpu=...)`` returns a record's
    memory interval in bytes."""
    return (
        interval("Host memory (95 %)", "host_memory_bytes", lambda row: of(row, on_gpu=False),
                 format_bytes, unit="bytes"),
        interval("GPU memory (95 %)", "gpu_memory_bytes", lambda row: of(row, on_gpu=True),
                 format_bytes, unit="bytes"),
    )  # fmt: skip


MODEL: tuple[Column[ModelRow], ...] = (
    Column("Platform", "platform", lambda row: row.platform),
    interval("Time", "runtime_s", lambda row: row.line.seconds),
    Column("Samples/s", "samples_per_s", lambda row: row.line.samples_per_s, "{:.4g}".format,
           kind=float),
    interval("Job", "job_s", lambda row: row.job_s, is_optional=True),
    *memory_columns(ModelRow.memory),
    Column("Fits", "fits", lambda row: row.fits, _FITS.__getitem__),
    middle("Energy", "energy_j", lambda row: row.energy and row.energy.joules, "{:.3g} J".format,
           unit="J"),
    middle("Price", "price", lambda row: row.line.price, "{:.3g}".format, unit=""),
    Column("Limited by", "bound", lambda row: row.line.bound.value),
    Column("Basis", "basis", lambda row: row.line.basis.value),
)  # fmt: skip
"""The columns of a model's predictions by platform."""

OPERATORS: tuple[Column[tuple[Spot, float]], ...] = (
    Column("Operator", "operator", lambda row: row[0].operator),
    Column("Output", "output", lambda row: list(row[0].output_shape), kind=list[float]),
    Column("Nodes", "nodes", lambda row: row[0].nodes, kind=float),
    Column("FLOPs/byte", "intensity", lambda row: row[0].intensity, "{:.3g}".format, kind=float),
    Column("Reaches", "flops_per_s", lambda row: row[0].flops_per_s,
           lambda rate: f"{format_count(rate)}FLOP/s", kind=float),
    seconds("Time", "seconds", lambda row: row[0].seconds),
    Column("Share", "share", lambda row: row[0].seconds / row[1], "{:.1%}".format, kind=float),
    Column("Limited by", "bound", lambda row: row[0].bound.value),
)  # fmt: skip
"""The columns of a roofline's operators; a record is an operator and the seconds of all operators
together."""


@dataclass(frozen=True, slots=True)
class ModelRanking:
    """A model's predictions on the platforms, ranked, with the rooflines that the user
    requested."""

    name: str
    graph: ModelGraph
    forecast: Forecast
    steps: float | None
    """Number of model runs in a job; None: unknown."""
    rows: Sequence[ModelRow]
    memories: Memories
    details: Sequence[Roofline]
    with_sources: bool


def model_report(ranking: ModelRanking) -> Report:
    """Return the report of a model: platforms ranked by time, where the time goes, and the sources
    of the numbers."""
    graph, rows = ranking.graph, ranking.rows
    table = Table(
        "Platforms ranked", worth_showing(MODEL, rows), rows, [not row.can_act for row in rows]
    )
    parts = [Part("", tables=[table])]
    parts += [roofline_part(line) for line in ranking.details]
    parts.append(Part("", _notes(ranking)))
    if ranking.with_sources:
        parts.append(sources_part(ranking.forecast, [row.platform for row in rows]))
    headline = (
        f"{ranking.name}, batch {graph.batch}, {rows[0].line.numbers.value}: {len(graph)} nodes, "
        f"{format_count(graph.total_flops)}FLOPs, {format_count(graph.parameters)} parameters"
    )
    return Report(headline, "", parts)


def _notes(ranking: ModelRanking) -> list[str]:
    rows = ranking.rows
    notes = origins([row.line for row in rows])
    if any(row.line.roof.is_gpu for row in rows):
        notes += ranking.memories.other_tasks()
    if slices := slices_of(rows):
        smallest = ", ".join(f"{profile or 'none'} of {name}" for name, profile in slices.items())
        notes.append(
            f"Smallest MIG slice that holds it: {smallest}; `berth mig recommend` says how fast."
        )
    if any(row.line.energy_j for row in rows):
        notes.append(
            "Energy: the platform's power under load while kernels run, idle power while launches "
            "bound; unverified."
        )
    if not all(row.line.roof.matrix_known or not row.line.roof.is_gpu for row in rows):
        notes.append("GPUs without a data sheet here are taken at their fp32 rate.")
    if ranking.graph.unknown:
        names = ", ".join(sorted(ranking.graph.unknown))
        notes.append(f"Unknown operators count no operations: {names}")
    if ranking.steps is not None:
        notes.append(f"A job does {ranking.steps:g} such runs; `berth place` ranks by the whole.")
    return notes


def origins(lines: Sequence[Roofline]) -> list[str]:
    """Return sentences on the sources of the predicted times, and on why some intervals are
    wide."""
    by_source: dict[tuple[str, str], list[str]] = {}
    by_note: dict[str, list[str]] = {}
    for line in lines:
        by_source.setdefault((line.basis.value, line.source), []).append(line.roof.platform)
        for note in line.note.split("; ") if line.note else ():
            by_note.setdefault(note, []).append(line.roof.platform)
    sentences = []
    for (basis, source), names in by_source.items():
        where = "" if len(names) == len(lines) else f" ({_listed(names)})"
        sentences.append(f"{basis}: {_ROOFLINE if source == 'roofline' else source}{where}.")
    for note, names in by_note.items():
        where = "everywhere" if len(names) == len(lines) > 1 else _listed(names)
        sentences.append(f"{where}: {note}.")
    return sentences


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_OPERATORS else f"{len(names)} platforms"


def operators_table(line: Roofline, most: int = MOST_OPERATORS) -> Table[tuple[Spot, float]]:
    """Return a table of the operators that take the most time on a platform, by the roofline."""
    whole = sum(spot.seconds for spot in line.spots)
    rows = [(spot, whole) for spot in line.spots[:most]]
    caption = f"Operators with most time on {line.roof.platform}, by the roofline"
    return Table(caption, OPERATORS, rows)


def roofline_part(line: Roofline) -> Part:
    """Return the report section on where a model's time goes on one platform."""
    shares = ", ".join(f"{line.time_share(bound):.0%} {bound.value}" for bound in _BOUNDS)
    notes = []
    if left := line.spots[MOST_OPERATORS:]:
        share = sum(spot.seconds for spot in left) / sum(spot.seconds for spot in line.spots)
        notes.append(f"and {len(left)} more kinds of operators: {share:.1%}")
    title = f"{line.roof.platform}: {line.bound.value}-bound ({shares} of the time)"
    return Part(title, tables=[operators_table(line)], notes=notes)


def slices_of(rows: Iterable[ModelRow]) -> dict[str, str | None]:
    """Return the smallest MIG profile whose memory holds the model, for each GPU that supports MIG,
    by platform; None: no profile does."""
    from berth.predictor.families.slices.physics import plain_profiles
    from berth.predictor.hardware.mig.slices import lookup

    profiles: dict[str, str | None] = {}
    for row in rows:
        if row.line.roof.is_gpu and row.line.roof.parent is None:
            try:
                geometry = lookup(row.platform)
            except UsageError:
                continue
            need = row.footprint.memory.high
            holding = (p.name for p in plain_profiles(geometry) if p.memory_bytes >= need)
            profiles[row.platform] = next(holding, None)
    return profiles


def model_data(ranking: ModelRanking) -> dict[str, Any]:
    """Return a model's ranking, for JSON."""
    graph = ranking.graph
    document: dict[str, Any] = {
        "model": ranking.name,
        "graph": graph.digest,
        "batch": graph.batch,
        "flops": graph.total_flops,
        "parameters": graph.parameters,
        "unknown_operators": dict(graph.unknown),
        "predictions": [_prediction(ranking, row) for row in ranking.rows],
        "mig": slices_of(ranking.rows),
        "unverified": ["energy_j"],
        "unit": ranking.forecast.unit.value,
        "amount": ranking.steps,
    }
    if ranking.details:
        document["rooflines"] = [
            {
                "platform": line.roof.platform,
                "time_shares": {bound.value: line.time_share(bound) for bound in _BOUNDS},
                "operators": [
                    {**row, "flops": spot.flops, "moved_bytes": spot.moved_bytes}
                    for row, spot in zip(
                        operators_table(line, len(line.spots)).data(), line.spots, strict=True
                    )
                ],
            }
            for line in ranking.details
        ]
    return document


def _prediction(ranking: ModelRanking, row: ModelRow) -> dict[str, Any]:
    from berth.predictor.footprint.footprint import MemoryTask

    footprint, drawn = row.footprint, row.energy
    training = ranking.memories.by(MemoryTask.TRAINING, on_gpu=row.line.roof.is_gpu)
    return {
        **data_of(MODEL, row),
        "source": row.line.source,
        "note": row.line.note,
        "precision": row.line.numbers.value,
        "memory_counted_bytes": footprint.need.allocated,
        "memory_framework_bytes": footprint.overhead_bytes,
        "memory_of": footprint.runtime.framework,
        "memory_training_bytes": plain(training.memory),
        "energy_idle_share": None if drawn is None else drawn.idle_share,
        "sources": sources_data(ranking.forecast, row.platform),
    }
