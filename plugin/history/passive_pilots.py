"""Passive pilots: Profiles from what perf counted of users' own jobs, and whose jobs to count.

The site's nodes count one in N jobs of users whose programs have wide ratios between kinds of
hardware (``pilot.usage.at_job_start``). A counted job becomes a Profile of what was counted and no
more, and what the program family predicts from it takes the place of a ratio that is wider.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from berth.pilot.collectors.perf import cannot_be, parse
from berth.pilot.documents import write_text
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.importers.perf_stat import read_text
from berth.pilot.importers.profiles import Wishes, plain_name, profile
from berth.pilot.importers.reading import Source
from berth.pilot.profile import Profile, Target
from berth.pilot.usage.at_job_end import LIST
from berth.pilot.usage.record import Usage, of_job
from berth.plugin.history.run_times import PlacedJob
from berth.plugin.site.site import PassivePilots
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis
from berth.predictor.families.history.workload import KindRatio

SOURCE = "perf-cgroup"
"""The source of these Profiles' counters."""
PREFIX = "counted-"
LEAST_S = 10.0
"""Shortest job that is taken: of shorter ones perf may have missed the start."""
WIDE = 1.5
"""A ratio is wide where the upper end of its interval is over this many times the lower one."""
MOST_USERS = 1_000

Counted = Mapping[tuple[str, str], Sequence[Usage]]
"""What is recorded of jobs that perf counted, by cluster and job id."""


def newest_profile(name: str, jobs: Iterable[PlacedJob], counted: Counted) -> Profile | None:
    """Return the Profile of the last of these jobs that was counted as a whole; None: none was.

    ``jobs``: past jobs of one program, the newest last. Jobs on several nodes, with GPUs, of less
    than ``LEAST_S``, that failed, and counts that cannot be, do not count.
    """
    for placed in reversed(list(jobs)):
        job = placed.job
        usages = counted.get((job.cluster, job.job_id), ())
        usage = next((one for one in usages if one.counts and one.reporter in {"", job.user}), None)
        is_taken = job.state == "completed" and job.nodes == 1 and not job.gpus
        if usage is None or not is_taken or job.elapsed_s < LEAST_S:
            continue
        counted_profile = _profile(name, placed, usage, of_job(usages, job.user) or usage)
        if counted_profile is not None:
            return counted_profile
    return None


def _profile(name: str, placed: PlacedJob, usage: Usage, best: Usage) -> Profile | None:
    job, cpu_s = placed.job, best.cpu_time_s
    if cpu_s is None or cannot_be(parse(usage.counts), cpu_s) is not None:
        return None
    raw = usage.counts.encode()
    source = Source(Path(f"job-{job.job_id}"), raw, hashlib.sha256(raw).hexdigest())
    busy = max(1, min(round(cpu_s / job.elapsed_s), job.cores))
    wishes = Wishes(
        placed.platform, name=plain_name(name), runtime_s=job.elapsed_s,
        targets=(Target.CPU,), threads=busy,
    )  # fmt: skip
    try:
        reading = replace(read_text(source), tool=SOURCE, command=(job.name or name,))
        imported = profile(reading, reading.regions[0], source, wishes)
    except BerthError:
        return None
    counters = {
        counter: one.model_copy(update={"source": SOURCE}) if one.value is not None else one
        for counter, one in imported.counters.items()
    }
    return imported.model_copy(update={"counters": counters, "peak_memory_bytes": best.peak_bytes})


def with_narrower(
    ratios: Sequence[KindRatio], forecast: Forecast, home: str, cores: int, *, allow_prior: bool
) -> tuple[KindRatio, ...]:
    """Return the ratios, those to ``home`` first, with those that a counted job's forecast knows
    better in place of wider ones, and those that only it knows; priors only where the site allows
    them."""
    better = {ratio.platform: ratio for ratio in ratios}
    for platform in forecast.curves:
        there = forecast.at(platform, cores)
        faster = forecast.ratio(platform, cores, home, cores)
        if platform == home or there is None or faster is None:
            continue
        is_prior = there.basis is Basis.PRIOR
        if there.abstained is not None or there.gpus or (is_prior and not allow_prior):
            continue
        known = better.get(platform)
        if known is None or faster.high / faster.low < known.high / known.low:
            better[platform] = KindRatio(
                platform=platform, than=home, low=1 / faster.high, mid=1 / faster.mid,
                high=1 / faster.low, programs=1, is_own=True,
            )  # fmt: skip
    return tuple(sorted(better.values(), key=lambda one: (one.than != home, one.platform)))


def are_wide(ratios: Sequence[KindRatio], kinds: Collection[str], home: str) -> bool:
    """Return whether the ratio of one of the site's ``kinds`` to ``home`` is wide or unknown."""
    known = {ratio.platform: math.log(ratio.high / ratio.low) for ratio in ratios}
    return any(known.get(kind, math.inf) > math.log(WIDE) for kind in kinds if kind != home)


def write_list(settings: PassivePilots, users: Iterable[str]) -> None:
    """Write the list that nodes read, or remove it where passive pilots are off.

    Raises UsageError where the spool cannot be written.
    """
    path = settings.spool / LIST
    if not settings.one_in and not os.access(path, os.F_OK):
        return
    try:
        if settings.one_in:
            settings.spool.stat()  # a folder that is not there would be made
            lines = [f"one in {settings.one_in}", *sorted(users)[:MOST_USERS]]
            write_text(path, "\n".join(lines) + "\n", mode=0o644)
        else:
            path.unlink()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written: {error.strerror}",
            hint="[passive_pilots] spool in the site file names the spool of berth pilot usage",
        ) from None
