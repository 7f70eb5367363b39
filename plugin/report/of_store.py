"""Reports the store's workloads: a table of them, one in detail, and what finished jobs changed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from berth.pilot.errors import BerthError
from berth.pilot.profile import Profile
from berth.pilot.units import format_bytes, format_seconds
from berth.plugin.report.parts import Column, data_of, seconds
from berth.plugin.store.records import WorkloadRecord
from berth.plugin.workloads.files import amount_text, title
from berth.predictor.core.workload import Workload, parse_workload
from berth.predictor.families.history.workload import HistoryWorkload

if TYPE_CHECKING:
    from berth.plugin.learning.learner import Learnt
    from berth.plugin.learning.shown import Moved

_MOVERS = 5
"""Maximum number of jobs named per changed prediction."""


@dataclass(frozen=True, slots=True)
class StoredWorkload:
    """A workload of the store. None, or ``?`` in texts: unknown."""

    record: WorkloadRecord
    bundles: Sequence[str]
    """The ids of the bundles that made its stored forecasts."""
    kind: str
    unit: str = "?"
    amount: str = "?"
    measured_on: str = "?"
    runtime_s: float | None = None
    host_memory_bytes: float | None = None
    gpu_memory_bytes: float | None = None


def stored_row(record: WorkloadRecord, bundles: Sequence[str]) -> StoredWorkload:
    """Return the table row of a stored workload; its fields are ``?`` or None where the record
    cannot be read."""
    try:
        workload = parse_workload(record.document, source=record.name)
    except BerthError:
        return StoredWorkload(record, bundles, record.kind)
    document: Any = workload.document
    row = StoredWorkload(
        record,
        bundles,
        workload.kind,
        workload.amount.unit.value,
        amount_text(workload.amount),
        "-",
    )
    if isinstance(document, Profile):
        return replace(
            row,
            measured_on=document.platform,
            runtime_s=None if document.runtime is None else document.runtime.median_s,
            host_memory_bytes=document.peak_memory_bytes,
            gpu_memory_bytes=document.value("gpu_memory_bytes") or None,
        )
    if workload.kind == "slices":
        need = document.memory
        return replace(
            row,
            measured_on=f"whole {document.gpu}",
            runtime_s=document.runtime_s,
            gpu_memory_bytes=None if need is None else need.interval.high,
        )
    if workload.kind == "history":
        return _of_history(row, document)
    return row


def _of_history(row: StoredWorkload, document: HistoryWorkload) -> StoredWorkload:
    """Return the row with the platforms of its runs, their median time where that is one platform,
    and their largest peaks."""
    platforms = dict.fromkeys(run.platform for run in document.runs)
    median_s = statistics.median(run.runtime_s for run in document.runs) if document.runs else None
    return replace(
        row,
        measured_on=", ".join(platforms) or "-",
        runtime_s=median_s if len(platforms) == 1 else None,
        host_memory_bytes=max((r.peak_host_bytes or 0.0 for r in document.runs), default=0) or None,
        gpu_memory_bytes=max((r.peak_gpu_bytes or 0.0 for r in document.runs), default=0) or None,
    )


def _owner(row: StoredWorkload) -> str:
    return (row.record.owner or "-") + (" (asks to share)" if row.record.share_asked_s else "")


def day(unix_s: float) -> str:
    """Return the local date as text, ``2026-11-26``."""
    return time.strftime("%Y-%m-%d", time.localtime(unix_s))


WORKLOADS: tuple[Column[StoredWorkload], ...] = (
    Column("Name", "name", lambda row: row.record.name),
    Column("Kind", "kind", lambda row: row.kind),
    Column("Amount", "amount", lambda row: row.amount),
    Column("Measured on", "measured_on", lambda row: row.measured_on),
    seconds("Runtime", "runtime_s", lambda row: row.runtime_s),
    Column("Host memory", "host_memory_bytes", lambda row: row.host_memory_bytes, format_bytes,
           "bytes"),
    Column("GPU memory", "gpu_memory_bytes", lambda row: row.gpu_memory_bytes, format_bytes,
           "bytes"),
    Column("Predicted", "is_predicted", lambda row: bool(row.bundles),
           lambda is_predicted: "yes" if is_predicted else "no", kind=bool),
    Column("Owner", "owner", lambda row: row.record.owner, words=_owner),
    Column("Added", "created_s", lambda row: row.record.created_s, day, "s"),
)  # fmt: skip
"""The columns of a table of the store's workloads."""


def stored_data(row: StoredWorkload) -> dict[str, Any]:
    """Return one workload of the store, for JSON."""
    return {
        **data_of(WORKLOADS, row),
        "unit": row.unit,
        "digest": row.record.digest,
        "share_asked": row.record.share_asked_s is not None,
        "bundles": list(row.bundles),
    }


def described(workload: Workload) -> list[str]:
    """Return the first lines on a workload: its type, the amount of work in a job, its targets."""
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
    """Return lines on how finished jobs changed predicted times: one for each platform, followed by
    at most ``_MOVERS`` jobs that changed its time most."""
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


def learning_sentences(done: Learnt) -> list[str]:
    """Return sentences on a round of learning: jobs read, jobs used, forecasts changed."""
    lines = [
        f"looked at {done.jobs} ended jobs, {done.used} of them count; "
        f"{len(done.forecasts)} forecasts are new"
    ]
    lines += [f"  {name}" + (f" for {user}" if user else "") for name, user in done.forecasts[:20]]
    return [*lines, *done.notices]
