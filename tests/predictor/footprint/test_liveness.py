"""Which tensors live when: against brute force on random graphs, and by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from berth.predictor.footprint.liveness import CachingAllocator, TensorLife, peak, reserved, tensors
from berth.predictor.footprint.saved import Saved, backward_peak
from berth.predictor.footprint.storage import Storage
from berth.predictor.graphs.operators import OpFamily

KINDS = (OpFamily.CONVOLUTION, OpFamily.ACTIVATION, OpFamily.VIEW, OpFamily.MATMUL)
MIB = 2**20


@st.composite
def stores(draw: st.DrawFn) -> Storage:
    """The storage of a random directed acyclic graph with views."""
    n = draw(st.integers(1, 24))
    family, sources, owner, written, twin = [], [], [], [], []
    for node in range(n):
        before = draw(st.lists(st.integers(0, node - 1), max_size=3, unique=True)) if node else []
        kind = draw(st.sampled_from(KINDS))
        view = kind is OpFamily.VIEW and bool(before)
        family.append(kind)
        sources.append(tuple(before))
        owner.append(owner[before[0]] if view else node)
        written.append(0 if view else draw(st.sampled_from((0, 1, 8, 8, 64, 1000))))
        twin.append(draw(st.sampled_from((0, 0, 8))) if kind is OpFamily.CONVOLUTION else 0)
    readers = tuple(tuple(r for r in range(n) if node in sources[r]) for node in range(n))
    return Storage(
        tuple(family), ("X",) * n, readers, tuple(sources), tuple(owner), tuple(written),
        tuple(twin), (-1,) * n, (False,) * n,
    )  # fmt: skip


def brute_force(stored: Storage, kept: set[int]) -> int:
    """The peak by asking of every tensor in every step whether anything still wants it."""
    n, most = len(stored), 0
    for step in range(n):
        live = 0
        for node in range(step + 1):
            shown = [k for k in range(n) if stored.owner[k] == node]
            wanted = (
                node == step
                or any(reader >= step for k in shown for reader in stored.readers[k])
                or any(not stored.readers[k] for k in shown)
                or bool(kept.intersection(shown))
            )
            # A view made later than its last reader's step is still in the future: it wants it too.
            live += stored.written[node] if wanted else 0
            live += stored.twin[node] if node == step or kept else 0
        most = max(most, live)
    return most


@given(stores(), st.data())
@settings(max_examples=examples(200), deadline=None)
def test_the_peak_is_that_of_brute_force(stored: Storage, data: st.DataObject) -> None:
    kept = data.draw(st.sets(st.integers(0, len(stored) - 1)))
    assert peak(tensors(stored, lasting=kept)) == brute_force(stored, kept)


@given(stores())
@settings(max_examples=examples(100), deadline=None)
def test_working_in_place_never_needs_more_and_recording_never_less(stored: Storage) -> None:
    plain = peak(tensors(stored))
    assert peak(tensors(stored, reuse=True)) <= plain
    everything = frozenset(range(len(stored)))
    assert peak(tensors(stored, lasting=everything)) >= plain
    assert backward_peak(stored, Saved(everything, 0)) >= peak(tensors(stored, lasting=everything))


@given(stores())
@settings(max_examples=examples(100), deadline=None)
def test_what_is_reserved_holds_what_is_alive(stored: Storage) -> None:
    found = tensors(stored)
    assert reserved(found) >= peak(found)


def test_nothing_needs_nothing() -> None:
    assert peak([]) == 0
    assert reserved([]) == 0


@pytest.mark.parametrize(
    ("asked", "segments"),
    [
        ([1], 2 * MIB),
        ([MIB, MIB], 2 * MIB),
        ([MIB, MIB, 1], 4 * MIB),
        ([MIB + 1], 20 * MIB),
        ([10 * MIB - 512], 20 * MIB),
        ([10 * MIB], 10 * MIB),
        ([10 * MIB + 1], 12 * MIB),
        ([5 * MIB] * 4, 20 * MIB),
        ([5 * MIB] * 5, 40 * MIB),
    ],
)
def test_requests_are_cut_from_segments_as_in_pytorch(asked: list[int], segments: int) -> None:
    allocator = CachingAllocator()
    for size in asked:
        allocator.take(size)
    assert allocator.reserved == segments


def test_freed_neighbours_are_joined_and_taken_again() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.take(6 * MIB) for _ in range(3)]
    for number in blocks[:2]:
        allocator.give(number, small=False)
    allocator.take(12 * MIB)  # fits the two joined, in the segment that is there
    assert allocator.reserved == 20 * MIB
    allocator.take(12 * MIB)
    assert allocator.reserved == 32 * MIB


def test_small_and_large_requests_do_not_share_segments() -> None:
    allocator = CachingAllocator()
    number = allocator.take(20 * MIB)
    allocator.give(number, small=False)
    allocator.take(512)
    assert allocator.reserved == 22 * MIB


@given(st.lists(st.tuples(st.integers(1, 30 * MIB), st.booleans()), max_size=60))
@settings(max_examples=examples(100), deadline=None)
def test_blocks_never_overlap_and_never_exceed_what_is_reserved(
    orders: list[tuple[int, bool]],
) -> None:
    allocator, held = CachingAllocator(), []
    for size, release in orders:
        if release and held:
            number, old = held.pop()
            allocator.give(number, small=old <= MIB)
        held.append((allocator.take(size), size))
        assert sum(size for _, size in held) <= allocator.reserved
        assert len({number for number, _ in held}) == len(held)


def test_a_tensor_lives_in_its_first_and_in_its_last_step() -> None:
    found = [TensorLife(0, 1, 5), TensorLife(1, 2, 7), TensorLife(2, 2, 11)]
    assert peak(found) == 18
    assert [a.first <= b.first for a, b in pairwise(found)] == [True, True]
