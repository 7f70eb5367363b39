"""Read processes, their threads and the machine's processor time from /proc."""

from __future__ import annotations

import os
import time

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
TICK_NS = 1_000_000_000 // TICKS_PER_S
HAS_CHILDREN_FILES = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def read_file(path: str) -> str:
    """Return the text of a small /proc file; empty if the process is gone or may not be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        chunks = []
        while chunk := os.read(handle, 65_536):
            chunks.append(chunk)
        return b"".join(chunks).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)


def stat_fields(path: str) -> list[str]:
    """Return the fields of a ``stat`` file from the state (field 3 of proc(5)) on; empty if gone.

    The name before them is left out, because it can contain blanks.
    """
    return read_file(path).rpartition(")")[2].split()


def schedstat(path: str) -> tuple[int, int]:
    """Return the nanoseconds that a thread ran and waited for a processor; zeros if unknown."""
    words = read_file(path).split()
    return (int(words[0]), int(words[1])) if len(words) >= 2 else (0, 0)


def children_of(pid: int) -> list[int]:
    """Return the process ids of the direct children of all threads of ``pid``."""
    children: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return children
    for thread in threads:
        children.extend(int(p) for p in read_file(f"/proc/{pid}/task/{thread}/children").split())
    return children


def parents() -> dict[int, list[int]]:
    """Return the child pids of all processes of the machine, by parent pid.

    Used on kernels without ``/proc/PID/task/TID/children``.
    """
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isascii() and name.isdigit():
            fields = stat_fields(f"/proc/{name}/stat")
            if len(fields) > 1:
                below.setdefault(int(fields[1]), []).append(int(name))
    return below


def descendants_of(pid: int) -> list[int]:
    """Return the pids of all descendants of ``pid``, parents before children, with zombies."""
    descendants: list[int] = []
    frontier = [pid]
    table = None if HAS_CHILDREN_FILES else parents()
    while frontier:
        parent = frontier.pop()
        below = children_of(parent) if table is None else table.get(parent, [])
        descendants.extend(below)
        frontier.extend(below)
    return descendants


def processor_s(pids: list[int]) -> float:
    """Return the processor time in seconds of processes that run, with their ended children."""
    ticks = 0
    for pid in pids:
        ticks += sum(int(field) for field in stat_fields(f"/proc/{pid}/stat")[11:15])
    return ticks / TICKS_PER_S


def numbers_of(text: str) -> dict[str, int]:
    """Return the numbers in lines such as ``Key: 12 kB`` by key; other lines are left out."""
    result = {}
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isascii() and words[0].isdigit():
            result[key] = int(words[0])
    return result


def age_of(fields: list[str]) -> int:
    """Return a thread's age in nanoseconds by its :func:`stat_fields`; 0 if unknown."""
    if len(fields) < 20:
        return 0
    started = int(fields[19]) * TICK_NS
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return now - started if 0 < started < now else 0


def machine_runnable() -> int:
    """Return how many threads of the machine run or wait for a processor now, this one included."""
    _, _, after = read_file("/proc/stat").partition("procs_running ")
    word = after.partition("\n")[0]
    return int(word) if word.isascii() and word.isdigit() else 1


def machine_ticks() -> dict[str, int]:
    """Return the machine's processor time since boot in clock ticks: ``busy`` and ``stolen``.

    Empty where /proc/stat does not list both.
    """
    words = read_file("/proc/stat").split("\n", 1)[0].split()[1:]
    numbers = [int(word) for word in words if word.isascii() and word.isdigit()]
    if len(numbers) < 8:
        return {}
    user, nice, system, _, _, interrupts, soft, stolen = numbers[:8]
    return {"busy": user + nice + system + interrupts + soft, "stolen": stolen}
