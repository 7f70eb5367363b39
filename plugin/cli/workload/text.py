"""What ``berth workload list`` and ``show`` say of a workload, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from berth.pilot.errors import BerthError
from berth.pilot.profile import Profile
from berth.pilot.units import format_seconds
from berth.plugin.store.records import WorkloadRecord
from berth.plugin.workloads.files import amount_text, title
from berth.predictor.core.workload import Workload, parse_workload

if TYPE_CHECKING:
    from berth.plugin.learning.shown import Moved


@dataclass(frozen=True, slots=True)
class Summary:
    """A row of the list. None: not known."""

    kind: str
    unit: str
    amount: str
    measured_on: str
    runtime_s: float | None = None
    host_memory_bytes: float | None = None
    gpu_memory_bytes: float | None = None


def summary(record: WorkloadRecord) -> Summary:
    """Return the kind of whatever the record holds; ``?`` where it cannot be read."""
    try:
        workload = parse_workload(record.document, source=record.name)
    except BerthError:
        return Summary(record.kind, "?", "?", "?")
    document: Any = workload.document
    kind, unit, amount = workload.kind, workload.amount.unit.value, amount_text(workload.amount)
    if isinstance(document, Profile):
        runtime_s = None if document.runtime is None else document.runtime.median_s
        return Summary(
            kind, unit, amount, document.platform, runtime_s, document.peak_memory_bytes,
            document.value("gpu_memory_bytes") or None,
        )  # fmt: skip
    if kind == "slices":
        need = document.memory
        most = None if need is None else need.interval.high
        return Summary(kind, unit, amount, f"whole {document.gpu}", document.runtime_s, None, most)
    if kind == "history":
        places = ", ".join(dict.fromkeys(run.platform for run in document.runs))
        return Summary(kind, unit, amount, places)
    return Summary(kind, unit, amount, "-")


def described(workload: Workload) -> list[str]:
    """Return the first lines about a workload: what it is, how much of it, what it runs on."""
    runs_on = workload.runs_on
    return [
        f"{workload.name}: {title(workload.kind)}{_what(workload)}",
        f"  amount of a job: {amount_text(workload.amount)}",
        f"  runs on {', '.join(runs_on.targets)} ({runs_on.architecture})",
    ]


def _what(workload: Workload) -> str:
    document: Any = workload.document
    if isinstance(document, Profile):
        took = format_seconds(document.runtime.median_s) if document.runtime else "no runtime"
        return (
            f", {' '.join(document.workload.command)}\n  measured on {document.platform}, "
            f"{document.provenance.created}: {took}"
        )
    if workload.kind == "model-graph":
        precision = f", {document.precision}" if document.precision else ""
        return f", {document.mode.value} at batch {document.batch}{precision} ({document.file})"
    if workload.kind == "language-model":
        gpus = document.gpus
        return (
            f", {document.framework} on {gpus} GPU{'s' * (gpus > 1)}, {document.concurrency} at a "
            f"time, {document.input_tokens} + {document.output_tokens} tokens"
        )
    if workload.kind == "slices":
        took = (
            "an unknown time" if document.runtime_s is None else format_seconds(document.runtime_s)
        )
        return f"\n  measured on a whole {document.gpu}; a job takes {took} there"
    if workload.kind == "history":
        return f", {len(document.runs)} runs"
    return ""


def learnt_text(learnt: Sequence[Moved]) -> list[str]:
    """Yield what finished jobs changed: a line for each platform, and one for each job that moved
    it."""
    lines = []
    for job in learnt:
        whose = f" for {job.user}" if job.user else ""
        factor = job.after_s / job.before_s
        lines.append(
            f"  learnt{whose} on {job.platform}: {format_seconds(job.after_s)} "
            f"({format_seconds(job.low_s)} to {format_seconds(job.high_s)}), "
            f"{factor:.2f} times the {format_seconds(job.before_s)} without learning"
        )
        for mover in job.movers[:_MOVERS]:
            moved = "set aside as an outlier" if mover.outlier else f"moved it {mover.moved:.2f} x"
            lines.append(
                f"    job {mover.job} ({mover.user}, {format_seconds(mover.runtime_s)} on "
                f"{mover.platform}): {moved}"
            )
        if len(job.movers) > _MOVERS:
            lines.append(f"    and {len(job.movers) - _MOVERS} more jobs: --json")
    return lines


_MOVERS = 5
