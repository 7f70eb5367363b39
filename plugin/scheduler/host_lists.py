"""Lists of numbers and hosts as schedulers write them: Flux's idsets (RFC 22) and hostlists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from berth.pilot.errors import SchedulerError

MOST = 1_000_000
"""More members than any instance has: what is larger is not believed."""
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_HOST = re.compile(r"([^\[\],]*)(?:\[([\d,-]*)\])?([^\[\],]*)")


def idset(text: object) -> list[int]:
    """``0-2,5`` or ``[0-2,5]`` as numbers, as written. Raises SchedulerError."""
    if not isinstance(text, str):
        raise SchedulerError(f"{text!r} is no list of ranks"[:160])
    body = text.strip()
    if body.startswith("[") and body.endswith("]"):
        body = body[1:-1]
    return [int(number) for number in _numbers(body)] if body else []


def hostlist(text: object) -> list[str]:
    """``node[0-2],gpu[08-10]`` as names, in order; Slurm's, too. Raises SchedulerError."""
    if not isinstance(text, str):
        raise SchedulerError(f"{text!r} is no list of hosts"[:160])
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        match = _HOST.fullmatch(part.strip())
        if match is None:
            raise SchedulerError(f"a list of hosts cannot be read: {part[:80]!r}")
        before, ranges, after = match.groups()
        if ranges is None:
            names.append(f"{before}{after}")
        else:
            names.extend(f"{before}{number}{after}" for number in _numbers(ranges))
        if len(names) > MOST:
            raise SchedulerError("a list names more hosts than can be")
    return names


def _numbers(text: str) -> Iterator[str]:
    """The numbers of ``0-2,5`` with the leading zeros that were written."""
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise SchedulerError(f"a list of numbers cannot be read: {text[:80]!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < MOST:
            raise SchedulerError(f"a list of numbers cannot be read: {text[:80]!r}")
        width = len(match[1])
        yield from (f"{number:0{width}d}" for number in range(first, last + 1))
