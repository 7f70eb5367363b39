"""Automatic repartitioning: plans slices for pending and expected jobs, and applies a plan that
pays.

Expected demand is the slices that recent jobs requested. The submit filter requests only slices
that exist, but records all profiles that would fit (``slices=`` in the comment that Berth writes to
the job). Those profiles count where they are recorded, otherwise the type in the job's gres. So
GPUs with slices that are too large, or with none, do not stay that way merely because no job can
request smaller slices.

A scheduler forgets a job some minutes after its end (Slurm: MinJobAge), so each reading is added to
a small file; no accounting is needed. Jobs that come, go and are forgotten between two readings are
missed, so expected demand is too low rather than too high. Jobs that were cancelled before they ran
do not count, since a user could steer the partitioning with them at no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from berth.pilot.documents import Document, read_json, write_json
from berth.pilot.errors import DocumentError
from berth.plugin.mig.inventory import Fleet
from berth.plugin.mig.node import SlicesAsked
from berth.plugin.mig.settings import OutlookSettings, TriggerSettings
from berth.plugin.mig.target import ApplyTarget
from berth.policies.mig import GpuInstance
from berth.policies.mig.demands import Arrival, Demand, SliceOption, expected
from berth.policies.mig.plan import Hysteresis, RecutVerdict, worth_recutting
from berth.policies.mig.planner import plan

_MAX_KEPT = 50_000
TIME_LIMIT_S = 10.0


class ArrivalsDocument(Document):
    """The requests for slices seen so far, oldest first."""

    schema_: Literal["berth.mig-arrivals/1"] = Field("berth.mig-arrivals/1", alias="schema")
    asked: tuple[SlicesAsked, ...] = ()


def remembered(path: Path) -> tuple[SlicesAsked, ...]:
    """Return the requests recorded in the file; empty where the file is absent or unreadable."""
    try:
        return read_json(path, ArrivalsDocument).asked
    except DocumentError:
        return ()


def remember(
    path: Path, seen: Collection[SlicesAsked], *, now_s: float, window_s: float
) -> list[SlicesAsked]:
    """Add ``seen`` to the recorded requests, drop those older than the window, and write the file.

    Returns the recorded requests. Raises OSError where the file cannot be written.
    """
    # A pending job that is not seen any more is taken as cancelled.
    before = (a for a in remembered(path) if a.ran)
    by_job = {(a.job, a.submit_s, a.profiles): a for a in (*before, *seen)}
    lately = [a for a in by_job.values() if now_s - window_s < a.submit_s <= now_s]
    lately.sort(key=lambda a: (a.submit_s, a.job, a.profiles))
    newest = lately[-_MAX_KEPT:]
    write_json(path, ArrivalsDocument(asked=tuple(newest)))
    return newest


def arrivals(asked: Collection[SlicesAsked]) -> Iterator[Arrival]:
    """Yield one arrival for each slice request, with its time and number of slices."""
    for request in asked:
        demand = Demand(" or ".join(request.profiles), tuple(map(SliceOption, request.profiles)))
        yield Arrival(request.submit_s, demand, request.count)


def expected_demands(
    rules: OutlookSettings,
    seen_now: Callable[[], Iterable[SlicesAsked]],
    *,
    now_s: float,
    say: Callable[[str], object],
) -> tuple[Demand, ...]:
    """Return the slices that future jobs are expected to need, from recent requests.

    Expected demand has lower priority than pending jobs, which it does not include. ``seen_now``:
    returns the requests of all jobs that the scheduler still knows. Where the file of recorded
    requests cannot be written, ``say`` reports it and only the result of ``seen_now`` counts.
    Raises SchedulerError.
    """
    if not rules.enabled:
        return ()
    path = Path(rules.memory)
    seen = list(seen_now())
    try:
        asked = remember(path, seen, now_s=now_s, window_s=rules.window_s)
    except OSError as error:
        say(f"  jobs are not remembered: {path}: {error.strerror}")
        asked = seen
    return expected(
        arrivals(asked), now_s=now_s, window_s=rules.window_s, horizon_s=rules.horizon_s
    )


@dataclass(frozen=True, slots=True)
class Thought:
    """Whether to repartition now, the reason, and the target layouts."""

    verdict: RecutVerdict
    target: ApplyTarget | None
    """The layouts to apply; None: nothing is to be changed."""


def think(
    fleet: Fleet,
    held: Collection[tuple[str, GpuInstance]],
    demands: Sequence[Demand],
    rules: TriggerSettings,
    *,
    now_s: float,
    last_cut_s: float | None,
) -> Thought:
    """Compare a plan that repartitions GPUs with one that keeps their layouts, and return the
    verdict.

    ``held``: instances that jobs hold, by GPU UUID. Deterministic except for the planner's time
    limit. Raises UsageError where an objective needs predictions that the demands lack.
    """
    pairs = [(gpu, gpu.state(str(gpu.index), held=held)) for gpu in fleet]
    states = [state for _, state in pairs if state is not None]
    if not demands:
        return Thought(
            RecutVerdict(False, 0.0, "nobody waits for a slice and none is expected"), None
        )
    new = plan(states, demands, rules.objectives, time_limit_s=TIME_LIMIT_S)
    stay = plan(states, demands, rules.objectives, time_limit_s=TIME_LIMIT_S, recut=False)
    patience = Hysteresis(rules.min_dwell_s, rules.min_gain)
    verdict = worth_recutting(new, stay, patience, now_s=now_s, last_recut_s=last_cut_s)
    if not verdict.recut:
        return Thought(verdict, None)
    uuids = {str(gpu.index): gpu.uuid for gpu in fleet}
    changed = [g for g in new.gpus if g.recuts]
    return Thought(
        verdict,
        ApplyTarget(
            {uuids[g.state.gpu]: g.target for g in changed},
            {uuids[g.state.gpu]: g.state.layout for g in changed},
            "the plan just made",
        ),
    )
