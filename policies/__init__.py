"""Decides where a job runs: from a Request, Candidates and predictions to a Decision with a reason.

Pure functions over frozen values; this package does not know how jobs arrive or how a decision is
carried out.

Modules are imported at first use, so that a program that needs only the codes does not load the
decider. The function ``decide`` is in the module of the same name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from berth.policies.codes import Code
    from berth.policies.decide import Decider
    from berth.policies.objectives import OBJECTIVES, Objective
    from berth.policies.settings import PolicySettings, Weights
    from berth.policies.values import (
        Candidate,
        CandidateState,
        Decision,
        Edit,
        Mode,
        Ranked,
        Request,
        Resources,
        Translation,
    )

__all__ = [
    "OBJECTIVES",
    "Candidate",
    "CandidateState",
    "Code",
    "Decider",
    "Decision",
    "Edit",
    "Mode",
    "Objective",
    "PolicySettings",
    "Ranked",
    "Request",
    "Resources",
    "Translation",
    "Weights",
]

_ROOMS = {
    "codes": ("Code",),
    "decide": ("Decider",),
    "objectives": ("OBJECTIVES", "Objective"),
    "settings": ("PolicySettings", "Weights"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOM_OF.get(name, 'values')}"), name)
