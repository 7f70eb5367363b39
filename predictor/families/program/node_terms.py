"""What a program's time on n nodes is made of: computation that is shared, and communication.

``t(n) = serial + parallel / n + latency(n) + bytes(n)``: what every node repeats, what the nodes
share, messages that wait for each other (``log2 n`` steps of a tree, or ``n - 1`` rounds), and
bytes over bandwidth (a ring all-reduce of fixed size, or the surface of a node's part of a
three-dimensional mesh). Few runs cannot tell all of these apart: every set of terms is fitted by
non-negative least squares, and those that fit the runs as well as they repeat are all possible. A
weakly scaled program (its problem grew with the nodes) has no shared term.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.node_runs import Run

AS_GOOD = 2.0
"""Terms that miss a run by less than this many standard deviations fit it."""
MOST_TERMS = 3
_COMPUTED = ("serial", "parallel")
_TERMS = ("serial", "parallel", "latency", "rounds", "reduced", "surface")


@dataclass(frozen=True, slots=True)
class Terms:
    """One set of terms with its fitted seconds."""

    seconds: Mapping[str, float]
    misfit: float
    """Largest distance from a run, in its standard deviations."""

    def computed(self, nodes: float) -> float:
        """Seconds that the nodes compute."""
        return self._of(_COMPUTED, nodes)

    def latency(self, nodes: float) -> float:
        """Seconds of messages that wait for the network's latency."""
        return self._of(("latency", "rounds"), nodes)

    def moved(self, nodes: float) -> float:
        """Seconds that bytes are on their way."""
        return self._of(("reduced", "surface"), nodes)

    def total(self, nodes: float) -> float:
        """All of it."""
        return self._of(tuple(self.seconds), nodes)

    def _of(self, names: Iterable[str], nodes: float) -> float:
        return sum(self.seconds.get(name, 0.0) * _shape(name, nodes) for name in names)


def fitted(runs: Sequence[Run], *, weak: bool) -> list[Terms]:
    """Every set of terms that fits the runs as well as they repeat, best first."""
    names = ("serial", "latency", "rounds", "reduced") if weak else _TERMS
    found = []
    for count in range(1, min(MOST_TERMS, len(runs)) + 1):
        for chosen in combinations(names, count):
            if not set(chosen) & set(_COMPUTED):
                continue  # a program that only communicates
            terms = _fit(runs, chosen)
            if terms is not None:
                found.append(terms)
    # Of two that fit alike, the one with fewer terms.
    found.sort(key=lambda t: (max(t.misfit, 1.0), len(t.seconds), t.misfit))
    least = max(AS_GOOD, 1.5 * min(t.misfit for t in found))
    return [terms for terms in found if terms.misfit <= least]


def _shape(name: str, nodes: float) -> float:
    """How a term grows with the nodes."""
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


def _fit(runs: Sequence[Run], names: tuple[str, ...]) -> Terms | None:
    """Least squares on relative errors; None where a term would be negative."""
    shapes = np.array([[_shape(name, run.nodes) for name in names] for run in runs])
    weights = np.array([1.0 / (run.runtime_s * run.deviation) for run in runs])
    times = np.array([run.runtime_s for run in runs])
    solved, _, rank, _ = np.linalg.lstsq(shapes * weights[:, None], times * weights, rcond=None)
    if rank < len(names) or (solved <= 0).any():
        return None
    made: Floats = shapes @ solved
    if (made <= 0).any():
        return None
    apart = np.abs(np.log(made / times)) / np.array([run.deviation for run in runs])
    return Terms(dict(zip(names, map(float, solved), strict=True)), float(apart.max()))
