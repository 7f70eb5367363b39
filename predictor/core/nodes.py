"""How one program's time and memory change with the number of nodes, ready for a look-up.

Tables by platform, made with the forecast (``families/program/node_scaling.py``): the submit path
only looks them up. Standard library only.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from berth.predictor.core.prediction import Basis, Interval, Prediction, rounded

REACH = 2.0
"""Times are known up to so many times the largest number of nodes that was measured."""
PILOT_MORE = "berth pilot submit --nodes 1,2,4, then berth workload add of the profiles"


@dataclass(frozen=True, slots=True)
class NodeRatio:
    """One number of nodes, over the number that the program's main run was on."""

    nodes: int
    time: Interval
    memory: Interval
    """Ratio of the memory of all nodes together."""


@dataclass(frozen=True, slots=True)
class NodeTime:
    """The time on one number of nodes that finished jobs show."""

    nodes: int
    units: int
    """Cores or GPUs of each node."""
    runtime_s: Interval
    """Time at the profiled size."""


@dataclass(frozen=True, slots=True)
class NodeScaling:
    """The knowledge of a program on several nodes."""

    measured: tuple[int, ...]
    """Numbers of nodes that it ran on, ascending; the first is that of the main run."""
    weak: bool = False
    """The problem grew with the nodes."""
    measured_on: str = ""
    """Platform of those runs."""
    ratios: Mapping[str, tuple[NodeRatio, ...]] = field(default_factory=dict)
    """Ratios by platform, ascending by nodes; empty where it ran on one number of nodes only."""
    learnt: Mapping[str, tuple[NodeTime, ...]] = field(default_factory=dict)
    """Times by platform on numbers of nodes, other than the main run's, that jobs finished on."""

    @property
    def base(self) -> int:
        """Return the nodes of the main run, which all ratios are over."""
        return self.measured[0]

    def units(self, units: int, nodes: int) -> int:
        """Return the cores or GPUs of one node, of ``units`` on ``nodes`` nodes."""
        return max(1, math.ceil(units / nodes))

    def size(self, size: float | None, nodes: int) -> float | None:
        """Return the main run's size that ``size`` on ``nodes`` nodes stands for."""
        return size * self.base / nodes if self.weak and size is not None else size

    def ratio(self, platform: str, nodes: int) -> NodeRatio:
        """Return time and memory over the main run's; where unknown, the ends of what can be."""
        if nodes == self.base:
            return NodeRatio(nodes, _ONE, _ONE)
        table = self.ratios.get(platform, ())
        if not table:
            return _unknown(nodes, self.base)
        index = bisect.bisect_left([entry.nodes for entry in table], nodes)
        if index == len(table):
            return _beyond(table[-1], nodes)
        right = table[index]
        if right.nodes == nodes or index == 0:
            return replace(right, nodes=nodes)
        return _between(table[index - 1], right, nodes)

    def learnt_at(self, platform: str, units: int, nodes: int) -> Interval | None:
        """Return the time on ``nodes`` nodes with ``units`` cores or GPUs each; None: no job."""
        for job in self.learnt.get(platform, ()):
            if (job.nodes, job.units) == (nodes, units):
                return job.runtime_s
        return None

    def why_not(self, platform: str, nodes: int) -> str | None:
        """Say why nothing is known of so many nodes; None: it is known."""
        if nodes == self.base:
            return None
        if len(self.measured) < 2:
            count = "one node" if self.base == 1 else f"{self.base} nodes"
            return (
                f"it was measured on {count} only, and {nodes} are asked for: pilot it on several "
                f"({PILOT_MORE})"
            )
        if platform not in self.ratios:
            return f"how its time changes with nodes was measured on {self.measured_on} only"
        if not self.base / REACH <= nodes <= REACH * self.measured[-1]:
            counts = ", ".join(map(str, self.measured))
            most = int(REACH * self.measured[-1])
            return (
                f"it was measured on {counts} nodes, which tells of at most {most}, and {nodes} "
                "are asked for: pilot it on more"
            )
        return None

    def moved(self, point: Prediction, nodes: int, units: int) -> Prediction:
        """Return a prediction for each of the main run's nodes as one on ``nodes`` nodes.

        ``units``: cores or GPUs of each that are asked for, of which ``point`` may be the nearest.
        """
        if nodes == self.base == 1:
            return point
        learnt = self.learnt_at(point.platform, units, nodes)
        if learnt is not None:
            return self._ran(point, nodes, units, learnt)
        ratio, why = self.ratio(point.platform, nodes), self.why_not(point.platform, nodes)
        ran_so = nodes == self.base or (
            point.platform == self.measured_on and nodes in self.measured
        )
        basis = point.basis
        if not ran_so and basis.rank < Basis.SCALED.rank:
            basis = Basis.SCALED
        energy, time = point.energy_j, ratio.time
        return replace(
            point,
            cores=point.cores * nodes,
            gpus=point.gpus * nodes,
            nodes=nodes,
            basis=basis,
            runtime_s=point.runtime_s.times(time),
            speedup=point.speedup.divided_by(time),
            memory=point.memory.times(ratio.memory),
            energy_j=None if energy is None else energy.times(time).scaled(nodes),
            abstained=point.abstained or why,
        )

    def _ran(self, point: Prediction, nodes: int, units: int, time: Interval) -> Prediction:
        """Return the prediction as jobs ran on so many nodes."""
        reference_s, energy = point.speedup.mid * point.runtime_s.mid, point.energy_j
        grown = nodes * units / (point.gpus or point.cores) * time.mid / point.runtime_s.mid
        return replace(
            point,
            cores=point.cores * nodes if point.gpus else units * nodes,
            gpus=units * nodes if point.gpus else 0,
            nodes=nodes,
            basis=Basis.MEASURED,
            runtime_s=time,
            speedup=time.over(reference_s),
            memory=point.memory.times(self.ratio(point.platform, nodes).memory),
            energy_j=None if energy is None else energy.scaled(grown),
            abstained=None,
        )


_ONE = Interval(1.0, 1.0, 1.0)


def _unknown(nodes: int, base: int) -> NodeRatio:
    """Return the range from a perfect gain to none, in memory from shared to repeated data."""
    less, more = sorted((base / nodes, 1.0))
    return NodeRatio(
        nodes,
        Interval(less, math.sqrt(less * more), 1.5 * max(more, base / nodes)),
        Interval(1.0, 1.0, max(1.0, nodes / base)),
    )


def _beyond(last: NodeRatio, nodes: int) -> NodeRatio:
    """Extend the table's last entry to more nodes, with no further gain at the upper end."""
    factor = nodes / last.nodes
    time, memory = last.time, last.memory
    return NodeRatio(
        nodes,
        Interval(time.low / factor, time.mid, time.high * factor),
        Interval(memory.low, memory.mid, memory.high * factor),
    )


def _between(left: NodeRatio, right: NodeRatio, nodes: int) -> NodeRatio:
    weight = math.log(nodes / left.nodes) / math.log(right.nodes / left.nodes)
    return NodeRatio(
        nodes,
        left.time.between(right.time, weight),
        left.memory.between(right.memory, weight),
    )


def to_data(scaling: NodeScaling) -> dict[str, Any]:
    """Return the scaling as a forecast's JSON holds it."""
    return {
        "measured": scaling.measured,
        "weak": scaling.weak,
        "measured_on": scaling.measured_on,
        "ratios": {
            name: [[entry.nodes, rounded(entry.time), rounded(entry.memory)] for entry in table]
            for name, table in scaling.ratios.items()
        },
        "learnt": {
            name: [[job.nodes, job.units, rounded(job.runtime_s)] for job in jobs]
            for name, jobs in scaling.learnt.items()
        },
    }


def from_data(data: Any) -> NodeScaling:
    """Read what ``to_data`` made. Raises KeyError, TypeError or ValueError for anything else."""
    measured = tuple(int(n) for n in data["measured"])
    if not measured or min(measured) < 1:
        raise ValueError("no number of nodes was measured")
    return NodeScaling(
        measured=measured,
        weak=bool(data["weak"]),
        measured_on=str(data["measured_on"]),
        ratios={
            name: tuple(NodeRatio(int(n), Interval(*t), Interval(*m)) for n, t, m in table)
            for name, table in data["ratios"].items()
        },
        learnt={
            name: tuple(NodeTime(int(n), int(units), Interval(*t)) for n, units, t in jobs)
            for name, jobs in data["learnt"].items()
        },
    )
