"""Measure the ranks of an MPI program: time and memory of all ranks, in one launch.

The pilot runs rank 0, and ``rank.py`` runs each other rank and writes a record. The runtime is that
of the slowest rank; the memory is that of the node with the largest sum over its ranks.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from berth.pilot.collectors.perf import SOURCE as PERF
from berth.pilot.derive import derive
from berth.pilot.documents import Document, read_json
from berth.pilot.errors import UsageError
from berth.pilot.profile import Measurement, NonNegative, Positive, Profile, Ranks
from berth.pilot.rank import NODE_VARIABLES
from berth.pilot.units import whole_number

RECORD = "rank-{}.json"
CPU_TIME = "cpu_time_s"


class RankRecord(Document):
    """The record of one rank, as ``rank.py`` writes it."""

    node: str
    rank: int = Field(ge=0)
    seconds: Positive
    cpu_s: NonNegative
    peak_memory_bytes: NonNegative
    exit_status: int


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
    counters = _of_all(profile.counters, scale * sum(record.cpu_s for record in every))
    if len(every) < 2 or profile.runtime is None:
        memory = profile.peak_memory_bytes
        note = f"rank 0 stands for all {ranks} ranks: its peak memory is taken x {ranks}"
        return profile.model_copy(
            update={
                "runs_on": runs_on,
                "counters": counters,
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
            "counters": counters,
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


def _of_all(rank_zero: Mapping[str, Measurement], cpu_s: float) -> dict[str, Measurement]:
    """Return the counters of all ranks, which took ``cpu_s`` seconds of processor time together:
    hardware counters are those of rank 0 in proportion to that time."""
    own = rank_zero.get(CPU_TIME)
    if own is None or not own.value or not cpu_s:
        return dict(rank_zero)
    of_all = {
        name: m.model_copy(update={"value": m.value * cpu_s / own.value})
        for name, m in rank_zero.items()
        if m.value is not None and (name == CPU_TIME or m.source == PERF)
    }
    return {**rank_zero, **derive(of_all)}


def _of_rank_zero(profile: Profile) -> RankRecord | None:
    if profile.runtime is None:
        return None
    node = next((os.environ[name] for name in NODE_VARIABLES if name in os.environ), "")
    return RankRecord(
        node=node or os.uname().nodename,
        rank=0,
        seconds=profile.runtime.median_s,
        cpu_s=profile.value(CPU_TIME) or 0.0,
        peak_memory_bytes=profile.peak_memory_bytes or 0.0,
        exit_status=profile.exit_status,
    )


def job_nodes(env: Mapping[str, str]) -> int | None:
    """Return the number of nodes of the Slurm or Flux job by its environment; None if not set."""
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES", "FLUX_JOB_NNODES"):
        if nodes := whole_number(env.get(name, ""), 10_000_000):
            return nodes
    return None
