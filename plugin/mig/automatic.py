"""Automatic repartitioning: plan slices for jobs that are pending or expected, and repartition the
GPUs where the gain is worth the interruption.

Expected are slices like those that jobs asked for lately. The submit filter only asks for slices
that exist, but writes down which would do (``slices=`` in its stamp): that counts where it is
there, else the type in the job's gres. So GPUs that are cut too large, or not at all, do not stay
so for want of jobs that ask for smaller slices.

A scheduler forgets a job some minutes after its end (Slurm: MinJobAge), so each look is remembered
in a small file of its own; no accounting is needed. Jobs that come and go between two looks and
are forgotten meanwhile are missed: the forecast is rather too small than too large. Jobs that were
cancelled before they ran count for nothing: any user could steer the cuts with them at no cost.
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
from berth.plugin.mig.node import Asked
from berth.plugin.mig.settings import OutlookSettings, TriggerSettings
from berth.plugin.mig.target import Target
from berth.policies.mig import Instance
from berth.policies.mig.demands import Arrival, Demand, SliceOption, expected
from berth.policies.mig.plan import Hysteresis, Verdict, worth_recutting
from berth.policies.mig.planner import plan

_MAX_KEPT = 50_000
TIME_LIMIT_S = 10.0


class ArrivalsDocument(Document):
    """The slice requests that earlier runs of ``berth mig auto`` saw, oldest first."""

    schema_: Literal["berth.mig-arrivals/1"] = Field("berth.mig-arrivals/1", alias="schema")
    asked: tuple[Asked, ...] = ()


def remembered(path: Path) -> tuple[Asked, ...]:
    """Read the recorded slice requests; return an empty tuple where the file is absent or
    unreadable."""
    try:
        return read_json(path, ArrivalsDocument).asked
    except DocumentError:
        return ()


def remember(path: Path, seen: Collection[Asked], *, now_s: float, window_s: float) -> list[Asked]:
    """Add ``seen`` to the recorded slice requests, drop those older than ``window_s`` seconds, and
    write and return the rest.

    Raises OSError where the file cannot be written.
    """
    # One that only waited and is not seen any more was cancelled, as far as can be known.
    before = (a for a in remembered(path) if a.ran)
    by_job = {(a.job, a.submit_s, a.profiles): a for a in (*before, *seen)}
    lately = [a for a in by_job.values() if now_s - window_s < a.submit_s <= now_s]
    lately.sort(key=lambda a: (a.submit_s, a.job, a.profiles))
    newest = lately[-_MAX_KEPT:]
    write_json(path, ArrivalsDocument(asked=tuple(newest)))
    return newest


def arrivals(asked: Collection[Asked]) -> Iterator[Arrival]:
    """Yield one arrival per slice that these jobs requested."""
    for request in asked:
        demand = Demand(" or ".join(request.profiles), tuple(map(SliceOption, request.profiles)))
        yield Arrival(request.submit_s, demand, request.count)


def expected_demands(
    rules: OutlookSettings,
    seen_now: Callable[[], Iterable[Asked]],
    *,
    now_s: float,
    say: Callable[[str], object],
) -> tuple[Demand, ...]:
    """Return the slice demands expected within ``rules.horizon_s``, at the rate of the last
    ``rules.window_s``; their priority is below that of pending jobs.

    ``seen_now``: what the scheduler still knows. A memory that cannot be written is reported by
    ``say``, and only that counts. Raises SchedulerError.
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
    """The decision whether to repartition now, its reason, and the target layouts."""

    verdict: Verdict
    target: Target | None
    """The layouts to apply; None: leave the GPUs as they are."""


def think(
    fleet: Fleet,
    held: Collection[tuple[str, Instance]],
    demands: Sequence[Demand],
    rules: TriggerSettings,
    *,
    now_s: float,
    last_cut_s: float | None,
) -> Thought:
    """Plan with and without changing the layouts and compare the two plans. Apart from the
    planner's time limit, the result depends on the arguments only.

    Raises UsageError where an objective needs predictions that the demands lack.
    """
    pairs = [(gpu, gpu.state(str(gpu.index), held=held)) for gpu in fleet]
    states = [state for _, state in pairs if state is not None]
    if not states or not demands:
        reason = (
            "no GPU has MIG on" if not states else "nobody waits for a slice and none is expected"
        )
        return Thought(Verdict(False, 0.0, reason), None)
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
        Target(
            {uuids[g.state.gpu]: g.target for g in changed},
            {uuids[g.state.gpu]: g.state.layout for g in changed},
            "the plan just made",
        ),
    )
