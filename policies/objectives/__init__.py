"""Objectives: the rules that choose the best candidate, looked up by name.

``protocol`` defines an objective. Another package adds an objective by an entry point in the group
``berth.objectives``.
"""

from pathlib import Path

from berth.pilot.plugins import Registry, public_names
from berth.policies.objectives.protocol import JobEstimate, Objective, ScoreTerm

OBJECTIVES: Registry[type[Objective]] = Registry(
    "berth.objectives",
    kind="objective",
    own=Path(__file__).parents[1] / "entry_points.ini",
    needs=public_names(Objective),
)

__all__ = ["OBJECTIVES", "JobEstimate", "Objective", "ScoreTerm"]
