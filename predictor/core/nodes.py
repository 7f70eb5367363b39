"""Tables of how a program's time and memory change with the number of nodes.

``families/program/node_scaling.py`` computes the tables together with the forecast. At job
submission Berth only looks values up. Standard library only.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from berth.predictor.core.prediction import Basis, Interval, Prediction

REACH = 2.0
"""Times count as known up to this multiple of the largest number of nodes that was measured."""
PILOT_MORE = "berth pilot submit --nodes 1,2,4, then berth workload add of the profiles"
"""The commands that a hint names for measuring the effect of nodes."""


@dataclass(frozen=True, slots=True)
class NodeRatio:
    """Time and memory on ``nodes`` nodes, divided by those on the number of nodes of the program's
    main run."""

    nodes: int
    time: Interval
    memory: Interval
    """Ratio of the memory of all nodes together."""


@dataclass(frozen=True, slots=True)
class NodeTime:
    """The run time on one number of nodes, learnt from finished jobs."""

    nodes: int
    units: int
    """Cores or GPUs per node."""
    runtime_s: Interval
    """Time in seconds at the profiled problem size."""


@dataclass(frozen=True, slots=True)
class NodeScaling:
    """How one program's time and memory change with the number of nodes, by platform."""

    measured: tuple[int, ...]
    """Numbers of nodes that the program was piloted on, ascending; the first is the main run's."""
    weak: bool = False
    """Whether the problem size grew in proportion to the nodes (weak scaling)."""
    measured_on: str = ""
    """Platform of the runs in ``measured``."""
    ratios: Mapping[str, tuple[NodeRatio, ...]] = field(default_factory=dict)
    """Ratios by platform, ascending by nodes; empty where the program ran on one number of nodes
    only."""
    learnt: Mapping[str, tuple[NodeTime, ...]] = field(default_factory=dict)
    """Times from finished jobs by platform, for numbers of nodes other than the main run's."""

    def __post_init__(self) -> None:
        if not self.measured or min(self.measured) < 1:
            raise ValueError("no number of nodes was measured")

    @property
    def base(self) -> int:
        """Return the number of nodes of the main run, the baseline of all ratios."""
        return self.measured[0]

    def units(self, units: int, nodes: int) -> int:
        """Return the cores or GPUs per node when ``units`` are spread over ``nodes``, rounded
        up."""
        return max(1, math.ceil(units / nodes))

    def size(self, size: float | None, nodes: int) -> float | None:
        """Return the main run's problem size that corresponds to ``size`` on ``nodes`` nodes."""
        return size * self.base / nodes if self.weak and size is not None else size

    def ratio(self, platform: str, nodes: int) -> NodeRatio:
        """Return time and memory on ``nodes`` nodes divided by the main run's; where unknown, the
        widest plausible range."""
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
        for job in self.learnt.get(platform, ()):
            if (job.nodes, job.units) == (nodes, units):
                return job.runtime_s
        return None

    def why_not(self, platform: str, nodes: int) -> str | None:
        """Return a sentence that says why the effect of ``nodes`` nodes is unknown; None: it is
        known."""
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
        """Return the prediction on ``nodes`` nodes, given a prediction per node of the main run.

        ``units``: requested cores or GPUs per node; ``point`` may be the nearest grid point
        instead.
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
            own_log_width=point.ratio_log_width + time.half_log_width,
            speedup=point.speedup.divided_by(time),
            memory=point.memory.times(ratio.memory),
            energy_j=None if energy is None else energy.times(time).scaled(nodes),
            abstained=point.abstained or why,
        )

    def _ran(self, point: Prediction, nodes: int, units: int, time: Interval) -> Prediction:
        reference_s, energy = point.speedup.mid * point.runtime_s.mid, point.energy_j
        grown = nodes * units / (point.gpus or point.cores) * time.mid / point.runtime_s.mid
        return replace(
            point,
            cores=point.cores * nodes if point.gpus else units * nodes,
            gpus=units * nodes if point.gpus else 0,
            nodes=nodes,
            basis=Basis.MEASURED,
            runtime_s=time,
            own_log_width=None,
            speedup=time.over(reference_s),
            memory=point.memory.times(self.ratio(point.platform, nodes).memory),
            energy_j=None if energy is None else energy.scaled(grown),
            abstained=None,
        )


_ONE = Interval(1.0, 1.0, 1.0)


def _unknown(nodes: int, base: int) -> NodeRatio:
    """Return the widest plausible ratios: time from perfect speedup to none, memory from shared
    data to a copy per node."""
    less, more = sorted((base / nodes, 1.0))
    return NodeRatio(
        nodes,
        Interval(less, math.sqrt(less * more), 1.5 * max(more, base / nodes)),
        Interval(1.0, 1.0, max(1.0, nodes / base)),
    )


def _beyond(last: NodeRatio, nodes: int) -> NodeRatio:
    """Return the ratios for more nodes than the table's last entry, assuming no further speedup at
    the upper end."""
    factor = nodes / last.nodes
    time, memory = last.time, last.memory
    return NodeRatio(
        nodes,
        Interval(time.low / factor, time.mid, time.high * factor),
        Interval(memory.low, memory.mid, memory.high * factor),
    )


def _between(left: NodeRatio, right: NodeRatio, nodes: int) -> NodeRatio:
    """Return the ratios for ``nodes`` between two entries of the table, interpolated in log."""
    weight = math.log(nodes / left.nodes) / math.log(right.nodes / left.nodes)
    return NodeRatio(
        nodes,
        left.time.between(right.time, weight),
        left.memory.between(right.memory, weight),
    )
