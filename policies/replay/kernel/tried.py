"""Jobs that found no room in a partition in this pass: one that is no easier need not be tried.

Row ``k`` of ``tried`` is what such a job needs of a node or pool, with how long it runs.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.columns import Floats, Ints
from berth.policies.replay.kernel.state import (
    E_HOLE,
    E_LIMIT,
    E_PLAN,
    P_TRIED,
    R_HOLE,
    R_UNITS,
    State,
)


def try_anew(s: State) -> None:
    """There may be room again: what was tried does not count any more."""
    for p in range(len(s.part_values)):
        s.parts[p, P_TRIED] = 0


def needs_no_less(tried: Ints, k: int, need: Ints, o: int) -> bool:
    """Whether the option needs at least what the tried one does, of each resource."""
    for r in range(need.shape[1]):
        if need[o, r] < tried[k, r]:
            return False
    return True


def needs_no_more(tried: Ints, k: int, need: Ints, o: int) -> bool:
    """Whether the option needs at most what the tried one does, of each resource."""
    for r in range(need.shape[1]):
        if need[o, r] > tried[k, r]:
            return False
    return True


def put_tried(
    tried: Ints, spans: Floats, k: int, need: Ints, units: int, plan: float, limit: float
) -> None:
    """What needs so much of so many nodes, and runs so long, into row ``k``."""
    for r in range(len(need)):
        tried[k, r] = need[r]
        tried[k, R_HOLE + r] = 0
    tried[k, R_UNITS] = units
    spans[k, E_PLAN] = plan
    spans[k, E_LIMIT] = limit
    spans[k, E_HOLE] = np.inf
