"""Sums up what sacct recorded of a job's steps: memory, GPU use, disk.

``MaxRSS`` and ``TRESUsageInMax`` are of the step's largest task, ``TRESUsageInAve`` is the mean
over its tasks, and ``TRESUsageInTot`` their sum. GPU memory and utilisation are there only where
the site accounts for them (``AccountingStorageTRES=gres/gpumem,gres/gpuutil``). Slurm polls them:
``InMax`` is the largest sample, and ``InAve`` the mean over tasks of each task's last sample, not a
mean over time.

A job's peak is that of its fullest node: a step holds its largest task's memory times its tasks on
a node, and steps that ran on one node at the same time hold theirs together. Where a step's part
cannot be told, the job's peak is unknown: it is never the sum of the other parts. Slurm has no
sample of most steps of under some seconds: such a step counts for nothing beside much longer ones.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler.host_lists import hostlist
from berth.plugin.scheduler.node_kinds import recorded_nodes
from berth.plugin.slurm.records import Record, bytes_of, count, duration_s, gpus_in, moment_s

_GPU_MEMORY = re.compile(r"(?:^|,)gres/gpumem=(\d{1,15}(?:\.\d{1,9})?[KMGTP]?)(?=,|$)", re.ASCII)
_GPU_USE = re.compile(r"(?:^|,)gres/gpuutil=(-?\d{1,15}(?:\.\d{1,9})?)(?=,|$)", re.ASCII)
_DISK = re.compile(r"(?:^|,)fs/disk=(\d{1,15}(?:\.\d{1,9})?[KMGTP]?)(?=,|$)", re.ASCII)
_MOST_BYTES = 2**60
_PERCENT = 100.0
_ROUNDING = 1.01
"""Largest utilisation that is taken for 1: percentages are rounded."""
_SAMPLED_S = 30.0
"""Slurm samples a step this often by default (JobAcctGatherFrequency): of a shorter one it may have
no sample."""
_MUCH_LONGER = 10.0
_EXTERN = "extern"
_BESIDE_OTHERS = frozenset(("batch", _EXTERN, "interactive"))
"""Steps of one task each that last as long as their job."""


class Used(NamedTuple):
    """What all steps of a job used, named as in ``Run``. None: not recorded, or not
    recorded of every step."""

    peak_bytes: int | None
    gpu_peak_bytes: int | None
    disk_read_bytes: int | None
    disk_written_bytes: int | None
    gpu_utilisation: float | None
    gpu_utilisation_peak: float | None


class _StepMemory(NamedTuple):
    """The memory that one step held on a node or a GPU, and when."""

    size_bytes: int | None
    """None: not known."""
    lasted_s: float
    sampled: bool
    beside_others: bool
    gpus: int
    nodes: int
    node_list: str
    start: str
    end: str


@dataclass(slots=True)
class StepUsage:
    """What a job's steps used."""

    _host: list[_StepMemory] = field(default_factory=list)
    _gpu: list[_StepMemory] = field(default_factory=list)
    _sampled: bool = False
    _disk_read_bytes: int = 0
    _disk_written_bytes: int = 0
    _gpu_seconds: float | None = None
    """Sum over steps of utilisation (0 to 1) times GPUs times seconds; None: not recorded."""
    _gpu_peak: float | None = None
    """The largest utilisation of a GPU, from 0 to 1; None: not recorded."""
    _every_gpu_task: bool = True
    """False: a step used GPUs with a number of tasks that is not recorded."""
    impossible: bool = False
    """True: a utilisation below 0 or above 100 % was recorded; such values do not count."""
    incomplete: bool = False
    """True: memory of steps was recorded, but not the whole of what they held together."""

    def add(self, record: Record) -> None:
        """Include one step."""
        step = record["JobID"].partition(".")[2]
        beside_others = step in _BESIDE_OTHERS
        tasks = count(record.get("NTasks", "")) or (1 if beside_others else None)
        nodes = max(count(record.get("NNodes") or record.get("AllocNodes", "")) or 1, 1)
        largest = bytes_of(record.get("MaxRSS", ""))
        if largest is None and step == _EXTERN:
            largest = 0  # nobody logged in
        node_list = recorded_nodes(record.get("NodeList", ""))
        times = record.get("Start", ""), record.get("End", "")
        held = _StepMemory(
            _shared(largest, tasks, nodes),
            _lasted_s(record),
            largest is not None,
            beside_others,
            0,
            nodes,
            node_list,
            *times,
        )
        self._host.append(held)
        self._sampled |= bool(largest)
        most = record.get("TRESUsageInMax", "")
        if "gres/gpu" in most:
            gpus = max(gpus_in(record.get("AllocTRES", "")) or 1, 1)
            memory = _GPU_MEMORY.search(most)
            if memory is not None and (peak := bytes_of(memory[1])):
                size_bytes = _shared(peak, tasks, gpus)
                self._gpu.append(held._replace(size_bytes=size_bytes, gpus=gpus))
            self._add_utilisation(most, tasks, gpus, record)
        self._disk_read_bytes += _disk_bytes(record.get("TRESUsageInTot", ""))
        self._disk_written_bytes += _disk_bytes(record.get("TRESUsageOutTot", ""))

    def _add_utilisation(self, most: str, tasks: int | None, gpus: int, record: Record) -> None:
        self._every_gpu_task &= tasks is not None
        # A task's utilisation is the sum over the GPUs that it uses.
        largest = self._share(most, gpus)
        if largest is not None:
            self._gpu_peak = max(self._gpu_peak or 0.0, min(largest * (tasks or 1) / gpus, 1.0))
        mean, lasted_s = self._share(record.get("TRESUsageInAve", ""), gpus), _lasted_s(record)
        if mean is not None and lasted_s < math.inf:
            self._gpu_seconds = (self._gpu_seconds or 0.0) + mean * (tasks or 1) * lasted_s

    def _share(self, tres: str, gpus: int) -> float | None:
        """Return a task's utilisation (1: one GPU all the time); None: not recorded, or it cannot
        be."""
        match = _GPU_USE.search(tres)
        if match is None:
            return None
        share = float(match[1]) / _PERCENT
        if 0.0 <= share <= gpus * _ROUNDING:
            return share
        self.impossible = True
        return None

    def used(self, *, nodes: int, gpus: int | None, elapsed_s: float) -> Used:
        """Return what the steps used of a job on ``nodes`` nodes that ran for ``elapsed_s``
        seconds."""
        mean = self._gpu_mean(gpus, elapsed_s)
        peak_bytes = _on_fullest_node(self._host, nodes)
        self.incomplete = peak_bytes is None and self._sampled
        return Used(
            _possible(peak_bytes),
            _possible(_on_fullest_gpu(self._gpu, max(gpus or 1, 1))),
            _possible(self._disk_read_bytes),
            _possible(self._disk_written_bytes),
            mean if self._every_gpu_task else None,
            self._gpu_peak if self._every_gpu_task else None,
        )

    def _gpu_mean(self, gpus: int | None, elapsed_s: float) -> float | None:
        """Return the mean utilisation of a job's GPUs, from 0 to 1; None: not recorded, or it
        cannot be."""
        if self._gpu_seconds is None or elapsed_s <= 0:
            return None
        mean = self._gpu_seconds / (max(gpus or 1, 1) * elapsed_s)
        if mean <= _ROUNDING:
            return min(mean, 1.0)
        self.impossible = True
        return None


def _shared(largest_bytes: int | None, tasks: int | None, places: int) -> int | None:
    """Return the memory on each of the nodes or GPUs that a step's tasks share; None: not known."""
    if not largest_bytes or tasks == 1:
        return largest_bytes
    return None if tasks is None else largest_bytes * -(-tasks // min(places, tasks))


def _on_fullest_node(steps: Sequence[_StepMemory], job_nodes: int) -> int | None:
    """Return the largest memory that steps held together on one node; None: not known."""
    if len(steps) == 1:
        return steps[0].size_bytes
    if not all(step.sampled for step in steps):
        steps = _without_short_ones(steps)
    if any(step.size_bytes is None for step in steps):
        return None
    several = [step for step in steps if step.size_bytes and not step.beside_others]
    if len(several) < 2 or all(step.nodes >= job_nodes for step in several):
        return _at_once(steps)  # they meet on one node at least
    return None if any(not step.node_list for step in several) else _on_named_nodes(steps)


def _without_short_ones(steps: Sequence[_StepMemory]) -> list[_StepMemory]:
    """Return the steps without those that were too short for a sample, beside much longer ones."""
    longest_s = max((step.lasted_s for step in steps if step.sampled), default=0.0)
    least_s = min(_SAMPLED_S, longest_s / _MUCH_LONGER)
    return [step for step in steps if step.sampled or step.lasted_s > least_s]


def _on_named_nodes(steps: Sequence[_StepMemory]) -> int | None:
    lists_of_node: defaultdict[str, set[str]] = defaultdict(set)
    try:
        for nodes in {step.node_list for step in steps}:
            for node in hostlist(nodes):
                lists_of_node[node].add(nodes)
    except SchedulerError:
        return None
    peaks = [
        _at_once([step for step in steps if step.node_list in {"", *lists}])
        for lists in set(map(frozenset, lists_of_node.values()))
    ]
    return None if None in peaks else max(peak for peak in peaks if peak is not None)


def _on_fullest_gpu(steps: Sequence[_StepMemory], job_gpus: int) -> int | None:
    """Return the largest memory that steps held together on one GPU; None: not known."""
    if len(steps) < 2:
        return steps[0].size_bytes if steps else None
    sizes = [step.size_bytes for step in steps]
    if None in sizes:
        return None
    at_once = _at_once([step._replace(size_bytes=step.gpus) for step in steps])
    if at_once is not None and at_once <= job_gpus:
        return max(size for size in sizes if size is not None)  # each step has its own
    return _at_once(steps)


def _at_once(steps: Iterable[_StepMemory]) -> int | None:
    """Return the largest sum of what steps held at one time; None: a time of several steps is not
    recorded.

    Times are whole seconds: a step that begins in the second in which another one ends follows it,
    and steps that begin and end in one second follow each other.
    """
    holding = [step for step in steps if step.size_bytes]
    beside = sum(step.size_bytes or 0 for step in holding if step.beside_others)
    others = [step for step in holding if not step.beside_others]
    if len(others) < 2:
        return beside + sum(step.size_bytes or 0 for step in others)
    changes: list[tuple[float, int, int]] = []
    for step in others:
        start_s, end_s = (moment_s(moment, utc=True) for moment in (step.start, step.end))
        if start_s is None:
            return None
        size_bytes = step.size_bytes or 0
        if end_s == start_s:
            changes.append((start_s, 2, size_bytes))
        else:
            changes.append((start_s, 1, size_bytes))
            changes.append((math.inf if end_s is None else end_s, 0, -size_bytes))
    most = now = 0
    for _, kind, change in sorted(changes):
        if kind != 2:
            now += change
        most = max(most, now + (change if kind == 2 else 0))
    return beside + most


def _lasted_s(record: Record) -> float:
    """Return for how long a step ran; infinite: not known."""
    seconds = count(record.get("ElapsedRaw", ""))
    lasted_s = duration_s(record.get("Elapsed")) if seconds is None else float(seconds)
    return math.inf if lasted_s is None else lasted_s


def _possible(size_bytes: int | None) -> int | None:
    """Return a size that can be; None for 0, which is that of jobs that Slurm did not sample."""
    return size_bytes if size_bytes is not None and 0 < size_bytes < _MOST_BYTES else None


def _disk_bytes(tres: str) -> int:
    match = _DISK.search(tres) if tres else None
    return (bytes_of(match[1]) or 0) if match is not None else 0
