"""What a tune asks of a replay: the figures of a policy on a part of the past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from berth.policies.settings import PolicySettings
from berth.policies.tuning.figures import Figures
from berth.policies.tuning.slicing import Slicing


class Part(NamedTuple):
    """Jobs submitted in ``[begin_s, end_s)``, in seconds after the first submission."""

    begin_s: float
    end_s: float


class Replayer(Protocol):
    """A trace on a cluster. Equal questions get equal answers."""

    @property
    def notes(self) -> Sequence[str]:
        """What of the jobs was changed or left out when they were read, in lines."""
        ...

    @property
    def span_s(self) -> float:
        """From the first submission to the last."""
        ...

    def replay(self, policy: PolicySettings, part: Part) -> Figures:
        """What would have happened to the jobs of ``part`` under ``policy``."""
        ...

    @property
    def layouts(self) -> Sequence[str]:
        """Ways to cut a GPU that leave no room; empty where none, or several models, are cut."""
        ...

    @property
    def slicing(self) -> Slicing:
        """How GPUs are cut."""
        ...

    def cut(self, slicing: Slicing) -> Replayer:
        """The same jobs on GPUs that are cut so."""
        ...

    def in_pools(self) -> Replayer:
        """A faster one, good enough to compare trials: without fragmentation of nodes."""
        ...
