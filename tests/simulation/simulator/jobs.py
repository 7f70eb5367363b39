"""Jobs as users write them, and the ledger of what became of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from berth.plugin.daemon.protocol import parse_stamp
from simulator.faults import Violation

PROFILES = ("stream", "stream", "solver", "train", "solver", "train", "unheard-of")
NAMES = ("app", "relax", "train-7", "job")
USERS = ("alice", "bob", "carol", "dan")


@dataclass(slots=True)
class Job:
    """One submission, as it was asked for."""

    name: str
    user: str
    fields: dict[str, Any]
    environment: dict[str, str] = field(default_factory=dict)
    opted_out: bool = False
    took_s: float = 0.0


@dataclass(slots=True)
class Accepted:
    """A job that a scheduler has taken."""

    job: Job
    decision: str | None
    action: str | None
    code: str | None
    queue: str | None
    """Where it was sent, if anywhere."""
    machine: str


class Ledger:
    """All jobs of a world."""

    def __init__(self) -> None:
        self.attempts = self.named = 0
        self.accepted: dict[str, Accepted] = {}
        self.confirmed: set[str] = set()
        self._decisions: dict[str, str] = {}

    def name(self) -> str:
        self.named += 1
        return f"job-{self.named}"

    def accept(self, job: Job, changed: dict[str, Any], machine: Any) -> None:
        """Note a job. Raises Violation where it, or its decision, was there before."""
        stamp = changed.get("admin_comment")
        said = (parse_stamp(stamp) or {}) if stamp else {}
        if job.name in self.accepted:
            raise Violation(f"{job.name} is there twice")
        decision = said.get("id")
        if decision is not None:
            other = self._decisions.setdefault(decision, job.name)
            if other != job.name:
                raise Violation(f"{job.name} and {other} have one decision, {decision}")
        queue = changed.get("partition") or None
        self.accepted[job.name] = Accepted(
            job, decision, said.get("action"), said.get("code"), queue, machine.name
        )

    def confirm(self, job: Job) -> None:
        """Its user saw that it is accepted."""
        self.confirmed.add(job.name)


SCRIPTS = ("#!/bin/sh\n./app\n", "#!/bin/bash\n#SBATCH -n 4\nsrun ./solver\n", "#!/bin/sh\ntrue\n")


def slurm_job(random: Random, name: str) -> Job:
    """Most ask Berth to choose; some do not, some cannot be understood."""
    draw = random.random
    uid = random.randrange(4)
    user = USERS[uid]
    fields: dict[str, Any] = {
        "user_id": 1000 + uid,
        "user_name": user,
        "name": random.choice(NAMES),
    }
    environment: dict[str, str] = {}
    place = draw()
    if place < 0.75:
        fields["partition"] = "auto"
    elif place < 0.9:
        fields["partition"] = random.choice(("cpu", "gpu", "cpu,gpu"))
    if draw() < 0.9:
        fields["script"] = random.choice(SCRIPTS)
    workload = random.choice(PROFILES)
    opted_out = False
    how = draw()
    if how < 0.6:
        fields["comment"] = f"berth:{workload}"
    elif how < 0.7 and "script" in fields:
        environment["BERTH_WORKLOAD"] = workload
    elif how < 0.75:
        fields["comment"], opted_out = "my words, berth:off", True
    elif how < 0.8:
        fields["comment"] = "berth:" + random.choice(("\xff\xfe", "a b", "x" * 2_000, "stream@2"))
    if draw() < 0.5:
        fields["num_tasks"] = random.choice((1, 2, 4, 8, 16))
    if draw() < 0.3:
        fields["cpus_per_task"] = random.choice((1, 2, 4))
    if draw() < 0.4:
        fields["time_limit"] = random.choice((1, 10, 60, 600))
    if draw() < 0.1:
        fields["min_nodes"] = random.choice((1, 2))
    if draw() < 0.1 and fields.get("partition") in ("auto", "gpu"):
        fields["gres"] = "gpu:1"
    if draw() < 0.1:
        fields["min_mem_per_node"] = random.choice((1_000, 64_000))
    if draw() < 0.05:
        fields["array_inx"] = "0-9%2"
    if draw() < 0.05:
        fields["account"] = "physics"
    if draw() < 0.03:
        fields["features"] = "fast"
    if draw() < 0.03:
        fields["exc_nodes"] = "cpu1"
    return Job(name, user, fields, environment, opted_out)
