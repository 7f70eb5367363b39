"""Plausibility checks of a run: contention for the machine, and impossible counts.

Contention is measured in four ways: how long the program's computing threads waited for a
processor (``/proc/PID/schedstat``), the processor time of other programs during the run and the
time that the host of a virtual machine took (``/proc/stat``), and the time for which the program
was stopped. Waits for other work are taken off the measured time. The time is then known between
two bounds: the program's processor time by the number of its threads, with the time for which it
was seen to want no processor, and the wall time without the waits that were seen. Their distance
and what remains of the contention make the time uncertain (its noise).

Counts are compared with the processor time of their run and with each other, whatever gave them:
perf, the emulator or an imported file. An emulated run can miss the program: the launcher starts
the program outside the process tree, a script's children are not followed, or the emulator does not
know an instruction. Counters of virtual machines overflow. Such counts are dropped, because a
prediction from them is worse than a prediction from time and memory alone.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from berth.pilot.catalogue import BY_NAME
from berth.pilot.host import cores
from berth.pilot.launch import LAUNCHERS, ProcessResult
from berth.pilot.profile import Measurement, Quality, RunsOn, Runtime, Target
from berth.pilot.runs_on import REMOTE_LAUNCHERS, behind_env

NOT_ITS_OWN = "the machine was not its own"
"""Beginning of the warning about contention, by which :func:`is_contention` recognises it."""
NOTICEABLE = 0.05
"""Smallest slowdown by waiting or stolen time that is taken off a run's time and gives a warning,
as a fraction of the time on an idle machine."""
BY_OTHERS = 0.5
"""Waits are by other work only if that had at least this share of the time waited."""
BUSY_NOISE, STOPPED_NOISE, STOLEN_NOISE = 0.18, 0.2, 1.0
"""Standard deviation of log time of runs on a machine whose other processors are all busy (caches,
bandwidth and hardware threads are shared), of which all the time was stopped, and of which all the
time was stolen; less in proportion."""
LEAST_NOISE = 0.02
"""Smaller noise is not told from that of a quiet machine."""
COMPUTES = 0.3
"""Only programs that run for at least this share of the time for which they do not wait for a
processor are judged to have been stopped: others wait for something."""
NORMAL_90 = 1.645
"""Half width of a 90 % interval, in standard deviations."""
EXPECTED_RUNS = 4
"""The expected noise counts as much as so many runs beside those that were measured."""
FIRST_SHARE = 0.9
"""Only where one first thread has this share of the processor time, all waits are known: those of
threads and children that ended between two samples are not."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
"""Step in which the kernel tells the processor time of the machine."""
OTHER, LEAST_OTHER_S = 2.0, 0.02
"""A second run did other work if it took less than a half of the processor time, and read, wrote
and called for less than a half; shorter differences are not told from none."""
JUDGED_S, BEYOND_SEEN = 0.1, 0.3
"""How many cores a run used is known of runs of at least ``JUDGED_S``; the mean number of busy
ones may exceed it by ``BEYOND_SEEN``."""
REFUSED_S = 0.2
"""A program that refuses its work takes less processor time."""
REFUSAL = re.compile(
    r"^(?:[\w./+-]+: )?(?:fatal |syntax )?(?:error|usage|(?:unknown|invalid|unrecogni[sz]ed) "
    r"(?:option|argument)|cannot open|no such file)\b(?![ =:]*[-+.0-9]|.*\bignor).*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line with an error or a program's usage; "error: 0.001" is a result, an ignored one is none."""
LEAST_S = 1e-6
"""Shorter times are not told from none."""
BLOCKED_S = 0.1
"""Time for which a program that gives up its processor itself is taken to wait each time."""


@dataclass(frozen=True, slots=True)
class Contention:
    """Use of the machine by others during one run.

    ``waited_s``: seconds that the program waited or its time was stolen; ``other_cores``: mean
    number of processors that other programs kept busy; ``stolen_share``: part of the used
    processor time that the host of the virtual machine took.
    """

    waited_s: float
    other_cores: float
    stolen_share: float
    most_s: float
    """Wall time without the waits that were seen: at most this long on an idle machine."""
    least_s: float
    """Processor time of the critical thread, and time for which none was wanted."""
    threads: int = 1
    """Number of its threads that computed."""
    stopped_share: float = 0.0
    """Part of the wall time for which the program neither ran nor waited for a processor, nor had
    given up its processor itself: it was stopped or frozen."""
    by_others: bool = False
    """Whether other work, not its own threads, kept the program waiting."""

    @property
    def noticeable(self) -> bool:
        """Return whether contention made the run over 5 % longer than on an idle machine."""
        return self.waited_s > NOTICEABLE * self.most_s

    @property
    def taken_off(self) -> bool:
        """Return whether the waits are taken off the time of the run."""
        return self.noticeable and self.by_others

    @property
    def idle_s(self) -> float:
        """Return the estimated wall time of the run on an idle machine.

        That of several threads is the lower bound: each also waits for the others' waits.
        """
        return self.least_s if self.threads > 1 else math.sqrt(self.least_s * self.most_s)

    @property
    def expected_noise(self) -> float:
        """Return the standard deviation of log time that this contention leads to expect."""
        share = min(1.0, self.other_cores / max(1, (os.cpu_count() or 1) - 1))
        half_width = math.log(self.most_s / self.least_s) / 2 if self.taken_off else 0.0
        return math.hypot(
            BUSY_NOISE * share,
            STOPPED_NOISE * self.stopped_share,
            STOLEN_NOISE * self.stolen_share,
            half_width / NORMAL_90,
        )

    def sentence(self, runtime: Runtime) -> str | None:
        """Return a warning about a busy machine and its effect on the time; None: it was quiet."""
        if runtime.noise is None:
            return None
        signs = []
        if self.noticeable:
            signs.append(f"it waited {self.waited_s:.3g} s for a processor")
        if self.other_cores >= 0.1:
            signs.append(f"other work kept {self.other_cores:.1f} processors busy")
        if self.stolen_share >= 0.01:
            signs.append(f"the host of this virtual machine took {self.stolen_share:.0%}")
        if self.stopped_share >= NOTICEABLE:
            signs.append(f"it did not run for {self.stopped_share:.0%} of its time")
        factor = math.exp(NORMAL_90 * runtime.noise)
        taken_off = " without its waits" if self.taken_off else ""
        return (
            f"{NOT_ITS_OWN} ({', '.join(signs) or 'its runs differ'}): the profile's time, "
            f"{runtime.median_s:.3g} s{taken_off}, is known to within a factor of {factor:.2f} "
            "only (nine of ten times), as are the predicted times; measure again on an idle node"
        )


def is_contention(warning: str) -> bool:
    """Return whether a Profile's warning is about contention for the machine."""
    return warning.startswith(NOT_ITS_OWN)


def contention(outcome: ProcessResult) -> Contention | None:
    """Return the contention during a run; None: the kernel gave no processor times."""
    if not outcome.machine_s or outcome.wall_s <= 0:
        return None
    wall_s, used = outcome.wall_s, outcome.usage
    other = max(0.0, outcome.machine_s.get("busy", 0.0) - outcome.cpu_s) / wall_s
    capacity = outcome.machine_s.get("busy", 0.0) + outcome.machine_s.get("stolen", 0.0)
    stolen = outcome.machine_s.get("stolen", 0.0) / capacity if capacity else 0.0
    waited = min(outcome.waited_s + outcome.seen_late_s, 0.99 * wall_s)
    running = wall_s - waited
    # The kernel's waiting times do not include the time that the host stole.
    taken = min(running, outcome.cpu_s) * stolen
    waited_s = waited + taken
    least = max(_critical_s(outcome) * (1 - stolen), LEAST_S)
    most = max(running - taken, least)
    if _alone(outcome):
        least = max(least, most - waited_s)
    gave_up = used.get("ru_nvcsw", 0.0) * BLOCKED_S
    computes = outcome.cpu_s >= COMPUTES * running
    stopped = max(0.0, running - outcome.cpu_s - gave_up) / wall_s if computes else 0.0
    return Contention(
        waited_s,
        other,
        stolen,
        most,
        least,
        max(1, outcome.threads_busy),
        stopped,
        other * wall_s + TICK_S >= BY_OTHERS * waited
        # Threads beyond the processors wait for each other, too.
        and (outcome.threads_busy <= cores() or other * wall_s > outcome.cpu_s),
    )


def _critical_s(outcome: ProcessResult) -> float:
    """Return the processor time in seconds of the run's critical path, at least, and the time for
    which it was seen to want no processor."""
    processes = max(1, min(outcome.processes_busy, cores()))
    threads = max(1, outcome.threads_busy)
    each_s = outcome.cpu_s / min(threads * processes, cores())
    busiest_s = outcome.busiest_process_s / min(threads, cores()) if processes > 1 else 0.0
    first_s = min(outcome.first_thread_s, outcome.cpu_s)
    return min(max(each_s, busiest_s, first_s) + outcome.blocked_s, outcome.wall_s)


def _alone(outcome: ProcessResult) -> bool:
    """Return whether the run was one thread, of which the kernel told all waits."""
    several = max(outcome.processes_busy, outcome.threads_busy) > 1
    return not several and outcome.first_thread_s > FIRST_SHARE * outcome.cpu_s


def own_time_s(outcome: ProcessResult) -> float:
    """Return the wall time of a run without the time for which other work kept it waiting."""
    shared = contention(outcome)
    return outcome.wall_s if shared is None or not shared.taken_off else shared.idle_s


def cores_used(outcome: ProcessResult) -> int:
    """Return how many cores a run kept busy on average, rounded up; 1 where it is too short.

    Processes count as well as threads. Threads that wait for a processor count as busy: other work,
    a quota or the host of a virtual machine holds them up.
    """
    if outcome.wall_s < JUDGED_S:
        return 1
    busy = outcome.cpu_s / max(own_time_s(outcome), LEAST_S)
    return min(max(1, math.ceil(max(busy, outcome.cores_wanted) - BEYOND_SEEN)), cores())


def other_work(first: ProcessResult, again: ProcessResult) -> str | None:
    """Return how a second run differs from the first so much that it did other work; None: it did
    the same.

    Programs that find their results, as make does, end at once. Processor time alone differs on a
    busy machine: what was read, written and called for must differ as well.
    """
    if again.cpu_s * OTHER > first.cpu_s or first.cpu_s < again.cpu_s + LEAST_OTHER_S:
        return None
    moved, moved_again = (sum((run.io or {}).values()) for run in (first, again))
    if first.io is not None and again.io is not None and moved_again * OTHER > moved:
        return None
    return (
        f"took {again.cpu_s:.2g} s of processor time, the first {first.cpu_s:.2g} s: it found what "
        "the first had done"
    )


def refused(outcome: ProcessResult) -> str | None:
    """Return the line with which a program refused its work though its status says that it
    succeeded: an error or its usage, after hardly any processor time and without a result in a
    file; None: it did not."""
    if outcome.cpu_s > REFUSED_S or outcome.written:
        return None
    found = REFUSAL.search(outcome.output_tail)
    return None if found is None else found.group().strip()


def least_disturbed(runs: Sequence[ProcessResult]) -> ProcessResult:
    """Return the run whose time on an idle machine has the lowest upper bound."""

    def most_s(run: ProcessResult) -> float:
        shared = contention(run)
        return run.wall_s if shared is None or not shared.taken_off else shared.most_s

    return min(runs, key=most_s)


def noise_of(times_s: Sequence[float], shared: Contention | None) -> float | None:
    """Return the standard deviation of the log of the next run's time around the median of these
    runs; None: the machine was quiet.

    It is that of the runs, drawn to the noise that the contention leads to expect.
    """
    expected = 0.0 if shared is None else shared.expected_noise
    if expected < LEAST_NOISE:
        return None
    logs = [math.log(time_s) for time_s in times_s]
    middle = math.fsum(logs) / len(logs)
    squares = EXPECTED_RUNS * expected**2 + math.fsum((log - middle) ** 2 for log in logs)
    variance = squares / (EXPECTED_RUNS + len(logs) - 1)
    return math.sqrt(variance * (1 + 1 / len(logs)))


MOST_PER_CYCLE, MOST_HZ = 16.0, 5e9
"""Upper bounds of one core: eight instructions per cycle are decoded by the widest cores (Zen 5,
Lion Cove), each of which may be a compare fused with a jump; most run below 5 GHz."""
MOST_PER_S = MOST_PER_CYCLE * MOST_HZ
MOST_WIDE = {"count": 1.0, "byte": 256.0, "flop": 128.0}
"""Upper bound per instruction, by the counter's unit: the longest vectors (2048 bits, SVE) have 256
bytes and 64 lanes, of which each may be multiplied and added."""
NO_COUNT = 2.0**63
"""No count is as large: a 64-bit counter that is set back below zero shows nearly 2^64."""
NEVER_NONE = frozenset(("instructions", "cycles", "branches"))
"""Counters that are above zero in every program."""
OF_NO_CORE = frozenset(("io", "parallel", "gpu"))
"""Groups of counters that are not bounded by what a core does."""
KERNEL = frozenset(("proc", "cgroup"))
"""Sources that are the kernel's own accounting."""
LEAST_PER_S = 2.5e8
"""Lower bound of instructions per second of one core, without the misses of ``MISS_S``."""
MISS_S = {"l2_load_misses": 40e-9, "llc_load_misses": 250e-9, "branch_misses": 20e-9}
"""Upper bound of the seconds per miss: on a slow machine, without overlap between misses."""
DOUBT = 4.0
"""Safety factor on the longest plausible time, for contention and still slower machines."""
SHORT_S = 0.2
"""Seconds added to the limits: in short runs start-up and clock resolution dominate."""
IDLE_SHARE = 0.05
"""A launcher whose processor time / wall time is below this only waited."""


def no_count(value: float) -> str | None:
    """Return why a number can be no count of anything; None: it can."""
    if math.isnan(value):
        return "a part of it is not a number (nan): some thread, channel or launch was not counted"
    return None if 0 <= value < NO_COUNT else f"{value:.4g} is no count: a counter overflowed"


def impossible(
    counts: Mapping[str, float], runs_on: RunsOn, cpu_s: float | None, user_s: float | None = None
) -> str | None:
    """Return why these counts cannot all be of one run; None: they can.

    ``counts``: by counter of the catalogue, or by perf event; ``cpu_s`` and ``user_s``: processor
    time of the run, and that in user mode, which is what counters count, in seconds; None: unknown,
    and not judged by. Programs on GPUs are not judged.
    """
    if runs_on.gpus or Target.CPU not in runs_on.targets:
        return None
    return next(_contradictions(counts, cpu_s, user_s), None)


def _contradictions(
    counts: Mapping[str, float], cpu_s: float | None, user_s: float | None
) -> Iterator[str]:
    for name, value in counts.items():
        known = BY_NAME.get(name)
        wide = MOST_WIDE.get(known.unit if known else "count")
        if cpu_s is None or wide is None or (known and known.group in OF_NO_CORE):
            continue
        if value > MOST_PER_S * wide * (cpu_s + SHORT_S):
            yield f"{value:.3g} {name} are more than a processor does in {cpu_s:.3g} s"
        if value == 0 and name in NEVER_NONE:
            yield f"no {name} in {cpu_s:.3g} s"
    done, cycles = counts.get("instructions"), counts.get("cycles")
    if done is None:
        return
    if cycles is not None and done > MOST_PER_CYCLE * cycles:
        each = f"{done / cycles:.3g} in each cycle" if cycles else "without a cycle"
        yield f"{done:.3g} instructions, {each}, are more than any processor does"
    slowest_s = done / LEAST_PER_S + sum(each * counts.get(n, 0.0) for n, each in MISS_S.items())
    if user_s is not None and user_s > DOUBT * slowest_s + SHORT_S:
        yield (
            f"only {done:.3g} instructions were counted, at most {slowest_s:.3g} s of work, where "
            f"the program took {user_s:.3g} s of processor time: it was not this that was counted"
        )


def ran_elsewhere(command: tuple[str, ...], outcome: ProcessResult) -> str | None:
    """Return why a program is taken to run outside its launcher's process tree, or None."""
    launcher = PurePath(behind_env(command)[0]).name
    if launcher not in REMOTE_LAUNCHERS | LAUNCHERS or outcome.wall_s < SHORT_S:
        return None
    if outcome.cpu_s > IDLE_SHARE * own_time_s(outcome):
        return None
    return (
        f"{launcher} used {outcome.cpu_s:.2g} s of processor time in {outcome.wall_s:.3g} s: the "
        f"program ran elsewhere; put the pilot inside ({launcher} ... berth pilot run -- ./app) or "
        "use berth pilot submit"
    )


def without_counts(counters: Mapping[str, Measurement], why: str) -> dict[str, Measurement]:
    """Return the counters with values only of what the kernel accounts for (times, page faults).

    All other counters are missing, with the reason ``why``.
    """
    return {
        name: measurement
        if name in BY_NAME and not KERNEL.isdisjoint(BY_NAME[name].sources)
        else Measurement(value=None, quality=Quality.MISSING, source="none", note=why)
        for name, measurement in counters.items()
    }
