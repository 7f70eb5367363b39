"""Roofline model: predict each operator's time on a platform, and the resource that limits it.

An operator's time in seconds is ``launch + max(arithmetic, memory) / share``:

* ``launch``: the platform's launch overhead, in seconds;
* ``arithmetic``: the operator's flops over the platform's peak rate at its precision;
* ``memory``: the operator's bytes over the rate of the memory, or of the second-level cache where
  the operator's data fit in half of that cache;
* ``share``: the share of the roof that operators of this group reach, with an interval, measured
  in advance (``roof_shares.json``, see ``lab/graphs/roof_shares.py``).

Neither the model nor the platform was measured, so the basis of all predictions is ``prior``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from berth.pilot.documents import Document, read_json
from berth.pilot.profile import Positive
from berth.predictor.core.arrays import Floats
from berth.predictor.core.forecast import SourceShare
from berth.predictor.core.prediction import Basis, Bound, Interval
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.kinds import AXES, COLUMNS, FAMILIES
from berth.predictor.graphs.operators import OpFamily
from berth.predictor.graphs.values import BITS, FLOATS
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof

SHARES = Path(__file__).with_name("roof_shares.json")
CACHED_SHARE = 0.5
"""An operator's data count as cached where they take at most this share of the L2 cache."""
MATRIX = frozenset({OpFamily.CONVOLUTION, OpFamily.MATMUL, OpFamily.ATTENTION, OpFamily.RECURRENT})
BOUNDS = (Bound.COMPUTE, Bound.MEMORY, Bound.LAUNCH)
FREE = frozenset({OpFamily.VIEW, OpFamily.SHAPE})
"""Operator families that start no kernel on the device."""
_AT = {name: place for place, name in enumerate(COLUMNS)}


class Reach(Document):
    """The median share of the roofline that one group of operators reaches, and its spread."""

    share: Positive
    low: Positive
    """5 % of operators take less than ``low`` times the time that ``share`` predicts."""
    high: Positive
    """5 % of operators take more than ``high`` times the time that ``share`` predicts."""
    operators: int = Field(ge=1)


class RoofShares(Document):
    """The file ``roof_shares.json``: shares of the roofline by group of operators."""

    schema_: str = Field(default="berth.roof-shares/1", alias="schema")
    source: str
    groups: dict[str, Reach]


@cache
def shares() -> Mapping[str, Reach]:
    """Return the share of the roofline that each group of operators reaches, by group.

    The groups are ``gpu-matmul``, ``gpu-convolution``, ``gpu-other``, ``cpu`` (peak rates measured
    by benchmarks) and ``cpu-sheet`` (peak rates from a data sheet).
    """
    return read_json(SHARES, RoofShares).groups


def group_of(family: OpFamily, roof: Roof) -> str:
    """Return the key in ``shares()`` for an operator family on a platform."""
    if not roof.is_gpu:
        return "cpu" if roof.benchmarked else "cpu-sheet"
    if family is OpFamily.CONVOLUTION:
        return "gpu-convolution"
    return "gpu-matmul" if family in MATRIX else "gpu-other"


@dataclass(frozen=True, slots=True)
class Spot:
    """All nodes of one kind in a model as one point of the roofline diagram."""

    operator: str
    """The operator with its kernel size, such as ``Conv 3x3``."""
    family: OpFamily
    nodes: int
    """Number of nodes of this kind."""
    output_shape: tuple[int, ...]
    flops: float
    """Sum over all nodes of this kind; ``moved_bytes`` and ``seconds`` are sums, too."""
    moved_bytes: float
    seconds: float
    bound: Bound

    @property
    def intensity(self) -> float:
        """Return the arithmetic intensity: flops per byte moved."""
        return self.flops / max(self.moved_bytes, 1.0)

    @property
    def flops_per_s(self) -> float:
        """Return the predicted flops per second; 0 where the predicted time is 0."""
        return self.flops / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Roofline:
    """The prediction for one model at one batch size and precision on one platform."""

    roof: Roof
    numbers: Numbers
    batch: int
    seconds: Interval
    """Time of one forward pass over the whole batch."""
    least_memory_bytes: float
    """Bytes of the weights plus peak bytes of activations: the least that a framework needs."""
    graph: ModelGraph
    load: OperatorWork
    times: OperatorTimes
    """Times of one node of each of the graph's kinds."""
    basis: Basis = Basis.PRIOR
    source: str = "roofline"
    """Source of ``seconds`` (see ``families/graph/times.py``); other fields are the roofline's."""
    shares: tuple[SourceShare, ...] = ()
    """Weights of the sources that ``seconds`` are combined from."""
    note: str | None = None
    """Reasons for a wider interval than usual, and errors that the interval does not cover."""

    @cached_property
    def spots(self) -> tuple[Spot, ...]:
        """Return the kinds of operators with their time, longest first.

        Operators that start no kernel are left out.
        """
        return _spots(self)

    @cached_property
    def _bound_seconds(self) -> Floats:
        """Return the seconds of all operators limited by each resource, ordered as ``BOUNDS``."""
        count = np.bincount(self.graph.kind, minlength=len(self.load))
        each: Floats = count * self.times.seconds
        return np.asarray(np.bincount(self.times.bound, each, minlength=len(BOUNDS)), np.float64)

    @property
    def fits(self) -> bool:
        """Return whether ``least_memory_bytes`` fit in the platform's memory."""
        return self.least_memory_bytes <= self.roof.memory_bytes

    @property
    def samples_per_s(self) -> float:
        """Return the predicted samples per second at this batch size."""
        return self.batch / self.seconds.mid

    def time_share(self, bound: Bound) -> float:
        """Return the share (0 to 1) of the time in operators that this resource limits."""
        if bound not in BOUNDS:
            return 0.0
        whole = float(self._bound_seconds.sum())
        return float(self._bound_seconds[BOUNDS.index(bound)]) / max(whole, 1e-12)

    @property
    def bound(self) -> Bound:
        """Return the resource that limits the largest share of the time."""
        return max(BOUNDS, key=self.time_share)

    @property
    def energy_j(self) -> Interval | None:
        """Return the energy in joules of one run at the platform's power under load.

        None where that power is unknown.
        """
        return None if self.roof.power_w is None else self.seconds.scaled(self.roof.power_w)

    @property
    def price(self) -> Interval | None:
        """Return the price of one run in the site's currency; None if the platform has no price."""
        hourly = self.roof.price_per_hour
        return None if hourly is None else self.seconds.scaled(hourly / 3600)


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """The work of each operator (flops, bytes, launches) as arrays with one entry per operator."""

    family: NDArray[np.int64]
    """Index into ``kinds.FAMILIES``."""
    flops: Floats
    weight_bytes: Floats
    activation_bytes: Floats
    """Bytes of activations read and written."""
    launches: Floats
    """1 per operator; a recurrent layer's number of steps, as each waits for the one before."""

    def __len__(self) -> int:
        return len(self.flops)


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """Arrays [operators]: predicted seconds, their interval, and the limiting resource."""

    seconds: Floats
    low: Floats
    high: Floats
    bound: NDArray[np.int64]
    """Index into ``BOUNDS``."""


def roof_seconds(load: OperatorWork, roof: Roof, numbers: Numbers) -> tuple[Floats, Floats]:
    """Return (arithmetic, memory) seconds of each operator at the platform's peak rates."""
    matrix = np.array([family in MATRIX for family in FAMILIES])[load.family]
    peak = np.where(matrix, roof.matrix_flops[numbers], roof.vector_flops)
    both = load.weight_bytes + load.activation_bytes
    cached = both <= CACHED_SHARE * roof.l2_capacity
    from_dram = np.where(cached, load.weight_bytes, both) / roof.dram_bytes
    return load.flops / peak, np.maximum(from_dram, both / roof.l2_bytes)


def operator_times(load: OperatorWork, roof: Roof, numbers: Numbers) -> OperatorTimes:
    """Return the predicted seconds of each operator, when operators run one after the other."""
    reached = shares()
    groups = [reached[group_of(family, roof)] for family in FAMILIES]
    share, low, high = (
        np.array([getattr(g, name) for g in groups])[load.family]
        for name in ("share", "low", "high")
    )
    arithmetic, memory = roof_seconds(load, roof, numbers)
    body = np.maximum(arithmetic, memory) / share
    runs = np.array([family not in FREE for family in FAMILIES])[load.family]
    launch = np.where(runs, roof.launch_s * load.launches, 0.0)
    seconds = np.where(runs, launch + body, 0.0)
    works = np.where(arithmetic > memory, BOUNDS.index(Bound.COMPUTE), BOUNDS.index(Bound.MEMORY))
    bound = np.where(launch > body, BOUNDS.index(Bound.LAUNCH), works)
    return OperatorTimes(seconds, seconds * low, seconds * high, bound)


def load_of(graph: ModelGraph, numbers: Numbers) -> OperatorWork:
    """Return the work of each of the graph's kinds, with floats stored in the type ``numbers``."""
    column = {name: graph.kinds[:, place].astype(np.float64) for name, place in _AT.items()}
    scale = _byte_scale(graph, numbers)
    activations = (column["moved_bytes"] - column["weight_bytes"]).clip(min=0)
    weights = np.minimum(column["weight_bytes"], column["moved_bytes"])
    return OperatorWork(
        graph.kinds[:, _AT["family"]], column["flops"], weights * scale, activations * scale,
        _launches(graph),
    )  # fmt: skip


def _launches(graph: ModelGraph) -> Floats:
    recurrent = graph.kinds[:, _AT["family"]] == FAMILIES.index(OpFamily.RECURRENT)
    steps = np.maximum(graph.kinds[:, _AT["input_0"]], 1)
    return np.where(recurrent, steps, 1).astype(np.float64)


def _byte_scale(graph: ModelGraph, numbers: Numbers) -> Floats:
    codes = graph.kinds[:, _AT["dtype"]].tolist()
    return np.array([numbers.bits / BITS[c] if c in FLOATS else 1.0 for c in codes])


def _named(graph: ModelGraph, kind: int) -> str:
    row = graph.kinds[kind]
    kernel = [str(size) for axis in range(3) if (size := int(row[_AT[f"kernel_{axis}"]]))]
    name = graph.operators[int(graph.kind_operator[kind])]
    return f"{name} {'x'.join(kernel)}" if kernel else name


def native_numbers(graph: ModelGraph) -> Numbers:
    """Return the file's own precision: FP16 or BF16 where most nodes have it, otherwise FP32."""
    codes = np.bincount(graph.dtype.clip(min=0), minlength=17)
    wide, half, brain = int(codes[1]), int(codes[10]), int(codes[16])
    if max(half, brain) <= wide:
        return Numbers.FP32
    return Numbers.FP16 if half >= brain else Numbers.BF16


def roofline(
    graph: ModelGraph, roof: Roof, numbers: Numbers | None = None, load: OperatorWork | None = None
) -> Roofline:
    """Return the roofline prediction of a graph on a platform.

    ``numbers`` is the precision, by default the file's own. ``load`` may pass the result of
    ``load_of(graph, numbers)`` to save its computation.
    """
    native = native_numbers(graph)
    numbers = numbers or native
    load = load_of(graph, numbers) if load is None else load
    times = operator_times(load, roof, numbers)
    count = np.bincount(graph.kind, minlength=len(load))
    total = [float(part @ count) for part in (times.low, times.seconds, times.high)]
    scale = numbers.bits / native.bits
    return Roofline(
        roof=roof,
        numbers=numbers,
        batch=graph.batch,
        seconds=Interval(*total),
        least_memory_bytes=scale * (graph.stored_bytes + graph.peak_activation_bytes),
        graph=graph,
        load=load,
        times=times,
    )


def _spots(model: Roofline) -> tuple[Spot, ...]:
    graph, load, times = model.graph, model.load, model.times
    count = np.bincount(graph.kind, minlength=len(load))
    spots = []
    for n in np.flatnonzero((times.seconds > 0) & (count > 0)).tolist():
        row = graph.kinds[n]
        rank = min(int(row[_AT["output_rank"]]), AXES)
        each = float(count[n])
        spots.append(
            Spot(
                operator=_named(graph, n),
                family=FAMILIES[int(load.family[n])],
                nodes=int(count[n]),
                output_shape=tuple(int(x) for x in row[_AT["output_0"] : _AT["output_0"] + rank]),
                flops=each * float(load.flops[n]),
                moved_bytes=each * float(load.weight_bytes[n] + load.activation_bytes[n]),
                seconds=each * float(times.seconds[n]),
                bound=BOUNDS[int(times.bound[n])],
            )
        )
    return tuple(sorted(spots, key=lambda spot: -spot.seconds))
