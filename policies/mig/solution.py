"""What a planner hands on: who takes what, in counts, with the proof that it has."""

from __future__ import annotations

from dataclasses import dataclass

from berth.policies.mig.offers import Kind, Offer
from berth.policies.mig.reached import Stage


@dataclass(frozen=True, slots=True)
class Solution:
    """Who takes what, in counts."""

    chosen: tuple[tuple[int, Offer, int], ...]
    """Group, offer and how many GPUs of the group take it."""
    taken: tuple[tuple[int, Kind, int], ...]
    """Type of job, kind of slot and how many."""
    stages: tuple[Stage, ...]
