"""Compute tensors' lifetimes, their peak memory, and the memory that PyTorch's allocator reserves.

A tensor is alive from the step that writes it to the last step that reads it or a view of it. A
tensor that no node reads is an output and stays alive to the end. So do the tensors that autograd
saves for the backward pass (``saved``).

PyTorch's caching allocator rounds requests up to 512 bytes. Requests up to 1 MiB are served from
segments of 2 MiB, those below 10 MiB from segments of 20 MiB; larger ones get their own segment,
rounded up to 2 MiB. A request takes the smallest free block that is large enough. The rest of the
block becomes a free block if it has at least 512 bytes (small requests) or more than 1 MiB (other
requests). Adjacent free blocks are merged. Segments are not returned to the device. (PyTorch,
c10/cuda/CUDACachingAllocator.cpp; default settings.)
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Sequence
from typing import NamedTuple

from berth.predictor.footprint.storage import Storage
from berth.predictor.graphs.operators import OpFamily

_IN_PLACE = frozenset({OpFamily.ACTIVATION, OpFamily.ELEMENTWISE, OpFamily.NORMALISATION})


class TensorLife(NamedTuple):
    """A tensor of ``size`` bytes that is alive from step ``first`` to step ``last``, inclusive."""

    first: int
    last: int
    size: int


def tensors(
    stored: Storage, *, lasting: Collection[int] = (), reuse: bool = False
) -> list[TensorLife]:
    """Return the tensors of one forward pass with their lifetimes, in the order of writing.

    ``lasting``: nodes whose output the backward pass needs (see ``saved``); they, and then the
    inputs of folded normalisations, stay alive to the end. ``reuse``: pointwise nodes and
    normalisations overwrite an input that no later node reads.
    """
    n = len(stored)
    last = last_reads(stored)
    for node in range(n):
        if not stored.readers[node]:
            last[stored.owner[node]] = n - 1
    for node in lasting:
        last[stored.owner[node]] = n - 1
    begins, taken = _in_place(stored, last) if reuse else (list(range(n)), [False] * n)
    living = []
    for node in range(n):
        if stored.written[node] and not taken[node]:
            living.append(TensorLife(begins[node], last[node], stored.written[node]))
        if stored.twin[node]:
            living.append(TensorLife(node, n - 1 if lasting else node, stored.twin[node]))
    return sorted(living, key=lambda tensor: tensor.first)


def last_reads(stored: Storage) -> list[int]:
    """Return, for each node, the last step that reads its buffer, directly or through a view."""
    last = list(range(len(stored)))
    for node, sources in enumerate(stored.sources):
        for source in sources:
            last[stored.owner[source]] = node
    return last


def _in_place(stored: Storage, last: list[int]) -> tuple[list[int], list[bool]]:
    """Return, for each node, the step that first wrote its buffer, and whether it is overwritten.

    A buffer is overwritten where a later node writes its output in place.
    """
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


def peak(living: Sequence[TensorLife]) -> int:
    """Return the peak memory: the largest sum of bytes of tensors that are alive in one step."""
    if not living:
        return 0
    change = [0] * (max(tensor.last for tensor in living) + 2)
    for tensor in living:
        change[tensor.first] += tensor.size
        change[tensor.last + 1] -= tensor.size
    live = most = 0
    for step in change:
        live += step
        most = max(most, live)
    return most


ROUND = 512
SMALL = 2**20
SMALL_SEGMENT = 2 * 2**20
MIDDLE_SEGMENT = 20 * 2**20
LARGE = 10 * 2**20
LARGE_ROUND = 2 * 2**20


class _MemoryBlock:
    """A block of memory in a segment of the allocator, free or in use."""

    __slots__ = ("after", "before", "free", "number", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.free = False
        self.before: _MemoryBlock | None = None
        self.after: _MemoryBlock | None = None


class CachingAllocator:
    """Simulates PyTorch's caching allocator; ``reserved`` is the bytes taken from the device."""

    def __init__(self) -> None:
        self.reserved = 0
        self._made = 0
        self._free: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        self._blocks: dict[int, _MemoryBlock] = {}

    def take(self, size: int) -> int:
        """Allocate a block of at least ``size`` bytes and return the block's number."""
        size = max(ROUND, -(-size // ROUND) * ROUND)
        small = size <= SMALL
        pool = self._free[small]
        place = bisect_left(pool, (size, -1))
        if place < len(pool):
            _, number = pool.pop(place)
            block = self._blocks[number]
        else:
            block = self._new(_segment(size))
            self.reserved += block.size
        left = block.size - size
        if left >= ROUND if small else left > SMALL:
            rest = self._new(left)
            rest.free, rest.before, rest.after = True, block, block.after
            if block.after is not None:
                block.after.before = rest
            block.after, block.size = rest, size
            insort(pool, (left, rest.number))
        block.free = False
        return block.number

    def give(self, number: int, *, small: bool) -> None:
        """Free a block; ``small`` states whether at most 1 MiB was requested for it."""
        block, pool = self._blocks[number], self._free[small]
        for other in (block.before, block.after):
            if other is not None and other.free:
                pool.pop(bisect_left(pool, (other.size, other.number)))
                first, second = (other, block) if other is block.before else (block, other)
                first.size += second.size
                first.after = second.after
                if second.after is not None:
                    second.after.before = first
                del self._blocks[second.number]
                block = first
        block.free = True
        insort(pool, (block.size, block.number))

    def _new(self, size: int) -> _MemoryBlock:
        self._made += 1
        block = self._blocks[self._made] = _MemoryBlock(self._made, size)
        return block


def _segment(size: int) -> int:
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < LARGE:
        return MIDDLE_SEGMENT
    return -(-size // LARGE_ROUND) * LARGE_ROUND


def reserved(tensors: Sequence[TensorLife], before: Sequence[int] = ()) -> int:
    """Return the bytes that PyTorch's allocator has reserved after a run with these tensors.

    ``before`` are the sizes in bytes of tensors that exist throughout (weights).
    """
    allocator = CachingAllocator()
    for size in before:
        allocator.take(size)
    ending: dict[int, list[tuple[int, bool]]] = {}
    step = -1
    for tensor in sorted(tensors, key=lambda tensor: tensor.first):
        while step < tensor.first:
            for number, small in ending.pop(step, ()):
                allocator.give(number, small=small)
            step += 1
        number = allocator.take(tensor.size)
        ending.setdefault(tensor.last, []).append((number, tensor.size <= SMALL))
    return allocator.reserved
