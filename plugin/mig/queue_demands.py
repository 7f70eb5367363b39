"""What waits in Slurm's queue for slices: the demands of an automatic re-cut."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection

from berth.plugin.slurm.commands import run
from berth.policies.mig.demands import Demand, SliceOption

MAX_JOBS = 100_000
_WAITS_FOR_ROOM = ("Resources", "Priority", "None", "ReqNodeNotAvail")
_GRES = re.compile(r"gpu:(?P<type>[^:=,(]+)(?:[:=](?P<count>\d{1,4}))?(?=,|$)")


def pending(
    profiles: Collection[str],
    pattern: str = "{profile}",
    *,
    command: Callable[[list[str]], str] = run,
) -> tuple[Demand, ...]:
    """Jobs that wait for room on slices of these profiles, one demand a profile.

    Held jobs and those that wait for other jobs do not count. Raises SchedulerError.
    """
    text = command(["squeue", "-h", "-r", "-a", "-t", "PENDING", "-o", "%D|%r|%b"])
    names = {pattern.replace("{profile}", profile): profile for profile in profiles}
    wanted: Counter[str] = Counter()
    for line in text.splitlines()[:MAX_JOBS]:
        nodes, _, rest = line.partition("|")
        reason, _, gres = rest.partition("|")
        if not reason.startswith(_WAITS_FOR_ROOM) or not nodes.isdecimal():
            continue
        for match in _GRES.finditer(gres):
            if match["type"] in names:
                wanted[names[match["type"]]] += int(match["count"] or 1) * int(nodes)
    return tuple(
        Demand(name=profile, options=(SliceOption(profile),), count=count)
        for profile, count in sorted(wanted.items())
        if count
    )
