"""The site's ratios between kinds of hardware, learnt from all past jobs, for history workloads.

A program is a user's jobs of one name. Jobs of programs that ran on both of two kinds say how much
longer programs take on one than on the other (``predictor.learning.history.kind_ratios``); a
program that ran on one kind only, or on none, gets the others' mean and spread.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from berth.pilot.platform import Platform
from berth.pilot.profile import RunsOn
from berth.plugin.history.matching import known_name, unknown_program
from berth.plugin.history.run_times import PlacedJob
from berth.plugin.store.records import PastJobRecord
from berth.predictor.families.history.workload import HistoryWorkload, KindRatio, PredictedRun
from berth.predictor.learning.history.kind_ratios import (
    KindRatios,
    LogRatio,
    Pair,
    Platforms,
    Program,
    TimedRun,
    pairs_of,
)


class SiteRatios:
    """Collects every user's past jobs, then returns ratios for their programs and for others."""

    def __init__(self, platforms: Mapping[str, Platform], *, everybody: bool) -> None:
        """``everybody``: the site trusts all users (``learning.everybody``)."""
        self._platforms, self._everybody = platforms, everybody
        self._pairs: dict[Program, Mapping[Platforms, Sequence[Pair]]] = {}
        self._times: dict[str, list[float]] = {}
        """Run times in seconds of the completed jobs by platform."""
        self._users: dict[str, set[str]] = {}
        self._ratios: KindRatios | None = None

    def add(self, user: str, jobs: Iterable[PlacedJob]) -> None:
        """Add a user's past jobs."""
        programs: dict[str, list[TimedRun]] = {}
        for placed in jobs:
            job = placed.job
            platform = self._platforms.get(placed.platform)
            # A job without GPUs on a GPU node says nothing about the GPU.
            if job.state != "completed" or platform is None or platform.is_gpu != bool(job.gpus):
                continue
            shape = (job.arguments or job.script, job.cores, job.gpus, job.nodes, job.time_limit_s)
            run = TimedRun(shape, placed.platform, job.submit_s, job.elapsed_s)
            programs.setdefault(program_of(job), []).append(run)
            self._times.setdefault(placed.platform, []).append(max(job.elapsed_s, 1.0))
            self._users.setdefault(placed.platform, set()).add(user)
        for program, runs in programs.items():
            pairs = pairs_of(runs)
            if pairs:
                self._pairs[user, program] = pairs
        self._ratios = None

    def of_program(self, user: str, jobs: Sequence[PlacedJob]) -> tuple[KindRatio, ...]:
        """Return the ratios of all platforms to the one where most of the jobs ran; ``jobs``: past
        jobs of one program, the newest last."""
        return self._to(self.home_of(jobs), user, program_of(jobs[-1].job))

    @staticmethod
    def home_of(jobs: Sequence[PlacedJob]) -> str:
        """Return the platform where most of the jobs ran, of several the one that ran last."""
        counts = Counter(placed.platform for placed in reversed(jobs))
        return max(counts, key=counts.__getitem__)

    def exchangeable_with(self, home: str, kinds: Iterable[str]) -> set[str]:
        """Return those of ``kinds`` that run the same executables as ``home``, but for ``home``."""
        return {
            name
            for name in kinds
            if name != home and name in self._platforms and home in self._platforms
            and _exchangeable(self._platforms[name], self._platforms[home])
        }  # fmt: skip

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
            if not ran_on:
                continue
            home = max(ran_on, key=lambda name: len(ran_on[name]))
            ratios = self._to(home, "", None)
            # Where kinds of hardware cannot run each other's programs, nothing is said of unknown
            # ones.
            if len(ratios) == len(ran_on) - 1 > 0:
                low, mid, high = np.quantile(ran_on[home], (0.05, 0.5, 0.95)).tolist()
                typical = PredictedRun(
                    platform=home, cores=1, gpus=int(is_gpu), low_s=low, mid_s=mid, high_s=high,
                    accuracy=0.0, trusted=False,
                )  # fmt: skip
                platform = self._platforms[home]
                document = HistoryWorkload(
                    name=unknown_program(uses_gpus=is_gpu),
                    runs=(),
                    runs_on=RunsOn(targets=platform.targets, architecture=platform.architecture),
                    predicted=(typical,),
                    ratios=ratios,
                )
                workloads.append(document)
        return workloads

    def _to(self, home: str, user: str, program: str | None) -> tuple[KindRatio, ...]:
        if self._ratios is None:
            self._ratios = KindRatios(self._pairs)
        ratios = []
        for name in sorted(self._times):
            if name == home or not _exchangeable(self._platforms[name], self._platforms[home]):
                continue
            log_ratio = self._ratios.between(name, home, user, program, everybody=self._everybody)
            if log_ratio is not None:
                ratios.append(_document(name, home, log_ratio))
        return tuple(ratios)


def _exchangeable(platform: Platform, other: Platform) -> bool:
    """Return whether the same executables run on both platforms, and neither is a MIG slice: how
    much slower those are depends on how a program uses its GPU."""
    if platform.parent is not None or other.parent is not None:
        return False
    return platform.architecture == other.architecture and platform.targets == other.targets


def program_of(job: PastJobRecord) -> str:
    """Return what tells a user's programs apart: the job's name, else its script or arguments, else
    its number of cores."""
    return known_name(job.name, job.program) or job.similar or job.script or f"{job.cores} cores"


def _document(platform: str, than: str, ratio: LogRatio) -> KindRatio:
    low, mid, high = (math.exp(ratio.mid + sign * ratio.half_width) for sign in (-1.0, 0.0, 1.0))
    return KindRatio(
        platform=platform, than=than, low=low, mid=mid, high=high, programs=ratio.programs,
        is_own=ratio.is_own,
    )  # fmt: skip
