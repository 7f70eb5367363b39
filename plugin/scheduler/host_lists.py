"""Parses and writes lists of numbers and hosts: Flux's idsets (RFC 22), and hostlists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from berth.pilot.errors import SchedulerError

MOST = 100_000
"""Maximum members of a list: a longer list is refused as malformed."""
_LONGEST_NAME = 255
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})", re.DOTALL)
_HOSTS = re.compile(r"([^\[\],]*+)(?:\[([0-9,-]*+)\]([^\[\],]*+))?+(?:,|\Z)")
"""Matches one host name, with or without a bracketed range, up to the next comma. The quantifiers
are possessive, so that matching never backtracks.
"""


def idset(text: object) -> list[int]:
    """Return the numbers in an idset such as ``0-2,5`` or ``[0-2,5]``, in its order. Raises
    SchedulerError.
    """
    if not isinstance(text, str):
        raise SchedulerError(f"{text!r} is no list of ranks"[:160])
    body = text.strip()
    if body.startswith("[") and body.endswith("]"):
        body = body[1:-1]
    numbers_read: list[int] = []
    for numbers, _ in _ranges(body) if body else ():
        numbers_read.extend(numbers)
    return numbers_read


def hostlist(text: object) -> list[str]:
    """Return the host names in a hostlist such as ``node[0-2],gpu[08-10]`` (Flux or Slurm), in its
    order.

    Raises SchedulerError.
    """
    if not isinstance(text, str):
        raise SchedulerError(f"{text!r} is no list of hosts"[:160])
    names: list[str] = []
    at = 0
    while at < len(text):
        match = _HOSTS.match(text, at)
        before, ranges, after = ("", "", "") if match is None else match.groups("")
        if match is None or len(before) + len(after) > _LONGEST_NAME:
            raise SchedulerError(f"a list of hosts cannot be read: {text[at : at + 80]!r}")
        at = match.end()
        if match[2] is not None:
            before, after = before.lstrip(), after.rstrip()
            for numbers, width in _ranges(ranges):
                # names without leading zeros: takes a third of the time of the branch below
                if width == len(str(numbers[0])):
                    names.extend([f"{before}{n}{after}" for n in numbers])
                else:
                    names.extend([f"{before}{n:0{width}d}{after}" for n in numbers])
        elif before.strip():
            names.append(before.strip())
        if len(names) > MOST:
            raise SchedulerError("a list names more hosts than can be")
    return names


def _ranges(text: str) -> Iterator[tuple[range, int]]:
    """Yield the numbers of ``0-2,5``, each range with the number of digits of its first number."""
    left = MOST
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise SchedulerError(f"a list of numbers cannot be read: {text[:80]!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        left -= last - first + 1
        if last < first or left < 0:
            raise SchedulerError(f"a list of numbers cannot be read: {text[:80]!r}")
        yield range(first, last + 1), len(match[1])


def compressed(names: Iterable[str]) -> str:
    """Return the names as one hostlist, for example ``cn[0001-4500],gpu1``: sorted, each name once.

    Only numbers at the end of a name are put in brackets, because not every Slurm command reads
    brackets elsewhere.
    """
    numbered: dict[str, list[tuple[int, str]]] = {}
    for name in dict.fromkeys(names):
        match = _NUMBERED.fullmatch(name)
        before, digits = (name, "") if match is None else match.groups("")
        numbered.setdefault(before, []).append((int(digits or -1), digits))
    return ",".join(
        text for before, numbers in numbered.items() for text in _bracketed(before, sorted(numbers))
    )


def _bracketed(before: str, numbers: Sequence[tuple[int, str]]) -> list[str]:
    """Compress names that share the prefix ``before`` and end in these (number, digits) pairs.

    A range keeps the leading zeros of its first number.
    """
    ranges: list[tuple[str, int, str]] = []
    alone = []
    for number, digits in numbers:
        if not digits:
            alone.append(before)
        elif (
            ranges
            and (last := ranges[-1])[1] == number - 1
            and (digits == f"{number:0{len(last[0])}d}")
        ):
            ranges[-1] = (last[0], number, digits)
        else:
            ranges.append((digits, number, digits))
    written = [first if first == last else f"{first}-{last}" for first, _, last in ranges]
    if not written:
        return alone
    single = len(written) == 1 and "-" not in written[0]
    return [*alone, f"{before}{written[0]}" if single else f"{before}[{','.join(written)}]"]
