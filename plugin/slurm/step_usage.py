"""Sums up what sacct recorded of a job's steps: memory, GPU use, disk.

``TRESUsageInMax`` is of the step's largest task, ``TRESUsageInAve`` the mean over its tasks, and
``TRESUsageInTot`` their sum. GPU memory and utilisation are there only where the site accounts for
them (``AccountingStorageTRES=gres/gpumem,gres/gpuutil``). Slurm polls them: ``InMax`` is the
largest sample, and ``InAve`` the mean over tasks of each task's last sample, not a mean over time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from berth.plugin.slurm.records import Record, count, gpus_in

_GPU_MEMORY = re.compile(r"(?:^|,)gres/gpumem=(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)(?=,|$)", re.ASCII)
_GPU_USE = re.compile(r"(?:^|,)gres/gpuutil=(-?\d{1,15}(?:\.\d{1,9})?)(?=,|$)", re.ASCII)
_DISK = re.compile(r"(?:^|,)fs/disk=(\d{1,15})(?:\.\d{1,9})?([KMGTP]?)(?=,|$)", re.ASCII)
_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
_MOST_BYTES = 2**60
_PERCENT = 100.0
_ROUNDING = 1.01
"""Largest utilisation that is taken for 1: percentages are rounded."""


@dataclass(slots=True)
class StepUsage:
    """What a job's steps used, in bytes and seconds; 0: no step reported it."""

    host_bytes: int = 0
    """The largest host memory on one node."""
    gpu_bytes: int = 0
    """The largest memory on one GPU."""
    disk_read_bytes: int = 0
    disk_written_bytes: int = 0
    gpu_seconds: float | None = None
    """Sum over steps of utilisation (0 to 1) times GPUs times seconds; None: not recorded."""
    gpu_peak: float | None = None
    """The largest utilisation of a GPU, from 0 to 1; None: not recorded."""
    impossible: bool = False
    """True: a utilisation below 0 or above 100 % was recorded; such values do not count."""

    def add(self, largest_bytes: int, nodes: str, record: Record) -> None:
        """Include one step's use, estimated for a whole node and a whole GPU.

        MaxRSS and TRESUsageInMax are those of the step's largest task, so they are multiplied by
        the number of tasks per node, or per GPU of ``AllocTRES``. ``largest_bytes``: MaxRSS;
        ``nodes``: NNodes.
        """
        tasks = max(count(record.get("NTasks", "")) or 1, 1)
        held = largest_bytes * -(-tasks // min(max(count(nodes) or 1, 1), tasks))
        self.host_bytes = max(self.host_bytes, held)
        most = record.get("TRESUsageInMax", "")
        if "gres/gpu" in most:
            self._add_gpus(most, tasks, record)
        self.disk_read_bytes += _disk_bytes(record.get("TRESUsageInTot", ""))
        self.disk_written_bytes += _disk_bytes(record.get("TRESUsageOutTot", ""))

    def _add_gpus(self, most: str, tasks: int, record: Record) -> None:
        gpus = max(gpus_in(record.get("AllocTRES", "")) or 1, 1)
        memory = _GPU_MEMORY.search(most)
        peak = 0 if memory is None else int(float(memory[1]) * 2.0 ** _POWERS[memory[2]])
        if 0 < peak < _MOST_BYTES:
            self.gpu_bytes = max(self.gpu_bytes, peak * -(-tasks // min(gpus, tasks)))
        # A task's utilisation is the sum over the GPUs that it uses.
        largest = self._share(most, gpus)
        if largest is not None:
            self.gpu_peak = max(self.gpu_peak or 0.0, min(largest * tasks / gpus, 1.0))
        mean = self._share(record.get("TRESUsageInAve", ""), gpus)
        seconds = count(record.get("ElapsedRaw", ""))
        if mean is not None and seconds is not None:
            self.gpu_seconds = (self.gpu_seconds or 0.0) + mean * tasks * seconds

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

    def gpu_mean(self, gpus: int | None, elapsed_s: float) -> float | None:
        """Return the mean utilisation of a job's GPUs over its ``elapsed_s`` seconds, from 0 to 1;
        None: not recorded, or it cannot be."""
        if self.gpu_seconds is None or elapsed_s <= 0:
            return None
        mean = self.gpu_seconds / (max(gpus or 1, 1) * elapsed_s)
        if mean <= _ROUNDING:
            return min(mean, 1.0)
        self.impossible = True
        return None


def _disk_bytes(tres: str) -> int:
    match = _DISK.search(tres) if tres else None
    if match is None:
        return 0
    size = int(match[1]) << _POWERS[match[2]]
    return size if size < _MOST_BYTES else 0
