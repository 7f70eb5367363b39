"""Nodes that break at random: what a site expects of its hardware, drawn by a seed."""

from __future__ import annotations

import numpy as np

from berth.pilot.errors import UsageError
from berth.policies.replay.cluster import Cluster, Failure

MOST = 100_000
"""Failures of one replay: more are a mistake in the numbers."""


def random_failures(
    cluster: Cluster, *, mean_s: float, repair_s: float, begin_s: float, end_s: float, seed: int = 0
) -> tuple[Failure, ...]:
    """Failures within ``[begin_s, end_s)``, in order of time.

    ``mean_s``: mean time between the failures of one node, exponential; ``repair_s``: how long each
    is out, always the same. Slices do not break on their own. Raises UsageError.
    """
    if not (mean_s > 0 and repair_s > 0):
        raise UsageError("nodes break and are repaired after more than 0 s")
    nodes = [
        (kind.name, node)
        for kind in cluster.kinds
        if kind.name not in cluster.slice_kinds
        for node in range(kind.count)
    ]
    if (end_s - begin_s) * len(nodes) > MOST * mean_s:
        raise UsageError(
            f"{len(nodes)} nodes would break more than {MOST} times",
            hint="give a longer time between failures",
        )
    dice = np.random.default_rng(seed)
    found: list[Failure] = []
    for kind, node in nodes:
        moment = begin_s + float(dice.exponential(mean_s))
        while moment < end_s:
            found.append(Failure(kind, node, moment, moment + repair_s))
            moment += repair_s + float(dice.exponential(mean_s))
    return tuple(sorted(found, key=lambda one: (one.begin_s, one.kind, one.node)))
