"""The site's ratios between kinds of hardware, learnt from all past jobs, for history workloads.

A program is a user's jobs of one name and shape (arguments, cores, time limit): a name such as
``job.sh`` may stand for several. Jobs of programs that ran on both of two kinds say how much longer
programs take on one than on the other (``predictor.learning.history.kind_ratios``); a program that
ran on one kind only, or on none, gets the others' mean and spread. Where no program
ran on both, the benchmark kernels of ``berth site calibrate`` say it, widely.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import numpy as np

from berth.pilot.platform import Platform
from berth.pilot.profile import RunsOn
from berth.pilot.run import Run
from berth.plugin.history.matching import known_name, unknown_program
from berth.plugin.history.run_times import PlacedJob
from berth.predictor.families.history.workload import HistoryWorkload, KindRatio, PredictedRun
from berth.predictor.learning.history.kernel_ratios import Population, by_kernels
from berth.predictor.learning.history.kind_ratios import (
    HOME,
    KindRatios,
    LogRatio,
    Program,
    in_usual_order,
)
from berth.predictor.learning.history.run_pairs import Platforms, RunPair, TimedRun, pairs_of

UNKNOWN_TIME_S = (10.0, 3_600.0, 86_400.0)
"""Time of an unknown program where no job ended yet: lower end, middle and upper end in seconds."""


class SiteRatios:
    """Collects every user's past jobs, then returns ratios for their programs and for others."""

    def __init__(
        self,
        platforms: Mapping[str, Platform],
        *,
        at_site: Collection[str] = (),
        everybody: bool = False,
        now_s: float = math.inf,
    ) -> None:
        """``at_site``: names of the platforms of the site's candidates; ``everybody``: the site
        trusts all users (``learning.everybody``); ``now_s``: Unix time of the learning."""
        self._platforms, self._everybody, self._now_s = platforms, everybody, now_s
        self._at_site = [name for name in at_site if name in platforms]
        self._pairs: dict[Program, Mapping[Platforms, Sequence[RunPair]]] = {}
        self._times: dict[str, list[float]] = {}
        """Run times in seconds of the completed jobs by platform."""
        self._ratios: KindRatios | None = None
        self._kernels: dict[tuple[str, str], Population] = {}

    def add(self, user: str, jobs: Iterable[PlacedJob]) -> None:
        """Add a user's past jobs."""
        programs: dict[Hashable, list[TimedRun]] = {}
        for placed in jobs:
            job = placed.job
            platform = self._platforms.get(placed.platform)
            # A job without GPUs on a GPU node says nothing about the GPU.
            if not placed.ended_well or platform is None or platform.is_gpu != bool(job.gpus):
                continue
            program, cut_off = program_of(job), job.state != "completed"
            submit_s, start_s = job.submit_s or 0.0, job.start_s or 0.0
            run = TimedRun(program, placed.platform, submit_s, start_s, job.elapsed_s, cut_off)
            programs.setdefault(program, []).append(run)
            if cut_off:
                continue
            self._times.setdefault(placed.platform, []).append(max(job.elapsed_s, 1.0))
        for program, runs in programs.items():
            pairs = pairs_of(runs, now_s=self._now_s)
            if pairs:
                self._pairs[user, program] = pairs
        self._ratios = None

    def of_program(self, user: str, jobs: Sequence[PlacedJob]) -> tuple[KindRatio, ...]:
        """Return the ratios of all platforms to the program's homes, those of the home where most
        of its jobs ran first; ``jobs``: past jobs of one program, the newest last.

        A home is the platform with most of the jobs among those that run the same executables. Jobs
        of several shapes may be several programs: then the ratios are those of an unknown program.
        """
        shapes = {program_of(placed.job) for placed in jobs}
        program = shapes.pop() if len(shapes) == 1 else None
        counts = Counter(
            placed.platform for placed in reversed(jobs) if placed.platform in self._platforms
        )
        ratios: list[KindRatio] = []
        homes: list[str] = []
        for name in sorted(counts, key=counts.__getitem__, reverse=True):
            if not any(self._exchangeable(name, home) for home in homes):
                homes.append(name)
                ratios += self._to(name, user, program, ran_on=counts)
        return tuple(ratios)

    def of_unknown_programs(self) -> list[HistoryWorkload]:
        """Return one workload for jobs of unknown programs without GPUs and one for those with
        GPUs, where the site's ratios are known."""
        workloads = []
        for is_gpu in (False, True):
            ran_on = {
                name: times
                for name, times in self._times.items()
                if self._platforms[name].is_gpu is is_gpu
            }
            at_site = [name for name in self._at_site if self._platforms[name].is_gpu is is_gpu]
            home = max(ran_on, key=lambda name: len(ran_on[name]), default=next(iter(at_site), ""))
            ratios = self._to(home, "", None) if home else ()
            # Where kinds of hardware cannot run each other's programs, nothing is said of unknown
            # ones.
            if ratios and ran_on.keys() <= {home, *(ratio.platform for ratio in ratios)}:
                workloads.append(self._unknown_program(home, ratios))
        return workloads

    def _unknown_program(self, home: str, ratios: tuple[KindRatio, ...]) -> HistoryWorkload:
        """Return the workload of programs with these ratios; their times are those of all jobs on
        the platform ``home``."""
        platform, times = self._platforms[home], self._times.get(home)
        low, mid, high = UNKNOWN_TIME_S
        if times is not None:
            low, mid, high = np.quantile(times, (0.05, 0.5, 0.95)).tolist()
        typical = PredictedRun(
            platform=home, cores=1, gpus=int(platform.is_gpu), low_s=low, mid_s=mid, high_s=high,
            accuracy=0.0, trusted=False,
        )  # fmt: skip
        return HistoryWorkload(
            name=unknown_program(uses_gpus=platform.is_gpu),
            runs=(),
            runs_on=RunsOn(targets=platform.targets, architecture=platform.architecture),
            predicted=(typical,),
            ratios=ratios,
        )

    def _to(
        self, home: str, user: str, program: Hashable | None, ran_on: Collection[str] = ()
    ) -> tuple[KindRatio, ...]:
        """Return the ratios of other platforms to ``home``; ``ran_on``: where the program ran, so
        that only programs say more than its own times."""
        log_ratios, usual = {home: HOME}, {home: 0.0}
        for name in sorted({*self._times, *self._at_site} - {home}):
            if not self._exchangeable(name, home):
                continue
            ratio = self._between(name, home, user, program)
            if ratio is not None and (ratio.programs or name not in ran_on):
                log_ratios[name] = ratio
                of_unknown = ratio if program is None else self._between(name, home, user, None)
                usual[name] = ratio.mid if of_unknown is None else of_unknown.mid
        mids = in_usual_order(log_ratios, usual)
        return tuple(
            _document(name, home, ratio, mids[name], usual[name])
            for name, ratio in log_ratios.items()
            if name != home
        )

    def _between(
        self, name: str, home: str, user: str, program: Hashable | None
    ) -> LogRatio | None:
        if self._ratios is None:
            self._ratios = KindRatios(self._pairs)
        return self._ratios.between(
            name, home, user, program,
            everybody=self._everybody, kernels=self._by_kernels(name, home),
        )  # fmt: skip

    def _by_kernels(self, name: str, home: str) -> Population:
        if (name, home) not in self._kernels:
            self._kernels[name, home] = by_kernels(self._platforms[name], self._platforms[home])
        return self._kernels[name, home]

    def _exchangeable(self, name: str, other: str) -> bool:
        """Return whether the same executables run on both platforms, and neither is a MIG slice:
        how much slower those are depends on how a program uses its GPU."""
        first, second = self._platforms[name], self._platforms[other]
        if first.parent is not None or second.parent is not None:
            return False
        return (first.architecture, first.targets) == (second.architecture, second.targets)


def program_of(job: Run) -> Hashable:
    """Return what tells a user's programs apart: the job's name, else its script, and its shape."""
    name = known_name(job.name, job.program) or job.similar or job.script
    shape = job.arguments or job.script, job.cores, job.gpus, job.nodes or 1, job.time_limit_s
    return name, *shape


def _document(platform: str, than: str, ratio: LogRatio, mid: float, usual: float) -> KindRatio:
    ends = ratio.mid - ratio.half_width, ratio.mid + ratio.half_width
    low, mid, high = (math.exp(log) for log in sorted((*ends, mid)))  # it may be beyond an end
    return KindRatio(
        platform=platform, than=than, low=low, mid=mid, high=high, programs=ratio.programs,
        is_own=ratio.is_own, kernels=ratio.kernels, usual=math.exp(usual),
    )  # fmt: skip
