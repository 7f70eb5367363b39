"""Whether a partition gives a job the time limit that is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from berth.pilot.errors import UsageError
from berth.plugin.slurm.records import Record, duration_s


def check_time(
    given: str, limit_s: float, asked: str | None, partitions: Sequence[Record], *, hint: str
) -> None:
    """Raises UsageError, naming MaxTime, where no partition that is asked for gives so much time.

    ``given``: the option as it was written; ``asked``: partitions as sbatch takes them, with
    commas, None: the default one; ``partitions``: all records of ``scontrol show partition``.
    Slurm counts whole minutes.
    """
    names = asked.split(",") if asked else _default(partitions)
    here = [one for one in partitions if one["PartitionName"] in names]
    limits_s = [duration_s(one.get("MaxTime")) for one in here]
    longest_s = max((math.inf if one is None else one for one in limits_s), default=math.inf)
    if math.ceil(limit_s / 60) * 60 <= longest_s:
        return
    limits = ", ".join(f"{one['PartitionName']} (MaxTime={one['MaxTime']})" for one in here)
    raise UsageError(f"{given} is more time than a job may have in partition {limits}", hint=hint)


def _default(partitions: Sequence[Record]) -> list[str]:
    return [one["PartitionName"] for one in partitions if one.get("Default") == "YES"]
