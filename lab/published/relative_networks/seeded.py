"""The same numbers for the same seed: one thread, one generator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run torch on one thread from ``seed``; the caller's generator and threads come back."""
    threads, state, drawn = torch.get_num_threads(), torch.get_rng_state(), random.getstate()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random.seed(seed)  # torch-geometric draws pairs without an edge from it
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(drawn)
        torch.set_num_threads(threads)
