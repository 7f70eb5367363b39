"""Sample the processes of one run: memory, open files, libraries, I/O and processor time."""

from __future__ import annotations

import os
import time

from .proc import descendants_of, numbers_of, processor_s, read_file, stat_fields
from .threads import Threads

SAMPLE_SHARE = 0.004
"""Largest share of one core that sampling may take, after the first samples."""
SLOW_SAMPLE_S = 1.0
LIBRARIES_MAX = 2_000
SUMMED = ("ru_utime", "ru_stime", "ru_minflt", "ru_majflt", "ru_nvcsw", "ru_nivcsw")
"""Fields of the kernel's resource use that are summed over the processes of a run."""


class Tree:
    """Samples of the process tree of one run: peaks, sums, files, and times of threads."""

    def __init__(self) -> None:
        self.samples = 0
        self.cost_s = 0.0
        self.rss_peak = 0
        self.hwm_peak = 0
        self.hwm_sum_peak = 0
        self.page_tables_peak = 0
        self.threads_peak = 1
        self.processes_peak = 1
        self.files_peak = 0
        self.seen: set[int] = set()
        self.executables: dict[str, None] = {}
        self.libraries: dict[str, None] = {}
        self.io_seen = False
        self.io_total: dict[str, int] = {}
        self.usage: dict[str, float] = {}
        self.before: dict[tuple[int, str], float] = {}
        self.next_slow = 0.0
        self.threads = Threads()

    def begin(self, pid: int, usage: dict[str, float], clock: tuple[int, int]) -> None:
        """Take off what the process had used before it became the program: time in seconds, counts,
        and nanoseconds that it ran and waited for a processor."""
        self.before = {(pid, name): value for name, value in usage.items()}
        self.threads.before = {(pid, str(pid)): clock}

    def sample(self) -> float:
        """Sample every process of the tree once; return how long the sampling took in seconds."""
        before = time.perf_counter()
        slow = before >= self.next_slow
        rss = hwm = page_tables = files = processes = 0
        children_ended: dict[int, int] = {}
        asleep = True
        for pid in descendants_of(os.getpid()):
            status = numbers_of(read_file(f"/proc/{pid}/status"))
            if "VmRSS" not in status:
                continue
            processes += 1
            rss += status["VmRSS"] * 1024
            hwm += status.get("VmHWM", 0) * 1024
            page_tables += status.get("VmPTE", 0) * 1024
            self.hwm_peak = max(self.hwm_peak, status.get("VmHWM", 0) * 1024)
            self.threads_peak = max(self.threads_peak, status.get("Threads", 1))
            if slow or pid not in self.seen:
                files += self._look_closely(pid)
            asleep &= self.threads.sample(pid, status.get("Threads", 1), slow=slow)
            # The page faults of the children for which a process has waited.
            children_ended[pid] = int((stat_fields(f"/proc/{pid}/stat") or ["0"] * 9)[8])
        self.threads.look(before, children_ended, asleep=asleep)
        self.samples += 1
        self.rss_peak = max(self.rss_peak, rss)
        self.hwm_sum_peak = max(self.hwm_sum_peak, hwm)
        self.page_tables_peak = max(self.page_tables_peak, page_tables)
        self.processes_peak = max(self.processes_peak, processes)
        self.files_peak = max(self.files_peak, files)
        cost = time.perf_counter() - before
        self.cost_s += cost
        if slow:
            # Look closely often at first, when programs load their libraries; later once a second.
            step = min(SLOW_SAMPLE_S, 0.02 * 2 ** min(self.samples, 10))
            self.next_slow = before + max(step, cost / SAMPLE_SHARE)
        return cost

    def spent_s(self) -> float:
        """Return the processor time in seconds of all processes of the run until now."""
        ended_s = self.usage.get("ru_utime", 0.0) + self.usage.get("ru_stime", 0.0)
        return ended_s + processor_s(descendants_of(os.getpid()))

    def _look_closely(self, pid: int) -> int:
        self.seen.add(pid)
        try:
            executable = os.readlink(f"/proc/{pid}/exe")
            self.executables.setdefault(executable)
        except OSError:
            self.seen.discard(pid)
        for line in read_file(f"/proc/{pid}/maps").splitlines():
            path = line[73:].strip()
            if ".so" in path and len(self.libraries) < LIBRARIES_MAX:
                self.libraries.setdefault(path)
        try:
            return len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            return 0

    def reap(self, pid: int) -> int:
        """Return the wait status of an ended child, and add its resource use to the totals.

        The resource use includes that of the children that the child had waited for.
        """
        io = numbers_of(read_file(f"/proc/{pid}/io"))
        if io:
            self.io_seen = True
            for key, value in io.items():
                self.io_total[key] = self.io_total.get(key, 0) + value
        self.threads.ended(pid)
        _, status, used = os.wait4(pid, 0)
        for name in SUMMED:
            before = self.before.get((pid, name), 0.0)
            self.usage[name] = self.usage.get(name, 0) + max(0, getattr(used, name) - before)
        self.usage["ru_maxrss"] = max(self.usage.get("ru_maxrss", 0), used.ru_maxrss * 1024)
        return status
