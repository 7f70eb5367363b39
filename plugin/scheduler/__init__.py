"""The interface between Berth and a scheduler, and the registry of schedulers by name.

``facts`` and ``jobs`` hold the values, ``protocol`` the methods, ``registry`` the names. Each
scheduler is implemented in a folder of its own beside this one, or in another package.
"""

from berth.plugin.scheduler.facts import ClusterFacts, NodeFacts, QueueFacts, ReservationFacts
from berth.plugin.scheduler.jobs import (
    EndedJobs,
    Job,
    JobNow,
    NodeJob,
    PresentJob,
    Replacing,
    WorkersJob,
    stamped_decision,
    unmoved_by_filter,
)
from berth.plugin.scheduler.protocol import Scheduler
from berth.plugin.scheduler.registry import all_schedulers, scheduler_named
from berth.plugin.scheduler.states import ReadStates, StatesReading, state_reader, states_of
from berth.plugin.site.schedulers import SCHEDULERS

__all__ = [
    "SCHEDULERS",
    "ClusterFacts",
    "EndedJobs",
    "Job",
    "JobNow",
    "NodeFacts",
    "NodeJob",
    "PresentJob",
    "QueueFacts",
    "ReadStates",
    "Replacing",
    "ReservationFacts",
    "Scheduler",
    "StatesReading",
    "WorkersJob",
    "all_schedulers",
    "scheduler_named",
    "stamped_decision",
    "state_reader",
    "states_of",
    "unmoved_by_filter",
]
