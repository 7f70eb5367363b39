"""How many threads of a run computed at the same time, and how long they waited for a processor.

A thread computes if both hold:

- its processor time is at least 1/``BUSY_SHARE`` of that of the busiest thread;
- its rate (processor time / age) is at least 1/``RATE_SHARE`` of the highest rate.

Unevenly loaded workers pass: a worker with half of the work has half of the rate, and a worker
that ended early ran until its end. A helper thread for I/O, with about a tenth of the rate, does
not. Threads below the second limit count as well if the sum of their rates is at least
1/``TEAM_SHARE`` of the highest rate: the program is then parallel for a short part of its time.
"""

from __future__ import annotations

import math
import os

from .proc import TICK_NS, age_of, read_file, stat_fields

BUSY_SHARE = 10
RATE_SHARE = 4
TEAM_SHARE = 2
THREADS_MAX = 1_000
LOOKED_AT_OFTEN = 32
"""Up to so many threads of a process are looked at in each sample; more only in slow samples."""
LEAST_OTHERS_NS = 25_000_000
"""Least processor time of the threads but the first that counts at exit: the kernel tells the sum
in steps of 10 ms."""
BEYOND_SEEN = 0.3
"""Processor time over wall time may exceed the number of computing threads seen by so much."""


def threads_at_exit(process_ns: int, leader_ns: int, age_ns: int, seen: int) -> int:
    """Return the least number of computing threads of a process that ended; 0: nothing to add.

    ``process_ns``, ``leader_ns``: processor time of all its threads, and of its first thread;
    ``age_ns``: for how long it existed; ``seen``: how many computing threads the samples showed.
    """
    others_ns = process_ns - leader_ns
    busy = process_ns / max(age_ns, 1)
    unseen = seen < 2 or busy > seen + BEYOND_SEEN
    if not unseen or others_ns < LEAST_OTHERS_NS or others_ns * BUSY_SHARE < leader_ns:
        return 0
    together = 2 if leader_ns * BUSY_SHARE >= others_ns else 1
    return max(together, math.ceil(busy - BEYOND_SEEN))


class Threads:
    """Times of the threads of all processes of a run, from samples and from each process's end."""

    def __init__(self) -> None:
        self.times: dict[tuple[int, str], tuple[int, int]] = {}
        """(pid, thread id) -> nanoseconds run and nanoseconds waited for a processor, at the last
        sample of the thread."""
        self.ages: dict[tuple[int, str], int] = {}
        """(pid, thread id) -> age of the thread in nanoseconds at that sample, where known."""
        self.together: dict[int, set[frozenset[str]]] = {}
        """Sets of thread IDs that were alive at the same sample, by process ID."""
        self.leaders: dict[int, tuple[int, int]] = {}
        """Process ID -> nanoseconds that its first thread ran and waited, when it ended."""
        self.at_exit: dict[int, tuple[int, int, int]] = {}
        """Process ID -> nanoseconds run by all its threads and by its first one, and its age, when
        it ended."""

    def sample(self, pid: int, count: int, *, slow: bool) -> None:
        """Read the times of the ``count`` threads of a process; of many only if ``slow``."""
        if count > LOOKED_AT_OFTEN and not slow:
            return
        try:
            names = os.listdir(f"/proc/{pid}/task") if count > 1 else [str(pid)]
        except OSError:
            return
        names = names[:THREADS_MAX]
        self.together.setdefault(pid, set()).add(frozenset(names))
        for name in names:
            words = read_file(f"/proc/{pid}/task/{name}/schedstat").split()
            if len(words) >= 2:
                self.times[pid, name] = (int(words[0]), int(words[1]))
                if age := age_of(f"/proc/{pid}/task/{name}/stat"):
                    self.ages[pid, name] = age

    def ended(self, pid: int) -> None:
        """Read the times of a process that has ended and is not reaped yet."""
        stat = stat_fields(f"/proc/{pid}/stat")
        leader = read_file(f"/proc/{pid}/task/{pid}/schedstat").split()
        if len(stat) >= 20 and len(leader) >= 2:
            process_ns = (int(stat[11]) + int(stat[12])) * TICK_NS
            self.leaders[pid] = (int(leader[0]), int(leader[1]))
            self.at_exit[pid] = (process_ns, int(leader[0]), age_of(f"/proc/{pid}/stat"))

    def busy(self) -> int:
        """Return the largest number of threads of one process that computed at the same time.

        0: the kernel gave no times of threads. Samples can miss threads of short runs, so what each
        process and its first thread had run when it ended counts as well.
        """
        sampled = self._sampled_busy()
        longest = max((ran for ran, _, _ in self.at_exit.values()), default=0)
        main = [times for times in self.at_exit.values() if times[0] * BUSY_SHARE >= longest]
        return max([sampled, *(threads_at_exit(*times, sampled) for times in main)])

    def _sampled_busy(self) -> int:
        longest = self._longest()
        if not longest:
            return 0
        rates = {
            thread: ran / max(ran, self.ages.get(thread, 0))
            for thread, (ran, _) in self.times.items()
            if ran * BUSY_SHARE >= longest
        }
        best = max(rates.values())

        def computed(alive: list[tuple[int, str]]) -> int:
            lesser = [rates[thread] for thread in alive if rates[thread] * RATE_SHARE < best]
            return len(alive) - (len(lesser) if sum(lesser) * TEAM_SHARE < best else 0)

        return max(
            computed([(pid, name) for name in names if (pid, name) in rates])
            for pid, looks in self.together.items()
            for names in looks
        )

    def busiest_process_s(self) -> float:
        """Return the largest processor time in seconds of one process; 0: unknown."""
        ended = [process_ns for process_ns, _, _ in self.at_exit.values()]
        sampled: dict[int, int] = {}
        for (pid, _), (thread_ns, _) in self.times.items():
            sampled[pid] = sampled.get(pid, 0) + thread_ns
        return max((*ended, *sampled.values()), default=0) / 1e9

    def waited_s(self) -> float:
        """Return the longest time in seconds that a computing thread waited for a processor."""
        longest = self._longest()
        every = (*self.times.values(), *self.leaders.values())
        return max((wait for ran, wait in every if ran * BUSY_SHARE >= longest), default=0) / 1e9

    def _longest(self) -> int:
        return max((ran for ran, _ in self.times.values()), default=0)
