"""How a program used the whole GPUs that it ran on, as monitoring recorded it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class GpuUse:
    """How a program used one whole GPU on its runs."""

    utilisation: float
    """Share of the time with a kernel on the GPU, 0 to 1: the median of the runs."""
    most: float
    """The same of the run that used the GPU most."""
    memory_utilisation: float | None
    """Share of the time with memory accesses, 0 to 1: the median of the runs; None: unknown."""
    runs: int


@runtime_checkable
class RecordsGpuUse(Protocol):
    """A workload's document that may know how the program used a GPU."""

    def gpu_use(self, platform: str) -> GpuUse | None:
        """Return how the program used one whole GPU of this platform; None: not recorded."""
        ...
