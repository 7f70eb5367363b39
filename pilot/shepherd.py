"""Run one program, sample its process tree, and end every process that it leaves behind.

:mod:`berth.pilot.launch` starts this file as a small process of its own, the *shepherd*
(``python -I -S shepherd.py``), for three reasons:

- As *child subreaper* (prctl(2)) the shepherd adopts orphaned processes of the program without
  touching other children of the caller.
- ``ru_maxrss`` of a child starts at the memory of the process that forked it, so the forking
  process must be small.
- The shepherd's standard input is a pipe from the caller, the *leash*. When the caller dies, the
  pipe closes and the shepherd ends the process tree.

Protocol: one line of JSON on standard input describes the run (the *order*); any further line, or
the end of input, means "cut the run short". The result is one line of JSON on standard output. The
program's own output goes through a pipe to the shepherd's standard error, up to
``forward_bytes``. This file imports only the standard library.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import resource
import select
import signal
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SAMPLE_SHARE = 0.004
"""Largest share of one core that sampling may take, after the first samples."""
FIRST_SAMPLES, FIRST_SHARE = 10, 0.05
"""Number of first samples, and the larger share of one core that they may take: so that short
programs are sampled, too."""
SLOW_SAMPLE_S = 1.0
KILL_FOR_S = 10.0
LIMITS_S = 0.25
"""Seconds between two looks at the limit of processor time and for the file that ends the run."""
HAS_CHILDREN_FILES = os.path.exists(f"/proc/self/task/{os.getpid()}/children")
LIBRARIES_MAX = 2_000
THREADS_MAX = 1_000
BUSY_SHARE = 10
"""Divisor: a computing thread has at least 1/10 of the busiest thread's processor time."""
RATE_SHARE = 4
"""Divisor: a computing thread also runs at least 1/4 of the highest rate. A thread's rate is its
processor time divided by its age."""
TEAM_SHARE = 2
"""Divisor: threads below ``RATE_SHARE`` count all the same if the sum of their rates is at least
1/2 of the highest rate."""


LOOKED_AT_OFTEN = 32
"""Up to so many threads of a process are looked at in each sample; more only in slow samples."""
LEAST_OTHERS_NS = 25_000_000
"""Least processor time of the threads but the first that counts at exit: the kernel tells the sum
in steps of 10 ms."""
BEYOND_SEEN = 0.3
"""Processor time over wall time may exceed the number of computing threads seen by so much."""


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
            fields = read_file(f"/proc/{name}/stat").rpartition(")")[2].split()
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
        words = read_file(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if len(words) >= 15:
            ticks += sum(int(word) for word in words[11:15])
    return ticks / TICKS_PER_S


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``, in several writes where needed. Raises OSError.

    A write to a pipe can be partial when the job is stopped and resumed.
    """
    while data:
        data = data[os.write(descriptor, data) :]


def numbers_of(text: str) -> dict[str, int]:
    """Return the numbers in lines such as ``Key: 12 kB`` by key; other lines are left out."""
    result = {}
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isascii() and words[0].isdigit():
            result[key] = int(words[0])
    return result


def age_of(stat: str) -> int:
    """Return a thread's age in nanoseconds from the text of its ``stat`` file; 0 if unknown."""
    words = read_file(stat).rpartition(")")[2].split()
    if len(words) < 20 or not (words[19].isascii() and words[19].isdigit()):
        return 0
    started = int(words[19]) * (1_000_000_000 // TICKS_PER_S)
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return now - started if 0 < started < now else 0


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


class Tree:
    """Samples of the process tree of one run: peaks, sums, files, and times of threads."""

    def __init__(self) -> None:
        self.samples = 0
        self.cost_s = 0.0
        self.rss_peak = 0
        self.hwm_peak = 0
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
        self.next_slow = 0.0
        self.threads_run: dict[tuple[int, str], tuple[int, int]] = {}
        """(pid, thread id) -> nanoseconds run and nanoseconds waited for a processor, at the last
        sample of the thread."""
        self.threads_age: dict[tuple[int, str], int] = {}
        """(pid, thread id) -> age of the thread in nanoseconds at that sample, where known."""
        self.threads_together: dict[int, set[frozenset[str]]] = {}
        """Sets of thread IDs that were alive at the same sample, by process ID."""
        self.leaders: dict[int, tuple[int, int]] = {}
        """Process ID -> nanoseconds that its first thread ran and waited, when it ended."""
        self.at_exit: dict[int, tuple[int, int, int]] = {}
        """Process ID -> nanoseconds run by all its threads and by its first one, and its age, when
        it ended."""

    def sample(self) -> float:
        """Sample every process of the tree once; return how long the sampling took in seconds."""
        before = time.perf_counter()
        slow = before >= self.next_slow
        rss = page_tables = files = processes = 0
        for pid in descendants_of(os.getpid()):
            status = numbers_of(read_file(f"/proc/{pid}/status"))
            if "VmRSS" not in status:
                continue
            processes += 1
            rss += status["VmRSS"] * 1024
            page_tables += status.get("VmPTE", 0) * 1024
            self.hwm_peak = max(self.hwm_peak, status.get("VmHWM", 0) * 1024)
            self.threads_peak = max(self.threads_peak, status.get("Threads", 1))
            if slow or pid not in self.seen:
                files += self._look_closely(pid)
            self._look_at_threads(pid, status.get("Threads", 1), slow=slow)
        self.samples += 1
        self.rss_peak = max(self.rss_peak, rss)
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

    def _look_at_threads(self, pid: int, threads: int, *, slow: bool) -> None:
        if threads > LOOKED_AT_OFTEN and not slow:
            return
        try:
            names = os.listdir(f"/proc/{pid}/task") if threads > 1 else [str(pid)]
        except OSError:
            return
        names = names[:THREADS_MAX]
        self.threads_together.setdefault(pid, set()).add(frozenset(names))
        for name in names:
            words = read_file(f"/proc/{pid}/task/{name}/schedstat").split()
            if len(words) >= 2:
                self.threads_run[pid, name] = (int(words[0]), int(words[1]))
                if age := age_of(f"/proc/{pid}/task/{name}/stat"):
                    self.threads_age[pid, name] = age

    def threads_busy(self) -> int:
        """Return the largest number of threads of one process that computed at the same time.

        0: the kernel gave no times of threads. A thread computes if both hold:

        - its processor time is at least 1/``BUSY_SHARE`` of that of the busiest thread;
        - its rate (processor time / age) is at least 1/``RATE_SHARE`` of the highest rate.

        Unevenly loaded workers pass: a worker with half of the work has half of the rate, and a
        worker that ended early ran until its end. A helper thread for I/O, with about a tenth of
        the rate, does not. Threads below the second limit count as well if the sum of their rates
        is at least 1/``TEAM_SHARE`` of the highest rate: the program is then parallel for a short
        part of its time.

        Samples can miss threads of short runs, so what each process and its first thread had run
        when it ended counts as well.
        """
        sampled = self._sampled_threads_busy()
        longest = max((ran for ran, _, _ in self.at_exit.values()), default=0)
        main = [times for times in self.at_exit.values() if times[0] * BUSY_SHARE >= longest]
        return max([sampled, *(threads_at_exit(*times, sampled) for times in main)])

    def _sampled_threads_busy(self) -> int:
        longest = max((ran for ran, _ in self.threads_run.values()), default=0)
        if not longest:
            return 0
        rates = {
            thread: ran / max(ran, self.threads_age.get(thread, 0))
            for thread, (ran, _) in self.threads_run.items()
            if ran * BUSY_SHARE >= longest
        }
        best = max(rates.values())

        def computed(those: list[tuple[int, str]]) -> int:
            lesser = [rates[thread] for thread in those if rates[thread] * RATE_SHARE < best]
            return len(those) - (len(lesser) if sum(lesser) * TEAM_SHARE < best else 0)

        return max(
            computed([(pid, name) for name in names if (pid, name) in rates])
            for pid, looks in self.threads_together.items()
            for names in looks
        )

    def busiest_process_s(self) -> float:
        """Return the largest processor time in seconds of one process; 0: unknown."""
        ran = {pid: process_ns for pid, (process_ns, _, _) in self.at_exit.items()}
        sampled: dict[int, int] = {}
        for (pid, _), (thread_ns, _) in self.threads_run.items():
            sampled[pid] = sampled.get(pid, 0) + thread_ns
        return max((*ran.values(), *sampled.values()), default=0) / 1e9

    def spent_s(self) -> float:
        """Return the processor time in seconds of all processes of the run until now."""
        ended_s = self.usage.get("ru_utime", 0.0) + self.usage.get("ru_stime", 0.0)
        return ended_s + processor_s(descendants_of(os.getpid()))

    def waited_s(self) -> float:
        """Return the longest time in seconds that a computing thread waited for a processor."""
        longest = max((ran for ran, _ in self.threads_run.values()), default=0)
        waits = [wait for ran, wait in self.threads_run.values() if ran * BUSY_SHARE >= longest]
        waits += [wait for ran, wait in self.leaders.values() if ran * BUSY_SHARE >= longest]
        return max(waits, default=0) / 1e9

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

    def _look_at_exit(self, pid: int) -> None:
        words = read_file(f"/proc/{pid}/stat").rpartition(")")[2].split()
        leader = read_file(f"/proc/{pid}/task/{pid}/schedstat").split()
        if len(words) >= 20 and len(leader) >= 2:
            ticks_ns = 1_000_000_000 // TICKS_PER_S
            process_ns = (int(words[11]) + int(words[12])) * ticks_ns
            self.leaders[pid] = (int(leader[0]), int(leader[1]))
            self.at_exit[pid] = (process_ns, int(leader[0]), age_of(f"/proc/{pid}/stat"))

    def reap(self, pid: int) -> int:
        """Return the wait status of an ended child, and add its resource use to the totals.

        The resource use includes that of the children that the child had waited for.
        """
        io = numbers_of(read_file(f"/proc/{pid}/io"))
        if io:
            self.io_seen = True
            for key, value in io.items():
                self.io_total[key] = self.io_total.get(key, 0) + value
        self._look_at_exit(pid)
        _, status, used = os.wait4(pid, 0)
        for name in ("ru_utime", "ru_stime", "ru_minflt", "ru_majflt", "ru_nvcsw", "ru_nivcsw"):
            self.usage[name] = self.usage.get(name, 0) + getattr(used, name)
        self.usage["ru_maxrss"] = max(self.usage.get("ru_maxrss", 0), used.ru_maxrss * 1024)
        return status


class Output:
    """Forwards the first bytes of the program's output to standard error, keeps the last bytes."""

    def __init__(self, forward_bytes: int, tail_bytes: int) -> None:
        self.forward_left = forward_bytes
        self.tail_bytes = tail_bytes
        self.tail = b""
        self.total = 0

    def feed(self, chunk: bytes) -> None:
        self.total += len(chunk)
        if self.forward_left > 0:
            part = chunk[: self.forward_left]
            self.forward_left -= len(part)
            try:
                write_all(2, part)
                if self.forward_left == 0:
                    write_all(2, b"\n[berth: further output of the program is not shown]\n")
            except OSError:
                self.forward_left = 0
        self.tail = (self.tail + chunk)[-self.tail_bytes :]


def start(order: dict[str, Any], output_end: int) -> tuple[int, str | None]:
    """Fork and exec the program in its own session.

    Returns the pid, and None or the reason why exec failed as ``errno message``.
    """
    report_read, report_write = os.pipe2(os.O_CLOEXEC)
    shepherd = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become_program(order, output_end, shepherd)
        except OSError as error:
            os.write(report_write, f"{error.errno} {error.strerror}".encode())
        except BaseException as error:
            os.write(report_write, f"0 {error}".encode())
        os._exit(127)
    os.close(report_write)
    problem = os.read(report_read, 4096).decode("utf-8", "replace")
    os.close(report_read)
    return pid, problem or None


def _become_program(order: dict[str, Any], output_end: int, shepherd: int) -> None:
    os.setsid()
    niceness = os.nice(order["nice"])
    try:
        # Linux schedules each session as one group (autogroup), which has a niceness of its own.
        with open("/proc/self/autogroup", "w", encoding="ascii") as group:
            group.write(str(niceness))
    except OSError:
        pass
    if order["cgroup"]:
        with open(f"{order['cgroup']}/cgroup.procs", "w", encoding="ascii") as procs:
            procs.write("0")
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != shepherd:
        os._exit(127)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    stdin = os.open(order["stdin"] or os.devnull, os.O_RDONLY)
    os.dup2(stdin, 0)
    os.dup2(output_end, 1)
    os.dup2(output_end, 2)
    if order["cwd"]:
        os.chdir(order["cwd"])
    # Running the user's own program is the purpose of this process.
    os.execvpe(order["command"][0], order["command"], order["env"])  # nosec B606


def prctl(option: int, value: int) -> None:
    """Call prctl(2) with one argument; a failure is ignored."""
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


class Run:
    """One run of a program, from its fork to the end of its last process."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.tree = Tree()
        self.output = Output(order["forward_bytes"], order["tail_bytes"])
        self.cut: str | None = None
        self.root_status: int | None = None
        self.wall_s = 0.0
        self.leftover_s = 0.0
        self.leash_open = True
        self.ticks: dict[str, int] = {}

    def go(self) -> dict[str, Any]:
        # The ru_maxrss of a forked child starts at the resident memory of its parent, not at the
        # parent's ru_maxrss (which is inherited through exec).
        floor = numbers_of(read_file("/proc/self/status")).get("VmHWM", 0) * 1024
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "cut", self.cut or "ended"))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        before = machine_ticks()
        self.started = time.monotonic()
        self.root, problem = start(self.order, out_write)
        os.close(out_write)
        if problem:
            os.wait4(self.root, 0)
            return {"exec_error": problem}
        self.poll = select.poll()
        for end in (wake_read, out_read, 0):
            self.poll.register(end, select.POLLIN)
        self.wake, self.out = wake_read, out_read
        self._until_root_is_gone()
        after = machine_ticks()
        self.ticks = {key: after[key] - before[key] for key in after if key in before}
        leftover = self._end_the_rest()
        return self._answer(floor, leftover)

    def _until_root_is_gone(self) -> None:
        limit = self.order["time_limit_s"]
        deadline = self.started + limit if limit else None
        interval, next_sample = 0.004, self.started + 0.002
        asked_at: float | None = None
        signal_next: int = signal.SIGKILL
        limited = self.order["cpu_limit_s"] or self.order["stop_file"]
        next_look = self.started + LIMITS_S if limited else math.inf
        while self.root_status is None:
            now = time.monotonic()
            if now >= next_look:
                self.cut = self.cut or self._beyond_limits()
                next_look = now + LIMITS_S
            if deadline and now >= deadline and not self.cut:
                self.cut = "time limit"
            if self.cut and asked_at is None:
                asked_at = now
                signal_next = self._ask_to_end()
            if asked_at is not None and now >= asked_at + self.order["cut_grace_s"]:
                self._signal_all(signal_next)
                asked_at, signal_next = now, signal.SIGKILL
            if self.order["sample"] and now >= next_sample:
                cost = self.tree.sample()
                interval = min(0.1, interval * 1.5)
                share = FIRST_SHARE if self.tree.samples < FIRST_SAMPLES else SAMPLE_SHARE
                next_sample = time.monotonic() + max(interval, cost / share)
            waits = [1.0]
            if self.order["sample"]:
                waits.append(next_sample - now)
            if asked_at is not None:
                waits.append(asked_at + self.order["cut_grace_s"] - now)
            elif deadline:
                waits.append(deadline - now)
            waits.append(next_look - now)
            self._wait(max(0.0, min(waits)))

    def _ask_to_end(self) -> int:
        """Ask the program to end; return the signal for what has not ended after the grace."""
        if self.order["end_file"] and self.cut != "ended":
            with open(self.order["end_file"], "w", encoding="ascii"):
                return signal.SIGTERM
        self._signal_all(signal.SIGTERM)
        return signal.SIGKILL

    def _beyond_limits(self) -> str | None:
        """Return why the run is to end now, or None."""
        limit, stop_file = self.order["cpu_limit_s"], self.order["stop_file"]
        if stop_file and os.path.exists(stop_file):
            return "settled"
        return "processor time" if limit and self.tree.spent_s() >= limit else None

    def _wait(self, seconds: float) -> None:
        for end, _ in self.poll.poll(seconds * 1000):
            if end == self.wake:
                os.read(end, 4096)
            elif end == self.out:
                self._drain()
            elif end == 0:
                self.leash_open = False
                self.poll.unregister(0)
                self.cut = self.cut or "ended"
        self._reap()

    def _drain(self) -> None:
        chunk = os.read(self.out, 1 << 20)
        if chunk:
            self.output.feed(chunk)
        else:
            self.poll.unregister(self.out)

    def _reap(self) -> None:
        while True:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if dead is None:
                return
            if dead.si_pid == self.root:
                self.wall_s = time.monotonic() - self.started
            status = self.tree.reap(dead.si_pid)
            if dead.si_pid == self.root:
                self.root_status = status

    def _alive(self) -> list[int]:
        alive = []
        for pid in descendants_of(os.getpid()):
            state = read_file(f"/proc/{pid}/stat").rpartition(")")[2].split()
            if state and state[0] not in ("Z", "X"):
                alive.append(pid)
        return alive

    def _signal_all(self, number: int) -> None:
        for pid in self._alive():
            try:
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)
            except OSError:
                continue

    def _end_the_rest(self) -> int:
        """End the remaining processes; return how many were alive after the grace period.

        Waits ``leftover_grace_s``, sends SIGTERM, and after 1 s SIGKILL until no descendant is
        alive.
        """
        if not self._alive():
            return self._finish(0)
        self._until_none(0.0 if self.cut else self.order["leftover_grace_s"])
        alive = self._alive()
        leftover, self.leftover_s = len(alive), processor_s(alive)
        if leftover:
            self._signal_all(signal.SIGTERM)
            self._until_none(1.0)
        # A process in uninterruptible sleep survives SIGKILL for a while, so the loop is limited.
        until = time.monotonic() + KILL_FOR_S
        while self._alive() and time.monotonic() < until:
            self._signal_all(signal.SIGKILL)
            self._until_none(0.05)
        return self._finish(leftover)

    def _until_none(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._alive() and (left := until - time.monotonic()) > 0:
            self._wait(min(left, 0.05))

    def _finish(self, leftover: int) -> int:
        self._reap()
        os.set_blocking(self.out, False)
        try:
            while chunk := os.read(self.out, 1 << 20):
                self.output.feed(chunk)
        except BlockingIOError:
            pass
        return leftover

    def _answer(self, floor: int, leftover: int) -> dict[str, Any]:
        tree, status = self.tree, self.root_status or 0
        return {
            "exec_error": None,
            "wall_s": self.wall_s,
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "cut": self.cut,
            "leftover": leftover,
            "leftover_s": self.leftover_s,
            "output_bytes": self.output.total,
            "output_tail": self.output.tail.decode("utf-8", "replace"),
            "rss_floor": floor,
            "rss_peak": tree.rss_peak,
            "hwm_peak": tree.hwm_peak,
            "page_tables_peak": tree.page_tables_peak,
            "threads_peak": tree.threads_peak,
            "processes_peak": tree.processes_peak,
            "files_peak": tree.files_peak,
            "threads_busy": tree.threads_busy(),
            "busiest_process_s": tree.busiest_process_s(),
            "waited_s": tree.waited_s(),
            "machine_s": {key: ticks / TICKS_PER_S for key, ticks in self.ticks.items()},
            "samples": tree.samples,
            "sampling_cost_s": tree.cost_s,
            "executables": list(tree.executables),
            "libraries": list(tree.libraries),
            "io": tree.io_total if tree.io_seen else None,
            "usage": tree.usage,
        }


def main() -> None:
    """Read the launch order from standard input, run the program, print the result as JSON."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 65_536)
        if not part:
            sys.exit(1)
        line += part
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    answer = Run(json.loads(line)).go()
    write_all(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
