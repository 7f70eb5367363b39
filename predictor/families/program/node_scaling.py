"""How a program's time and memory change with the number of nodes, as tables by platform.

The time on ``n`` nodes is ``t(n) = serial + parallel / n + latency(n) + bytes(n)``, in seconds:

- ``serial``: work that every node repeats;
- ``parallel``: work that the nodes share (absent if the problem grew with the nodes);
- ``latency(n)``: messages that wait for each other, ``log2 n`` steps of a tree or ``n - 1`` rounds;
- ``bytes(n)``: bytes over bandwidth, of a ring all-reduce of fixed size or of the surface of a
  node's part of a three-dimensional mesh.

A few runs cannot tell all terms apart. Each set of at most three terms is fitted by least squares;
sets with a negative term are discarded. All sets that fit the runs within their noise are used.

On another platform, computation scales with the speedup of one node, and communication with the
ratio of the interconnects, between that of latencies and that of bandwidths. The interval covers
all fitting sets of terms and widens with the distance from the measured numbers of nodes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import NORMAL_90
from berth.predictor.core.nodes import REACH, NodeRatio, NodeScaling
from berth.predictor.core.prediction import Interval
from berth.predictor.families.program.node_runs import NodeRun, grows, runs_of

WIDENING = 0.1
"""Widening of the log interval per doubling of nodes away from the nearest measured number."""
UNKNOWN_NETWORK = 4.0
"""Uncertainty of communication time, as a factor up and down, where an interconnect is
unmeasured."""
_MOST_POINTS = 33
"""Largest number of entries that are spread over the range of a table."""


def scaling_of(
    profile: Profile, platforms: Mapping[str, Platform], speedups: Mapping[str, float]
) -> NodeScaling:
    """Return how the program's time and memory change with the number of nodes of each platform.

    ``speedups`` gives, by platform, the speedup of one node over one node of the platform that the
    profile was measured on. The table of a platform is absent if its scaling cannot be predicted.
    """
    runs = runs_of(profile)
    counts = tuple(run.nodes for run in runs)
    if len(runs) < 2:
        return NodeScaling(counts, measured_on=profile.platform)
    weak = grows(profile)
    possible = fitted(runs, weak=weak)
    home = platforms.get(profile.platform)
    ratios = {}
    for name, platform in platforms.items():
        if name != profile.platform and (platform.is_gpu or home is None or home.is_gpu):
            continue
        speedup = 1.0 if name == profile.platform else speedups.get(name)
        if speedup is not None:
            network = _networks(home, platform)
            ratios[name] = _table(runs, possible, speedup, network)
    return NodeScaling(counts, weak, profile.platform, ratios)


Ratios = tuple[float, ...]
"""Communication time on the target over that on the profile's own platform: the most likely ratio,
then others that are possible."""
SAME: Ratios = (1.0,)


def _networks(home: Platform | None, target: Platform) -> Ratios:
    """Return the ratios by latency and by bandwidth, between which communication lies."""
    if home is not None and home.name == target.name:
        return SAME
    ours, theirs = None if home is None else home.interconnect, target.interconnect
    known = []
    if ours is not None and theirs is not None:
        parts = (theirs.latency_s, ours.latency_s), (ours.bytes_per_s, theirs.bytes_per_s)
        known = [more / less for more, less in parts if more and less]
    if len(known) < 2:
        return (1.0, 1.0 / UNKNOWN_NETWORK, UNKNOWN_NETWORK)
    return (math.sqrt(math.prod(known)), *known)


def _table(
    runs: Sequence[NodeRun],
    possible: Sequence[NodeTerms],
    speedup: float,
    network: Ratios,
) -> tuple[NodeRatio, ...]:
    """Return time and memory relative to the smallest run, for each number of nodes near the
    measured.

    Numbers reach from half the smallest to twice the largest measured number of nodes (``REACH``).
    """
    most = math.floor(REACH * runs[-1].nodes)
    least = max(1, math.ceil(runs[0].nodes / REACH))
    counts = {run.nodes for run in runs} | {
        round(n) for n in np.geomspace(least, most, min(_MOST_POINTS, most - least + 1))
    }
    if most - least < _MOST_POINTS:
        counts |= set(range(least, most + 1))
    return tuple(
        NodeRatio(n, _time(runs, possible, n, speedup, network), _memory(runs, n))
        for n in sorted(counts)
    )


def _time(
    runs: Sequence[NodeRun],
    possible: Sequence[NodeTerms],
    nodes: int,
    speedup: float,
    network: Ratios,
) -> Interval:
    base, own_run = runs[0], next((run for run in runs if run.nodes == nodes), None)

    def ratio(terms: NodeTerms, slower: float) -> float:
        def seconds(n: int) -> float:
            # Times are multiplied by the speedup, so that computation needs no factor.
            computed_s = terms.computed(n)
            return computed_s + speedup * slower * (terms.total(n) - computed_s)

        scaled = seconds(nodes) / seconds(base.nodes)
        if own_run is None:
            return scaled
        # At a measured number of nodes, use the measured time; the terms only divide it into parts.
        return (
            scaled
            * (own_run.runtime_s / base.runtime_s)
            * terms.total(base.nodes)
            / terms.total(nodes)
        )

    mid = math.exp(statistics.median(math.log(ratio(terms, network[0])) for terms in possible))
    every = [ratio(terms, slower) for terms in possible for slower in network]
    spread = max(run.deviation for run in runs)
    if own_run is not None:
        width = NORMAL_90 * math.hypot(base.deviation, own_run.deviation)
    else:
        nearest = min(abs(math.log2(nodes / run.nodes)) for run in runs)
        width = NORMAL_90 * spread * max(1.0, possible[0].misfit) + WIDENING * nearest
    factor = math.exp(width)
    return Interval(
        float(min([*every, mid]) / factor), float(mid), float(max([*every, mid]) * factor)
    )


def _memory(runs: Sequence[NodeRun], nodes: int) -> Interval:
    base = runs[0]
    known = [(run.nodes, run.peak_memory_bytes) for run in runs if run.peak_memory_bytes]
    if base.peak_memory_bytes is None or not known:
        return Interval(1.0, 1.0, max(1.0, nodes / base.nodes))
    own = base.peak_memory_bytes
    below = [(n, m / own) for n, m in known if n <= nodes] or [(known[0][0], 1.0)]
    above = [(n, m / own) for n, m in known if n >= nodes]
    n, own_ratio = below[-1]
    # No node needs more memory than a node of a run on fewer nodes.
    most = max(1.0, own_ratio * max(1.0, nodes / n))
    mid = own_ratio
    if above and above[0][0] > n:
        weight = math.log(nodes / n) / math.log(above[0][0] / n)
        mid = math.exp(math.log(own_ratio) * (1 - weight) + math.log(above[0][1]) * weight)
        most = max(1.0, min(most, max(own_ratio, above[0][1])))
    return Interval(min(mid, 1.0), mid, max(mid, most))


AS_GOOD = 2.0
"""Distance from a run, in standard deviations, up to which a set of terms counts as fitting."""
MOST_TERMS = 3
"""Largest number of terms in one set."""
_COMPUTED = ("serial", "parallel")
_TERMS = ("serial", "parallel", "latency", "rounds", "reduced", "surface")


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """Terms of a formula for the run time over nodes (serial, parallel, latency, ...), fitted to
    runs."""

    seconds: Mapping[str, float]
    """Fitted coefficient of each term in seconds; ``_shape`` gives the factor for a number of
    nodes."""
    misfit: float
    """Largest distance between fitted and measured log time, in standard deviations of the run."""

    def computed(self, nodes: float) -> float:
        """Return the seconds of computation on ``nodes`` nodes."""
        return self._of(_COMPUTED, nodes)

    def total(self, nodes: float) -> float:
        """Return the seconds of all terms together on ``nodes`` nodes."""
        return self._of(tuple(self.seconds), nodes)

    def _of(self, names: Iterable[str], nodes: float) -> float:
        return sum(self.seconds.get(name, 0.0) * _shape(name, nodes) for name in names)


def fitted(runs: Sequence[NodeRun], *, weak: bool) -> list[NodeTerms]:
    """Return all sets of time terms (serial, parallel, latency, ...) that fit the runs within
    noise.

    The best fit comes first. ``weak`` excludes the terms that need a problem of fixed size.
    """
    names = ("serial", "latency", "rounds", "reduced") if weak else _TERMS
    fitting_terms = []
    for count in range(1, min(MOST_TERMS, len(runs)) + 1):
        for chosen in combinations(names, count):
            if not set(chosen) & set(_COMPUTED):
                continue  # Without a term of computation, the program would only communicate.
            terms = _fit(runs, chosen)
            if terms is not None:
                fitting_terms.append(terms)
    # Among sets that fit within the noise, those with fewer terms come first.
    fitting_terms.sort(key=lambda t: (max(t.misfit, 1.0), len(t.seconds), t.misfit))
    least = max(AS_GOOD, 1.5 * min(t.misfit for t in fitting_terms))
    return [terms for terms in fitting_terms if terms.misfit <= least]


def _shape(name: str, nodes: float) -> float:
    """Return how the time term ``name`` grows with nodes: the factor on its fitted seconds."""
    match name:
        case "serial":
            return 1.0
        case "parallel":
            return 1.0 / nodes
        case "latency":
            return math.log2(nodes)
        case "rounds":
            return nodes - 1.0
        case "reduced":
            return 2.0 * (nodes - 1.0) / nodes
        case _:
            return nodes ** (-2.0 / 3.0) if nodes > 1 else 0.0


def _fit(runs: Sequence[NodeRun], names: tuple[str, ...]) -> NodeTerms | None:
    """Return the fitted seconds of the time terms ``names``; None: the runs do not allow all of
    them.

    Least squares of relative errors. None if a fitted term is not positive or is undetermined.
    """
    shapes = np.array([[_shape(name, run.nodes) for name in names] for run in runs])
    weights = np.array([1.0 / (run.runtime_s * run.deviation) for run in runs])
    times = np.array([run.runtime_s for run in runs])
    solved, _, rank, _ = np.linalg.lstsq(shapes * weights[:, None], times * weights, rcond=None)
    if rank < len(names) or (solved <= 0).any():
        return None
    predicted: Floats = shapes @ solved
    if (predicted <= 0).any():
        return None
    apart = np.abs(np.log(predicted / times)) / np.array([run.deviation for run in runs])
    return NodeTerms(dict(zip(names, map(float, solved), strict=True)), float(apart.max()))
