"""A queue of a scheduler that is not there: two jobs run and two wait on two nodes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from berth.plugin.scheduler import ClusterFacts, NodeFacts, PresentJob, QueueFacts
from berth.plugin.scheduler.facts import ReservationFacts
from berth.plugin.slurm.scheduler import Slurm

NOW_S = 1_000_000.0


def node(name: str, *queues: str, usable: bool = True) -> NodeFacts:
    return NodeFacts(name, queues, usable, 4, 4, 0)


FACTS = ClusterFacts(
    "c", "1", NOW_S,
    {name: QueueFacts(name, True, default_time_s=600.0) for name in ("a", "b")},
    (node("n1", "a"), node("n2", "a", "b"), node("n3", "b", usable=False)),
)  # fmt: skip


def job(job_id: str, queue: str = "a", **more: object) -> PresentJob:
    given = {"user": "u", "cores": 4, "submit_s": NOW_S - 50.0, "time_limit_s": 1_000.0, **more}
    running = "start_s" in more
    return PresentJob(job_id, queues=(queue,), running=running, **given)  # type: ignore[arg-type]


JOBS = (
    job("3", priority=1.0),
    job("1", start_s=NOW_S - 40.0, node_names=("n2",)),
    job("2", start_s=NOW_S - 900.0, node_names=("n1",)),
    job("4", "b", priority=5.0),
    job("5", may_start=False),
    job("6", "closed"),
    job("7", start_s=NOW_S - 9.0, node_names=("n3",)),
)


def pretend(
    monkeypatch: pytest.MonkeyPatch,
    reservations: Sequence[ReservationFacts] = (),
    jobs: Sequence[PresentJob] = JOBS,
) -> None:
    def present(_self: Slurm) -> Sequence[PresentJob]:
        return jobs

    monkeypatch.setattr(Slurm, "is_here", lambda _self: True)
    monkeypatch.setattr(Slurm, "read", lambda _self, **_how: FACTS)
    monkeypatch.setattr(Slurm, "present_jobs", present)
    monkeypatch.setattr(Slurm, "reservations", lambda _self: tuple(reservations))
