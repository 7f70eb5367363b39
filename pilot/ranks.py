"""Measure the ranks of an MPI program: time and memory of all ranks, counters of two ranks.

Ranks wait for each other, so that each launch can run a rank only once. In the first launch the
pilot runs rank 0, and ``rank.py`` runs each other rank and writes a record. The runtime is that of
the slowest rank; the memory is that of the node with the largest sum over its ranks. The second
launch counts rank 0 and, of the others, the rank with most processor time. The mean of the two
counts represents all ranks; half of their difference is taken as the standard error.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from berth.pilot.assemble import with_missing
from berth.pilot.catalogue import REQUIRED
from berth.pilot.collectors.base import Stage
from berth.pilot.collectors.perf import PerfCollector
from berth.pilot.collectors.registry import names_of
from berth.pilot.derive import NO_TOTALS, derive
from berth.pilot.documents import Document, read_json, write_json
from berth.pilot.emulate import Emulation, emulate
from berth.pilot.errors import UsageError
from berth.pilot.launch import Order, run_one
from berth.pilot.profile import (
    CollectorReport,
    Measurement,
    NonNegative,
    Positive,
    Profile,
    Quality,
    Ranks,
)
from berth.pilot.rank import NODE_VARIABLES
from berth.pilot.run_pilot import EMULATION_FLOOR_S, SAMPLED_S, SETTLE_SLOWDOWN
from berth.pilot.units import whole_number

RECORD = "rank-{}.json"
COUNTS = "counts-{}.json"


class RankRecord(Document):
    """The record of one rank, as ``rank.py`` writes it."""

    node: str
    rank: int = Field(ge=0)
    seconds: Positive
    cpu_s: NonNegative
    peak_memory_bytes: NonNegative
    exit_status: int


class RankCounts(Document):
    """The counters of one rank, from one run."""

    rank: int = Field(default=0, ge=0)
    counters: dict[str, Measurement] = Field(max_length=2_000)
    reports: tuple[CollectorReport, ...] = ()
    warnings: tuple[str, ...] = ()
    succeeded: bool = True


def records_in(folder: Path) -> list[RankRecord]:
    """Return the records that ``rank.py`` wrote to ``folder``; unreadable ones are left out."""
    records = []
    for path in sorted(folder.glob(RECORD.format("*"))):
        try:
            text = read_json(path, RankRecord)
        except UsageError:
            continue
        records.append(text)
    return records


def busiest(records: Sequence[RankRecord]) -> int:
    """Return the number of the rank with the most processor time except rank 0; 0 if none."""
    others = [record for record in records if record.rank > 0]
    return max(others, key=lambda r: (r.cpu_s, -r.rank)).rank if others else 0


def with_ranks(profile: Profile, records: Sequence[RankRecord], *, nodes: int | None) -> Profile:
    """Return the Profile of a whole parallel run, from that of rank 0 and the others' records.

    ``profile``: that of rank 0; ``records``: those of the other ranks; ``nodes``: number of nodes
    of the job, None: the number of different nodes in the records.
    """
    own = _of_rank_zero(profile)
    every = [r for r in records if r.rank > 0]
    every += [] if own is None else [own]
    ranks = max(profile.runs_on.ranks, len(every))
    by_node: dict[str, float] = {}
    for record in every:
        by_node[record.node] = by_node.get(record.node, 0.0) + record.peak_memory_bytes
    # Ranks without a record are assumed to need as much memory as the mean of the others.
    scale = ranks / len(every) if every else 1.0
    node_count = nodes or max(1, len(by_node))
    runs_on = profile.runs_on.model_copy(
        update={"ranks": ranks, "nodes": node_count if ranks > 1 or node_count > 1 else None}
    )
    if len(every) < 2 or profile.runtime is None:
        memory = profile.peak_memory_bytes
        note = f"rank 0 stands for all {ranks} ranks: its peak memory is taken x {ranks}"
        return profile.model_copy(
            update={
                "runs_on": runs_on,
                "peak_memory_bytes": None if memory is None else memory * ranks,
                "warnings": (*profile.warnings, note) if ranks > 1 else profile.warnings,
            }
        )
    # In test clusters one host can be several nodes; its ranks are then divided evenly over them.
    fullest = scale * max(by_node.values()) * len(by_node) / node_count
    slowest = max(record.seconds for record in every)
    runtime = profile.runtime
    if slowest > runtime.median_s:
        runtime = runtime.model_copy(update={"median_s": slowest, "repeats_s": (slowest,)})
    failed = [record for record in every if record.exit_status != 0]
    warnings = list(profile.warnings)
    if failed:
        first = failed[0]
        warnings.append(
            f"{len(failed)} of {ranks} ranks failed, rank {first.rank} on {first.node} with "
            f"exit status {first.exit_status}"
        )
    if len(every) < ranks:
        warnings.append(f"only {len(every)} of {ranks} ranks left a record")
    return profile.model_copy(
        update={
            "runs_on": runs_on,
            "runtime": runtime,
            "complete": profile.complete and not failed,
            "peak_memory_bytes": fullest * node_count or None,
            "warnings": tuple(warnings),
            "ranks": Ranks(
                count=len(every),
                slowest_s=slowest,
                mean_s=statistics.fmean(r.seconds for r in every),
                busiest_cpu_s=max(r.cpu_s for r in every),
                mean_cpu_s=statistics.fmean(r.cpu_s for r in every),
                largest_memory_bytes=max(r.peak_memory_bytes for r in every),
                mean_memory_bytes=statistics.fmean(r.peak_memory_bytes for r in every),
                node_memory_bytes=fullest,
            ),
        }
    )


def _of_rank_zero(profile: Profile) -> RankRecord | None:
    if profile.runtime is None:
        return None
    node = next((os.environ[name] for name in NODE_VARIABLES if name in os.environ), "")
    return RankRecord(
        node=node or os.uname().nodename,
        rank=0,
        seconds=profile.runtime.median_s,
        cpu_s=profile.value("cpu_time_s") or 0.0,
        peak_memory_bytes=profile.peak_memory_bytes or 0.0,
        exit_status=profile.exit_status,
    )


def count_once(
    order: Order,
    *,
    rank: int,
    native_s: float,
    max_slowdown: float,
    left_s: float,
    leave: Path | None = None,
    beside: Sequence[int] = (),
) -> RankCounts:
    """Run a program exactly once and return its counters; ``leave`` gets them as soon as possible.

    Hardware counters are used if they give all ``REQUIRED`` counters, else emulation. The emulated
    run is counted until its mix has settled, for at most ``max_slowdown`` x ``native_s`` (the time
    in seconds without tools) of processor time and almost ``left_s`` seconds. It then goes on
    without counting, since a rank that ends early takes all others with it, until the ranks
    ``beside`` this one have left their counters, too, in the same folder.
    """
    with tempfile.TemporaryDirectory(prefix="berth-rank-") as folder:
        perf = PerfCollector(Path(folder))
        if perf.gives(REQUIRED) and perf.probe() is None:
            outcome = run_one(perf.prepare(replace(order, time_limit_s=left_s)))
            readings = perf.finish(outcome)
            report = CollectorReport(
                name="perf", status="failed" if readings.failed else "used", detail=readings.detail
            )
            counters = dict(readings.counters)
            counts = RankCounts(
                rank=rank, counters=counters, reports=(report,), succeeded=outcome.succeeded
            )
            return _left(counts, leave)
    order = replace(
        order,
        sampled=native_s > SAMPLED_S,
        settle_after_s=SETTLE_SLOWDOWN * native_s,
        time_limit_s=left_s,
    )
    others = [] if leave is None else [leave.with_name(COUNTS.format(n)) for n in beside]

    def early(emulation: Emulation) -> bool:
        if leave is not None and not leave.exists():
            _left(_counts(rank, emulation), leave)
        return all(other.exists() for other in others)

    budget_s = max(EMULATION_FLOOR_S, max_slowdown * native_s)
    emulated = emulate(
        order, tools=names_of(Stage.EMULATED), budget_s=budget_s, once=True, early=early
    )
    if all(report.status == "absent" for report in emulated.reports):
        run_one(replace(order, time_limit_s=left_s))  # the other ranks wait for this rank
    return _left(_counts(rank, emulated), leave)


def _counts(rank: int, emulation: Emulation) -> RankCounts:
    return RankCounts(
        rank=rank,
        counters=emulation.counters,
        reports=emulation.reports,
        warnings=emulation.warnings,
        succeeded=bool(emulation.counters) and not emulation.interrupted,
    )


def _left(counts: RankCounts, leave: Path | None) -> RankCounts:
    if leave is not None:
        write_json(leave, counts)
    return counts


def added(profile: Profile, counts: Sequence[RankCounts]) -> Profile:
    """Return the Profile with counters of all ranks: the counted ranks' mean x number of ranks.

    ``counts``: those of one or two ranks; a rank whose counts were refused has none.
    """
    ranks = profile.runs_on.ranks
    heard = tuple(dict.fromkeys(text for rank_counts in counts for text in rank_counts.warnings))
    reports = counts[0].reports if counts else ()
    counts = [rank_counts for rank_counts in counts if rank_counts.counters]
    known = {n: m for n, m in profile.counters.items() if m.value is not None}
    counted = _mean(counts)
    totals = {
        name: _times(measurement, ranks)
        for name, measurement in {**counted, **known}.items()
        if measurement.quality is not Quality.DERIVED and not name.endswith(NO_TOTALS)
    }
    every = (
        *(r for r in profile.collectors if r.name not in {c.name for c in reports}),
        *reports,
    )
    return profile.model_copy(
        update={
            "counters": with_missing(derive(totals), every),
            "collectors": every,
            "warnings": (*profile.warnings, *heard, *_note(counts, ranks)),
        }
    )


def _note(counts: Sequence[RankCounts], ranks: int) -> tuple[str, ...]:
    if ranks == 1 or not counts:
        return ()
    named = " and ".join(f"rank {counted.rank}" for counted in counts)
    whole = [counted.counters.get("instructions") for counted in counts]
    values = [m.value for m in whole if m is not None and m.value]
    apart = ""
    if len(values) > 1:
        spread = (max(values) - min(values)) / statistics.fmean(values)
        apart = f" (their instructions differ by {spread:.0%})"
    stand = "stand" if len(counts) > 1 else "stands"
    return (f"counters of {named}{apart}, x {ranks}: what was counted {stand} for all {ranks} "
            "ranks",)  # fmt: skip


def _mean(counts: Sequence[RankCounts]) -> dict[str, Measurement]:
    """Return the mean of each counter over the ranks, of counters that all ranks have.

    The standard error is half of the largest difference, or the largest error of a rank if greater.
    """
    if not counts:
        return {}
    first, *others = counts
    if not others:
        return dict(first.counters)
    means = {}
    for name, measurement in first.counters.items():
        same = [o.counters[name] for o in others if name in o.counters]
        values = [m.value for m in (measurement, *same) if m.value is not None]
        if measurement.value is None or len(values) < 1 + len(others):
            continue
        own = max((m.standard_error or 0.0 for m in (measurement, *same)), default=0.0)
        error = max(own, (max(values) - min(values)) / 2)
        means[name] = measurement.model_copy(
            update={
                "value": statistics.fmean(values),
                "standard_error": error or None,
                "complete": all(m.complete for m in (measurement, *same)),
            }
        )
    return means


def _times(measurement: Measurement, ranks: int) -> Measurement:
    if ranks == 1 or measurement.value is None:
        return measurement
    error, note = measurement.standard_error, f"of one rank x {ranks} ranks"
    return measurement.model_copy(
        update={
            "value": measurement.value * ranks,
            "standard_error": error and error * ranks,
            "note": f"{measurement.note}; {note}" if measurement.note else note,
        }
    )


def counts_in(folder: Path) -> list[RankCounts]:
    """Return the counters of ranks in ``folder``, sorted by rank; unreadable files are left out."""
    counts = []
    for path in folder.glob(COUNTS.format("*")):
        try:
            counts.append(read_json(path, RankCounts))
        except UsageError:
            continue
    return sorted(counts, key=lambda rank_counts: rank_counts.rank)


def job_nodes(env: Mapping[str, str]) -> int | None:
    """Return the number of nodes of the Slurm or Flux job by its environment; None if not set."""
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES", "FLUX_JOB_NNODES"):
        if nodes := whole_number(env.get(name, ""), 10_000_000):
            return nodes
    return None
