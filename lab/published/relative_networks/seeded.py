"""The same numbers for the same seed: one thread, one generator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run torch on one thread from ``seed``; the caller's generator and threads come back."""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)
        torch.set_num_threads(threads)
