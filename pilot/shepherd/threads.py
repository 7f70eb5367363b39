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

from .proc import TICK_NS, age_of, schedstat, stat_fields

BUSY_SHARE = 10
RATE_SHARE = 4
TEAM_SHARE = 2
THREADS_MAX = 1_000
LOOKED_AT_OFTEN = 32
"""Up to so many threads of a process are looked at in each sample; more only in slow samples."""
LEAST_OTHERS_NS = TICK_NS * 5 // 2
"""Least processor time of the threads but the first that counts at exit: the kernel tells the sum
in ticks."""
BEYOND_SEEN = 0.3
"""Processor time over wall time may exceed the number of computing threads seen by so much."""


Look = tuple[float, dict[int, int], dict[int, int], bool]
NO_LOOK: Look = (0.0, {}, {}, False)


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
        self.before: dict[tuple[int, str], tuple[int, int]] = {}
        """(pid, thread id) -> nanoseconds that a thread ran and waited before it was the program.
        """
        self.times: dict[tuple[int, str], tuple[int, int]] = {}
        """(pid, thread id) -> nanoseconds run and nanoseconds waited for a processor, at the last
        sample of the thread."""
        self.last: Look = NO_LOOK
        self.processes_busy = 0
        """Largest number of processes that were runnable between the same two samples."""
        self.runnable = 0
        """Number of threads of all processes that ran or waited for a processor at this sample."""
        self.looked_s = self.wanted_s = 0.0
        """Time between samples, and its sum over the threads that were runnable then."""
        self.blocked_s = 0.0
        """Time for which no thread of any process ran or waited for a processor, as far as seen."""
        self.ages: dict[tuple[int, str], int] = {}
        """(pid, thread id) -> age of the thread in nanoseconds at that sample, where known."""
        self.together: dict[int, set[frozenset[str]]] = {}
        """Sets of thread IDs that were alive at the same sample, by process ID."""
        self.leaders: dict[int, tuple[int, int]] = {}
        """Process ID -> nanoseconds that its first thread ran and waited, when it ended."""
        self.at_exit: dict[int, tuple[int, int, int]] = {}
        """Process ID -> nanoseconds run by all its threads and by its first one, and its age, when
        it ended."""

    def sample(self, pid: int, count: int, *, slow: bool) -> bool:
        """Read the times of the ``count`` threads of a process; of many only if ``slow``.

        Returns whether all its threads were seen to sleep, and to want no processor.
        """
        if count > LOOKED_AT_OFTEN and not slow:
            return False
        try:
            names = os.listdir(f"/proc/{pid}/task") if count > 1 else [str(pid)]
        except OSError:
            return True  # it has ended
        asleep = len(names) <= THREADS_MAX
        names = names[:THREADS_MAX]
        self.together.setdefault(pid, set()).add(frozenset(names))
        for name in names:
            clock = self._clock(pid, name)
            if clock != (0, 0):
                self.times[pid, name] = clock
                fields = stat_fields(f"/proc/{pid}/task/{name}/stat")
                asleep &= fields[:1] != ["R"]
                self.runnable += fields[:1] == ["R"]
                if age := age_of(fields):
                    self.ages[pid, name] = age
        return asleep

    def look(self, now_s: float, children_ended: dict[int, int], *, asleep: bool) -> None:
        """Compare the times of the processes with those at the last sample.

        ``children_ended``: a number for each process that changes when it has waited for a child;
        ``asleep``: whether no thread wants a processor now.
        """
        runnable_now, self.runnable = self.runnable, 0
        runnable = dict.fromkeys(children_ended, 0)
        for (pid, _), (ran, waited) in self.times.items():
            if pid in runnable:
                runnable[pid] += ran + waited
        before_s, before, before_ended, was_asleep = self.last
        self.last = (now_s, runnable, children_ended, asleep)
        if not before:
            return
        elapsed_ns = (now_s - before_s) * 1e9
        self.looked_s += elapsed_ns / 1e9
        self.wanted_s += runnable_now * elapsed_ns / 1e9
        changes = [ns - before.get(pid, 0) for pid, ns in runnable.items()]
        self.processes_busy = max(
            self.processes_busy, sum(change * BUSY_SHARE >= elapsed_ns for change in changes)
        )
        same = all(children_ended.get(pid) == count for pid, count in before_ended.items())
        if same and asleep and was_asleep:
            self.blocked_s += max(0.0, elapsed_ns - sum(changes)) / 1e9

    def ended(self, pid: int) -> None:
        """Read the times of a process that has ended and is not reaped yet."""
        stat = stat_fields(f"/proc/{pid}/stat")
        leader = self._clock(pid, str(pid))
        if len(stat) >= 20 and leader != (0, 0):
            process_ns = (int(stat[11]) + int(stat[12])) * TICK_NS
            self.leaders[pid] = leader
            self.at_exit[pid] = (process_ns, leader[0], age_of(stat))

    def _clock(self, pid: int, name: str) -> tuple[int, int]:
        """Return the nanoseconds that a thread of the program ran and waited; zeros if unknown."""
        before = self.before.get((pid, name), (0, 0))
        ran, waited = schedstat(f"/proc/{pid}/task/{name}/schedstat")
        return max(0, ran - before[0]), max(0, waited - before[1])

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

    def cores_wanted(self) -> float:
        """Return how many threads of all processes were runnable on average; 0: unknown."""
        return self.wanted_s / self.looked_s if self.looked_s else 0.0

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

    def first_thread_s(self) -> float:
        """Return the longest time in seconds that the first thread of a process ran until its end;
        0: unknown."""
        return max((ran for ran, _ in self.leaders.values()), default=0) / 1e9

    def _longest(self) -> int:
        return max((ran for ran, _ in self.times.values()), default=0)
