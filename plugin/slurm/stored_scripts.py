"""Texts of batch scripts, where the site's accounting stores them.

Slurm does so from 21.08 on with ``AccountingStoreFlags=job_script``. ``sacct --batch-script``
writes each job's script under a line with its number (``7``, ``8_2``). Users write scripts, with
such lines in them if they like: jobs of one user are asked for together, and an answer with other
numbers than those asked for is not used, so that nobody writes the script of another user's job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.plugin.slurm import commands
from berth.plugin.slurm.configuration import listed, read_configuration

FLAG = "job_script"
AT_ONCE = 100
"""Jobs of one question."""
_TIMEOUT_S = 120.0
_HEADING = re.compile(r"^Batch Script for (\S{1,40})\n-{80}\n", re.MULTILINE)
_ABSENT = frozenset(("", "NONE"))


def are_stored() -> bool:
    """Whether the accounting stores scripts; False where Slurm does not say."""
    try:
        flags = listed(read_configuration(), "AccountingStoreFlags")
    except (SchedulerError, ToolMissing):
        return False
    return FLAG in map(str.lower, flags)


def scripts_of(by_user: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Scripts by job number, of those jobs of each user that have one stored.

    Ends where Slurm does not answer: what is missing is missing.
    """
    found: dict[str, str] = {}
    for jobs in by_user.values():
        waiting = [jobs[begin : begin + AT_ONCE] for begin in range(0, len(jobs), AT_ONCE)]
        while waiting:
            some = waiting.pop()
            try:
                text = commands.run(
                    ("sacct", "--batch-script", "-j", ",".join(some)), timeout_s=_TIMEOUT_S
                )
            except (SchedulerError, ToolMissing):
                return found
            read = parse(text, some)
            if read is not None:
                found.update(read)
            elif len(some) > 1:  # all but the job whose script holds such a line
                waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
    return found


def parse(text: str, asked: Sequence[str]) -> dict[str, str] | None:
    """Scripts by number; None where the numbers are not those asked for, each once at most."""
    parts = _HEADING.split(text)
    numbers, scripts = parts[1::2], parts[2::2]
    if len(set(numbers)) < len(numbers) or not set(numbers) <= set(asked):
        return None
    read = {n: script.removesuffix("\n") for n, script in zip(numbers, scripts, strict=True)}
    return {number: script for number, script in read.items() if script.strip() not in _ABSENT}
