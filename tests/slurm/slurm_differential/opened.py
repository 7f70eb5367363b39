"""Worlds that are opened side by side, and what each of them said of its cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pytest
from differential.verdicts import Verdict
from slurm_differential.worlds import World

S = TypeVar("S")


@dataclass(frozen=True)
class WorldVerdicts(Generic[S]):
    """The verdicts of one world; ``missing``: why there are none here."""

    cases: dict[str, Verdict[S]] = field(default_factory=dict)
    at_random: list[Verdict[S]] = field(default_factory=list)
    missing: str = ""


@contextmanager
def verdicts_of(
    worlds: Sequence[World], judged: Callable[[World], WorldVerdicts[Any]], *, at_once: int
) -> Iterator[Callable[[World], WorldVerdicts[Any]]]:
    """Judge all worlds in threads; gives a function that waits for one, or skips its test."""
    with ThreadPoolExecutor(at_once) as pool:
        begun = {world.name: pool.submit(judged, world) for world in worlds}

        def verdicts(world: World) -> WorldVerdicts[Any]:
            result = begun[world.name].result()
            if result.missing:
                pytest.skip(f"SLURM TESTS SKIPPED: {result.missing}")
            return result

        yield verdicts
