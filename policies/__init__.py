"""Decides: from a Request, Candidates and Predictions to a Decision with its reason.

Pure functions over frozen values. Knows nothing of how a job reaches it or how a decision
is carried out.
"""

from berth.policies.codes import Code
from berth.policies.decide import Decider, decide
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
    "decide",
]
