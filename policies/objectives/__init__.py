"""Objectives: what the chosen candidate is best at, found by name.

One file each, and the baselines in one; ``protocol`` says what an objective is, ``costs`` what
several of them use. Another package adds one by an entry point of ``berth.objectives``.
"""

from pathlib import Path

from berth.pilot.plugins import Registry, public_names
from berth.policies.objectives.protocol import Estimate, Objective, Term

OBJECTIVES: Registry[type[Objective]] = Registry(
    "berth.objectives",
    kind="objective",
    own=Path(__file__).parents[1] / "entry_points.ini",
    needs=public_names(Objective),
)

__all__ = ["OBJECTIVES", "Estimate", "Objective", "Term"]
