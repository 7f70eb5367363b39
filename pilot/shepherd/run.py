"""The run of one program, from its fork to the end of its last process."""

from __future__ import annotations

import ctypes
import marshal
import math
import os
import resource
import select
import sys
import time

from .isolation import Isolation
from .proc import (
    TICKS_PER_S,
    descendants_of,
    machine_ticks,
    numbers_of,
    processor_s,
    read_file,
    schedstat,
    stat_fields,
)
from .tree import SAMPLE_SHARE, SUMMED, Tree

TYPE_CHECKING = False  # typing, and the enumerations of signal, take half of the start
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
FIRST_SAMPLES, FIRST_SHARE = 10, 0.05
"""Number of first samples, and the larger share of one core that they may take: so that short
programs are sampled, too."""
KILL_FOR_S = 10.0
LIMITS_S = 0.25
"""Seconds between two looks at the limit of processor time."""


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``, in several writes where needed. Raises OSError.

    A write to a pipe can be partial when the job is stopped and resumed.
    """
    while data:
        data = data[os.write(descriptor, data) :]


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


def start(
    order: dict[str, Any], output_end: int, view: Isolation | None
) -> tuple[int, dict[str, Any]]:
    """Fork and exec the program in its own session, in ``view`` if it is isolated.

    Returns the pid, and what the child had used when it called exec: ``monotonic_s``, ``usage``
    and the nanoseconds that it had run and waited, or else ``problem``, the reason why exec failed
    as ``errno message``.
    """
    report_read, report_write = os.pipe2(os.O_CLOEXEC)
    shepherd = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become_program(order, output_end, view, shepherd, report_write)
        except OSError as error:
            _report(report_write, problem=f"{error.errno} {error.strerror}")
        except BaseException as error:
            _report(report_write, problem=f"0 {error}")
        os._exit(127)
    os.close(report_write)
    begin: dict[str, Any] = {}
    with open(report_read, "rb") as reports:
        while reports.peek(1):
            begin |= marshal.load(reports)  # noqa: S302 - from the child forked above  # nosec B302
    return pid, begin


def _report(descriptor: int, **values: Any) -> None:
    write_all(descriptor, marshal.dumps(values))


def _become_program(
    order: dict[str, Any], output_end: int, view: Isolation | None, shepherd: int, report: int
) -> None:
    os.setsid()
    niceness = os.nice(order["nice"])
    try:
        # Linux schedules each session as one group (autogroup), which has a niceness of its own.
        with open("/proc/self/autogroup", "w", encoding="ascii") as group:
            group.write(str(niceness))
    except OSError:
        pass
    for folder in order["groups"]:
        with open(f"{folder}/cgroup.procs", "w", encoding="ascii") as procs:
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
    if view is not None:
        view.enter(order["cwd"] or os.getcwd())
    elif order["cwd"]:
        os.chdir(order["cwd"])
    used, clock = resource.getrusage(resource.RUSAGE_SELF), schedstat("/proc/self/schedstat")
    usage = {name: getattr(used, name) for name in SUMMED}
    _report(report, usage=usage, clock=clock, monotonic_s=time.monotonic())
    # Running the user's own program is the purpose of this process.
    os.execvpe(order["command"][0], order["command"], order["env"])  # nosec B606


def prctl(option: int, value: int) -> None:
    """Call prctl(2) with one argument; a failure is ignored."""
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


class SupervisedRun:
    """One run of a program, from its fork to the end of its last process."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.tree = Tree()
        self.output = Output(order["forward_bytes"], order["tail_bytes"])
        self.cut: str | None = None
        self.root_status: int | None = None
        self.wall_s = 0.0
        self.seen_late_s = 0.0
        self.own_wait_ns = 0
        self.leftover_s = 0.0
        self.ticks: dict[str, int] = {}

    def go(self) -> dict[str, Any]:
        # The ru_maxrss of a forked child starts at the resident memory of its parent, not at the
        # parent's ru_maxrss (which is inherited through exec).
        floor = numbers_of(read_file("/proc/self/status")).get("VmHWM", 0) * 1024
        floor = max(floor, self.order["least_seen_bytes"])
        view = None
        if self.order["isolated_in"]:
            try:
                shared = [self.order["cwd"] or ".", self.order["env"].get("TMPDIR") or "."]
                view = Isolation(self.order["isolated_in"], self.order["kept"], shared)
            except OSError as error:
                return {"not_isolated": f"{error.filename}: {error.strerror}"}
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "cut", self.cut or "ended"))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        before = machine_ticks()
        self.own_wait_ns = schedstat("/proc/self/schedstat")[1]
        self.root, begin = start(self.order, out_write, view)
        os.close(out_write)
        if "problem" in begin:
            os.wait4(self.root, 0)
            return {"exec_error": begin["problem"]}
        self.started = begin["monotonic_s"]
        self.tree.begin(self.root, begin["usage"], begin["clock"])
        self.poll = select.poll()
        for end in (wake_read, out_read, 0):
            self.poll.register(end, select.POLLIN)
        self.wake, self.out = wake_read, out_read
        self._until_root_is_gone()
        after = machine_ticks()
        self.ticks = {key: after[key] - before[key] for key in after if key in before}
        leftover = self._end_the_rest()
        answer = self._answer(floor, leftover)
        if view is not None:
            answer |= {"written": view.written(), "written_full": view.is_full()}
        return answer

    def _until_root_is_gone(self) -> None:
        limit = self.order["time_limit_s"]
        deadline = self.started + limit if limit else None
        interval, next_sample = 0.004, self.started + 0.002
        asked_at: float | None = None
        signal_next: int = signal.SIGKILL
        cpu_limit = self.order["cpu_limit_s"]
        next_look = self.started + LIMITS_S if cpu_limit else math.inf
        while self.root_status is None:
            now = time.monotonic()
            if now >= next_look:
                if self.tree.spent_s() >= cpu_limit:
                    self.cut = self.cut or "processor time"
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
            self.own_wait_ns = schedstat("/proc/self/schedstat")[1]

    def _ask_to_end(self) -> int:
        """Ask the program to end; return the signal for what has not ended after the grace."""
        if self.order["end_file"] and self.cut != "ended":
            with open(self.order["end_file"], "w", encoding="ascii"):
                return signal.SIGTERM
        self._signal_all(signal.SIGTERM)
        return signal.SIGKILL

    def _wait(self, seconds: float) -> None:
        for end, _ in self.poll.poll(seconds * 1000):
            if end == self.wake:
                os.read(end, 4096)
            elif end == self.out:
                self._drain()
            elif end == 0:
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
                own_wait_ns = schedstat("/proc/self/schedstat")[1] - self.own_wait_ns
                self.seen_late_s = min(own_wait_ns / 1e9, self.wall_s)
            status = self.tree.reap(dead.si_pid)
            if dead.si_pid == self.root:
                self.root_status = status

    def _alive(self) -> list[int]:
        alive = []
        for pid in descendants_of(os.getpid()):
            state = stat_fields(f"/proc/{pid}/stat")[:1]
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
            "hwm_sum_peak": tree.hwm_sum_peak,
            "page_tables_peak": tree.page_tables_peak,
            "threads_peak": tree.threads_peak,
            "processes_peak": tree.processes_peak,
            "files_peak": tree.files_peak,
            "threads_busy": tree.threads.busy(),
            "busiest_process_s": tree.threads.busiest_process_s(),
            "waited_s": tree.threads.waited_s(),
            "seen_late_s": self.seen_late_s,
            "first_thread_s": tree.threads.first_thread_s(),
            "processes_busy": tree.threads.processes_busy,
            "cores_wanted": tree.threads.cores_wanted(),
            "blocked_s": tree.threads.blocked_s,
            "machine_s": {key: ticks / TICKS_PER_S for key, ticks in self.ticks.items()},
            "samples": tree.samples,
            "sampling_cost_s": tree.cost_s,
            "executables": list(tree.executables),
            "libraries": list(tree.libraries),
            "io": tree.io_total if tree.io_seen else None,
            "usage": tree.usage,
        }


def main() -> None:
    """Read the launch order from standard input, run the program, write the result."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 65_536)
        if not part:
            sys.exit(1)
        line += part
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    order = marshal.loads(bytes.fromhex(line.decode()))  # noqa: S302 - of the caller  # nosec B302
    write_all(1, marshal.dumps(SupervisedRun(order).go()))
    os._exit(0)  # nothing is left that needs the end of the interpreter
