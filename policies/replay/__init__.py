"""Simulate a trace of jobs on a cluster, under a scheduler's settings and a placement policy.

``replay(trace, cluster, settings, placement)`` returns a ``Replayed``; ``metrics(replayed)``
computes its figures. The event loop is compiled where numba is installed (``berth[replay]``).
"""

from berth.policies.replay.cluster import (
    Cluster,
    NodeKind,
    Partition,
    Reservation,
    SlicedGpus,
    one_pool,
)
from berth.policies.replay.engine import replay
from berth.policies.replay.metrics import Metrics, metrics
from berth.policies.replay.placement import Option, Placer, Present
from berth.policies.replay.replayed import ReplayCounts, Replayed
from berth.policies.replay.settings import Backfill, Settings
from berth.policies.replay.trace import Trace, trace_of
from berth.policies.replay.users import UserChange, changes_by_user

__all__ = [
    "Backfill",
    "Cluster",
    "Metrics",
    "NodeKind",
    "Option",
    "Partition",
    "Placer",
    "Present",
    "ReplayCounts",
    "Replayed",
    "Reservation",
    "Settings",
    "SlicedGpus",
    "Trace",
    "UserChange",
    "changes_by_user",
    "metrics",
    "one_pool",
    "replay",
    "trace_of",
]
