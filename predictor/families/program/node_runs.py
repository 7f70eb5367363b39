"""Combine the profiles of one program on several numbers of nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from berth.pilot.derive import NO_TOTALS
from berth.pilot.errors import UsageError
from berth.pilot.profile import Measurement, NodePoint, Profile

GPU_MEMORY = "gpu_memory_bytes"
"""Counter that stays the sum over all nodes, as the profile's peak of host memory does."""
NOISE = 0.02
"""Least standard deviation of log time that is assumed between repeated runs."""
SAME_SIZE = 0.02
"""Largest log difference of two problem sizes that count as equal."""


@dataclass(frozen=True, slots=True)
class NodeRun:
    """Run time and memory of a program on one number of nodes."""

    nodes: int
    runtime_s: float
    deviation: float
    """Standard deviation of the log run time."""
    peak_memory_bytes: float | None
    """Peak memory of all nodes together in bytes; None: unknown."""


def runs_of(profile: Profile) -> list[NodeRun]:
    assert profile.runtime is not None  # noqa: S101 - without a runtime nothing is predicted
    own = profile.runs_on.nodes or 1
    every = [
        NodeRun(own, profile.runtime.median_s, _deviation(profile.runtime.median_s,
            profile.runtime.spread_s), profile.peak_memory_bytes)
    ]  # fmt: skip
    every += [
        NodeRun(p.nodes, p.runtime_s, _deviation(p.runtime_s, p.spread_s), p.peak_memory_bytes)
        for p in profile.node_scaling or ()
        if p.nodes != own
    ]
    return sorted(every, key=lambda run: run.nodes)


def grows(profile: Profile) -> bool:
    """Return whether the problem size grew with the number of nodes (weak scaling).

    False: the size stayed the same (strong scaling) or is unknown. Raises UsageError if the size
    did neither.
    """
    own, base = profile.workload.size, profile.runs_on.nodes or 1
    points = profile.node_scaling or ()
    sized = [point for point in points if point.size is not None]
    if own is None or not sized or all(_alike(p.size or 0.0, own) for p in sized):
        return False
    if all(_alike(p.size or 0.0, own * p.nodes / base) for p in sized):
        return True
    sizes = ", ".join(f"{p.size:g} on {p.nodes}" for p in sized)
    raise UsageError(
        f"the problem of {profile.name!r} neither stayed nor grew with the nodes: {own:g} on "
        f"{base}, {sizes}",
        hint="run the same size on all (strong scaling), or a size that grows with them (weak)",
    )


def together(profiles: Sequence[Profile]) -> Profile:
    """Return one profile that holds the runs of one program on several numbers of nodes.

    This is the profile with the fewest nodes, with the run times of the others added. Raises
    UsageError if the profiles differ in program or platform, if a run did not complete, or if two
    runs have the same number of nodes.
    """
    ordered = sorted(profiles, key=lambda p: p.runs_on.nodes or 1)
    first = ordered[0]
    points = {point.nodes: point for point in first.node_scaling or ()}
    for other in ordered[1:]:
        point = _point(first, other)
        if point.nodes in points or point.nodes == (first.runs_on.nodes or 1):
            raise UsageError(
                f"two profiles are of {point.nodes} node{'s' * (point.nodes > 1)} of "
                f"{first.platform}",
                hint="give one of each number of nodes",
            )
        points[point.nodes] = point
    merged = first.model_copy(
        update={"node_scaling": tuple(points[n] for n in sorted(points)) or None}
    )
    grows(merged)
    return merged


def one_node(profile: Profile) -> Profile:
    """Return a profile of a run on several nodes as a profile of one average node.

    Ranks and counted totals are divided by the number of nodes; the run time stays.
    """
    nodes = profile.runs_on.nodes or 1
    if nodes == 1:
        return profile

    def share(measurement: Measurement) -> Measurement:
        if measurement.value is None:
            return measurement
        error = measurement.standard_error
        return measurement.model_copy(
            update={
                "value": measurement.value / nodes,
                "standard_error": None if error is None else error / nodes,
            }
        )

    counters = {
        name: measurement if name.endswith(NO_TOTALS) or name == GPU_MEMORY else share(measurement)
        for name, measurement in profile.counters.items()
    }
    ranks = math.ceil(profile.runs_on.ranks / nodes)
    runs_on = profile.runs_on.model_copy(update={"ranks": ranks})
    return profile.model_copy(update={"counters": counters, "runs_on": runs_on})


def same_program(first: Profile, second: Profile) -> bool:
    """Return whether two profiles have the same executable, by checksum or else by file name."""
    ours, theirs = first.workload, second.workload
    if ours.executable_sha256 is not None and theirs.executable_sha256 is not None:
        return ours.executable_sha256 == theirs.executable_sha256
    return ours.command[0].rpartition("/")[2] == theirs.command[0].rpartition("/")[2]


def _point(first: Profile, other: Profile) -> NodePoint:
    """Return the run of profile ``other`` as an entry in the node scaling of profile ``first``.

    Raises UsageError if both differ in program or platform, or if the run did not complete.
    """
    if other.platform != first.platform:
        raise UsageError(
            f"{other.name!r} was measured on {other.platform!r}, {first.name!r} on "
            f"{first.platform!r}",
            hint="runs on several numbers of nodes are of one platform",
        )
    if not same_program(first, other):
        raise UsageError(
            f"{other.name!r} is not of the program of {first.name!r} (another executable)"
        )
    if other.runtime is None or not other.complete or other.exit_status != 0:
        raise UsageError(f"the run of {other.name!r} did not complete")
    return NodePoint(
        nodes=other.runs_on.nodes or 1,
        ranks=other.runs_on.ranks,
        size=other.workload.size,
        runtime_s=other.runtime.median_s,
        spread_s=other.runtime.spread_s,
        peak_memory_bytes=other.peak_memory_bytes,
    )


def _deviation(runtime_s: float, spread_s: float) -> float:
    # The interquartile range of a normal distribution is 1.35 standard deviations.
    return max(NOISE, spread_s / runtime_s / 1.35)


def _alike(a: float, b: float) -> bool:
    return abs(math.log(a / b)) <= SAME_SIZE if a > 0 and b > 0 else False
