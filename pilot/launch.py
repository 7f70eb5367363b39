"""Launch a program, and return its outcome and resource use.

The program runs under a *shepherd*, a small process that samples and ends its process tree (see
:mod:`berth.pilot.shepherd`). The caller stays single-threaded: :func:`run_one` polls the shepherd's
pipe and calls a watch function every ``TICK_S`` seconds. On Ctrl-C or any other exception the
shepherd's standard input is closed, which ends the process tree.
"""

from __future__ import annotations

import marshal
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from berth.pilot.errors import PilotError, UsageError
from berth.pilot.units import whole_number

SHEPHERD = Path(__file__).with_name("shepherd")
TAIL_BYTES = 65_536
TICK_S = 0.2
BACKGROUND_SHARE = 0.1
"""Share of a run's processor time above which what outlived the program is its work."""
LAUNCHERS = frozenset(
    {"mpirun", "mpiexec", "mpiexec.hydra", "srun", "prun", "prterun", "jsrun", "orterun"}
)
"""Names of programs that start the ranks of an MPI program."""


@dataclass(frozen=True, slots=True)
class Order:
    """A launch order: one program to run, with its environment and limits.

    After ``time_limit_s``, or ``cpu_limit_s`` of processor time of all its processes, the program
    gets SIGTERM, and ``cut_grace_s`` later SIGKILL.
    ``leftover_grace_s`` is how long its child processes may run on after its end.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    stdin: str | None = None
    forward_bytes: int = 0
    """Bytes of the program's output that are shown; it always goes to a pipe, because programs do
    something else where it is /dev/null: some fail, others compute less."""
    sample: bool = True
    time_limit_s: float | None = None
    cpu_limit_s: float | None = None
    end_file: str | None = None
    """File that asks an emulator to write its counts and end; it is made at a limit. SIGTERM comes
    ``cut_grace_s`` later: programs handle it, and a launcher then kills ranks that still write."""
    cut_grace_s: float = 5.0
    leftover_grace_s: float = 2.0
    nice: int = 0
    groups: tuple[str, ...] = ()
    """Folders of the control groups in which the program runs; empty: those of the caller."""
    isolated_in: str | None = None
    """Empty folder for a view of all files (:mod:`berth.pilot.shepherd.isolation`): what the
    program writes is then dropped. None: it writes for good."""
    kept: tuple[str, ...] = ()
    """Folders that an isolated program writes in for good."""
    least_seen_bytes: int = 0
    """Memory of a process that measures the program from outside, below which its peak memory is
    not seen."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The outcome and resource use of a launched program; memory in bytes, times in seconds."""

    wall_s: float = 0.0
    exit_code: int | None = None
    signal: int | None = None
    cut: str | None = None
    """The reason why the run was cut short ("time limit", "processor time", "ended"), or None."""
    leftover: int = 0
    """Number of processes that outlived the program and were ended."""
    leftover_s: float = 0.0
    """Processor time of these processes until then."""
    output_bytes: int = 0
    output_tail: str = ""
    rss_floor: int = 0
    """Lowest ``ru_maxrss`` that can be seen: the memory of the process that forked the program."""
    rss_peak: int = 0
    hwm_peak: int = 0
    page_tables_peak: int = 0
    threads_peak: int = 0
    processes_peak: int = 0
    files_peak: int = 0
    hwm_sum_peak: int = 0
    """Largest sum of the peaks that the processes had reached at the same time."""
    samples: int = 0
    sampling_cost_s: float = 0.0
    executables: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    io: Mapping[str, int] | None = None
    usage: Mapping[str, float] = field(default_factory=dict)
    threads_busy: int = 0
    """Largest number of threads of one process that computed at the same time; 0: unknown."""
    busiest_process_s: float = 0.0
    """Largest processor time of one process, until its last sample; 0: unknown."""
    waited_s: float = 0.0
    """Longest time that a computing thread waited for a processor, until the last sample."""
    seen_late_s: float = 0.0
    """Part of ``wall_s`` for which the shepherd waited for a processor when the program had ended.
    """
    first_thread_s: float = 0.0
    """Longest processor time of the first thread of a process; 0: unknown."""
    processes_busy: int = 0
    """Largest number of processes seen to be runnable at about the same time; 0: unknown."""
    cores_wanted: float = 0.0
    """Mean number of threads of all processes that ran or waited for a processor; 0: unknown."""
    blocked_s: float = 0.0
    """Time for which no thread was seen to run or to wait for a processor."""
    not_isolated: str | None = None
    """Why the program could not be isolated, and was not started; None: it was started."""
    written: tuple[str, ...] = ()
    """Files that an isolated program made, changed or removed."""
    written_full: bool = False
    """Whether what an isolated program wrote took all the room for it."""
    machine_s: Mapping[str, float] = field(default_factory=dict)
    """Processor time of the whole machine during the run: ``busy``, and ``stolen`` by the host of
    a virtual machine."""

    @property
    def cpu_s(self) -> float:
        """Return the processor time of the program and its children, user and system."""
        return self.usage.get("ru_utime", 0.0) + self.usage.get("ru_stime", 0.0)

    @property
    def succeeded(self) -> bool:
        """Return whether the program ended with exit status 0 and was not cut short."""
        return self.exit_code == 0 and self.cut is None

    @property
    def went_on(self) -> bool:
        """Return whether the program's work went on in the background after its end."""
        return self.leftover_s > BACKGROUND_SHARE * self.cpu_s

    def describe(self) -> str:
        """Return how the program ended as words, such as ``ended with exit status 1``."""
        if self.cut == "time limit":
            return f"was cut at the time limit after {self.wall_s:.3g} s"
        if self.cut == "processor time":
            return f"was cut after {self.cpu_s:.3g} s of processor time"
        if self.cut:
            return "was interrupted"
        if self.signal is not None:
            return f"was killed by {signal_name(self.signal)}"
        return f"ended with exit status {self.exit_code}"


def signal_name(number: int) -> str:
    """Return a signal's number and name as text: ``"signal 11 (SIGSEGV)"`` for 11."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def launcher_ends(env: Mapping[str, str]) -> tuple[int, ...]:
    """Return the open file descriptors by which an MPI rank talks to its launcher (PMI 1, 2)."""
    end = whole_number(env.get("PMI_FD", ""), 2**31 - 1)
    if end is None or end <= 2:
        return ()
    try:
        os.fstat(end)
    except OSError:
        return ()
    return (end,)


def resolve_command(command: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command with its program replaced by the program's path.

    Raises:
        UsageError: the command is empty, or its program is not found, a folder or not executable.
    """
    if not command or not command[0]:
        raise UsageError("no command was given", hint="write it after --: berth pilot run -- ./app")
    program = command[0]
    executable = shutil.which(program, path=env.get("PATH", os.defpath))
    if executable is not None:
        return (executable, *command[1:])
    path = Path(program)
    if path.name in LAUNCHERS and not path.exists():
        raise UsageError(
            f"{program}: this node has no such MPI launcher",
            hint="load the MPI module that the program was built with (module avail mpi), or let "
            "the scheduler start the ranks: berth pilot submit --tasks N -- ./app",
        )
    if "/" in program and path.is_dir():
        raise UsageError(f"{program} is a folder, not a program")
    if "/" in program and path.exists():
        raise UsageError(f"{program} is not executable", hint=f"chmod +x {program}")
    hint = "check the spelling" if "/" in program else "check the spelling, or give its path"
    if "/" not in program and path.is_file():
        hint = f"did you mean ./{program}?"
    raise UsageError(f"{program}: command not found", hint=hint)


class Interrupted(KeyboardInterrupt):
    """Raised on Ctrl-C during a run; ``outcome`` is that of the part that ran."""

    def __init__(self, outcome: ProcessResult) -> None:
        super().__init__()
        self.outcome = outcome


Watch = Callable[[int], None]


def run_one(order: Order, *, watch: Watch | None = None) -> ProcessResult:
    """Run one program and return its outcome.

    ``watch`` is called with the shepherd's process ID every TICK_S seconds.

    Raises:
        UsageError: the program could not be started.
        PilotError: the shepherd died.
        Interrupted: Ctrl-C. The program was ended; a second Ctrl-C is a KeyboardInterrupt.
    """
    shepherd = _Shepherd(order)
    interrupted = ended = False
    try:
        while not ended:
            try:
                ended = shepherd.read()
                if watch is not None and not ended:
                    watch(shepherd.pid)
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                shepherd.let_go()
        outcome = shepherd.outcome()
    finally:
        shepherd.let_go()
        shepherd.wait()
    if interrupted:
        raise Interrupted(outcome)
    return outcome


class _Shepherd:
    """One shepherd process as the caller sees it, and its pipes."""

    def __init__(self, order: Order) -> None:
        self._program = order.command[0]
        self._limit = order.cut_grace_s + 20.0
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SHEPHERD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=launcher_ends(order.env),
            start_new_session=True,  # Linux schedules each session as one group: it wakes up sooner
        )
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise PilotError("a pipe to the shepherd process could not be made")
        self._leash = stdin
        self._stdout = stdout
        self._poll = select.poll()
        self._poll.register(stdout, select.POLLIN)
        self.pid = self._process.pid
        self._text = b""
        self._leash.write(as_message(order))
        self._leash.flush()

    def read(self) -> bool:
        """Wait ``TICK_S`` seconds for the shepherd's output, read it; return True at its end."""
        if not self._poll.poll(1000 * TICK_S):
            return False
        chunk = os.read(self._stdout.fileno(), 1 << 20)
        self._text += chunk
        return not chunk

    def outcome(self) -> ProcessResult:
        self.let_go()
        self.wait()
        try:
            answer = marshal.loads(self._text)  # noqa: S302 - of our own process  # nosec B302
        except (EOFError, ValueError, TypeError):
            raise PilotError(
                f"the process that watches {self._program} died before it could report",
                hint="was it killed, or is the machine out of memory?",
            ) from None
        problem = answer.pop("exec_error", None)
        if problem:
            number, _, text = problem.partition(" ")
            hint = "not a program for this machine, or its interpreter is missing"
            raise UsageError(
                f"{self._program} could not be started: {text}",
                hint=hint if number != "0" else None,
            )
        for key in ("executables", "libraries", "written"):
            answer[key] = tuple(answer.get(key, ()))
        return ProcessResult(**answer)

    def let_go(self) -> None:
        """Close the shepherd's standard input, so that it ends every process of the run."""
        if not self._leash.closed:
            self._leash.close()

    def wait(self) -> None:
        """Wait until the shepherd has exited; kill it after the time limit for ending a run."""
        until = time.monotonic() + self._limit
        while self._process.poll() is None and time.monotonic() < until:
            try:
                self._process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._stdout.close()


def as_message(order: Order) -> bytes:
    """Return the order as the shepherd reads it."""
    values = {each.name: getattr(order, each.name) for each in fields(order)}
    data = marshal.dumps({**values, "env": dict(order.env), "tail_bytes": TAIL_BYTES})
    return data.hex().encode() + b"\n"
