"""The jobs that users ask for in a run, from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Asked:
    """One job: most ask Berth to choose; some do not, some must not be touched."""

    name: str
    queue: str | None
    workload: str | None
    tasks: int
    time_limit_min: int | None
    opted_out: bool
    held: bool
    other_user: bool


def asked(seed: int, number: int) -> Asked:
    """Job ``number`` of a run."""
    random = Random(f"{seed}/{number}")
    draw = random.random()
    opted_out = 0.88 <= draw < 0.94
    queue = "auto" if draw < 0.94 else random.choice((None, "cpu"))
    workload = random.choice(("stream", "stream", "stream", "serial", None))
    return Asked(
        name=f"chaos-{number:06d}",
        queue=queue,
        workload=None if opted_out else workload,
        tasks=random.choice((1, 2, 4)),
        time_limit_min=random.choice((None, 10, 60)),
        opted_out=opted_out,
        held=random.random() < 0.97,
        other_user=random.random() < 0.2,
    )
