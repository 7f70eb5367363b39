"""When each tensor lives, and the most that lives at once.

A tensor lives from the step that writes it to the last step that reads it, or any view of it; what
nobody reads is an output and lives to the end. With autograd recording, what the backward pass
will read lives to the end, too (``saved``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from berth.predictor.footprint.storage import Storage
from berth.predictor.graphs.operators import Family

_IN_PLACE = frozenset({Family.ACTIVATION, Family.ELEMENTWISE, Family.NORMALISATION})


class Tensor(NamedTuple):
    """Bytes that live from step ``first`` to step ``last``, both included."""

    first: int
    last: int
    size: int


def tensors(stored: Storage, *, kept: Collection[int] = (), reuse: bool = False) -> list[Tensor]:
    """The tensors of one forward pass, in the order in which they are written.

    ``kept``: nodes whose memory the backward pass needs (see ``saved``): they live to the end, as
    do the inputs of folded normalisations. ``reuse``: pointwise nodes and normalisations write over
    what they read where nobody needs it any more.
    """
    n = len(stored)
    last = last_reads(stored)
    for node in range(n):
        if not stored.readers[node]:
            last[stored.owner[node]] = n - 1
    for node in kept:
        last[stored.owner[node]] = n - 1
    begins, taken = _in_place(stored, last) if reuse else (list(range(n)), [False] * n)
    found = []
    for node in range(n):
        if stored.written[node] and not taken[node]:
            found.append(Tensor(begins[node], last[node], stored.written[node]))
        if stored.twin[node]:
            found.append(Tensor(node, n - 1 if kept else node, stored.twin[node]))
    return sorted(found, key=lambda tensor: tensor.first)


def last_reads(stored: Storage) -> list[int]:
    """[n] the last step that reads each node's memory, itself or through a view."""
    last = list(range(len(stored)))
    for node, sources in enumerate(stored.sources):
        for source in sources:
            last[stored.owner[source]] = node
    return last


def _in_place(stored: Storage, last: list[int]) -> tuple[list[int], list[bool]]:
    """[n] the step at which each node's memory was first written, and whether it was taken over."""
    begins, taken = list(range(len(stored))), [False] * len(stored)
    for node, sources in enumerate(stored.sources):
        if stored.family[node] not in _IN_PLACE or not stored.written[node]:
            continue
        for source in sources:
            root = stored.owner[source]
            fits = stored.written[root] == stored.written[node] and last[root] == node
            if fits and root != node and not taken[root]:
                begins[node], taken[root] = begins[root], True
                break
    return begins, taken


def peak(found: Sequence[Tensor]) -> int:
    """Most bytes alive in one step."""
    if not found:
        return 0
    change = [0] * (max(tensor.last for tensor in found) + 2)
    for tensor in found:
        change[tensor.first] += tensor.size
        change[tensor.last + 1] -= tensor.size
    live = most = 0
    for step in change:
        live += step
        most = max(most, live)
    return most
