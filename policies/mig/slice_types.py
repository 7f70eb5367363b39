"""For the submit filter: slice types to ask for, best first, none that the fleet cannot make.

Look-ups only, no prediction: what it needs of a workload is the interval of its GPU memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from berth.policies.mig.layout import GpuState
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Interval


def fits(memory_bytes: float, need: Interval) -> bool:
    """True where memory of this size certainly suffices: it reaches the need's upper end."""
    return need.high <= memory_bytes


def makeable(fleet: Iterable[GpuState], *, recut: bool) -> dict[str, tuple[int, int, float]]:
    """Profiles that the fleet has (or, with ``recut``, can be cut to), with what is sure of each.

    By name: memory slices, compute slices, and the least memory in bytes over the GPU models that
    have a profile of that name, for a type's name is all that a job can ask for.
    """
    found: dict[str, tuple[int, int, float]] = {}
    for state in fleet:
        if not state.mig_enabled:
            continue
        names = {i.profile for i in state.layout.instances}
        for p in state.geometry.profiles:
            if p.name not in names and not (recut and p.is_plain):
                continue
            known = found.get(p.name, (p.memory_slices, p.compute_slices, float(p.memory_bytes)))
            found[p.name] = (
                max(known[0], p.memory_slices),
                max(known[1], p.compute_slices),
                min(known[2], float(p.memory_bytes)),
            )
    return found


def slice_types(
    need: Interval, fleet: Iterable[GpuState], *, recut: bool = False
) -> tuple[str, ...]:
    """Names of the slice types whose memory reaches the need's upper end, smallest first.

    Empty: no slice will do, and the job should keep what it asked for.
    """
    found = makeable(fleet, recut=recut)
    good = [name for name, (_, _, memory) in found.items() if fits(memory, need)]
    return tuple(sorted(good, key=lambda name: (found[name], name)))


def slice_types_of(
    forecast: Forecast,
    platform: str,
    fleet: Iterable[GpuState],
    *,
    size: float | None = None,
    recut: bool = False,
) -> tuple[str, ...]:
    """The same from a stored forecast; ``platform`` is the whole GPU's. Unknown there: empty."""
    memory = forecast.memory_at(platform, size)
    if memory is None or memory.gpu_bytes is None:
        return ()
    return slice_types(memory.gpu_bytes, fleet, recut=recut)
