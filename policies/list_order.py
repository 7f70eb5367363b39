"""The order of a job's list of places: the site's, changed kind by kind by what is known.

- The kinds whose times are known for this program exchange their places in it: one passes another
  where it is surely faster; a kind without evidence keeps its place.
- A kind is left out only where past jobs of this program ran on both kinds, and surely lose more
  time there than the site's programs usually do, so that others use it better, and the job very
  likely ends later there than after the expected wait for the best one. Where the best one has room
  now, none is left out: the job starts there.

Kinds are compared by how many times longer the job takes on one than on another. Such ratios are
often known well where the job's own time is not: how long the next job takes depends on its input,
on every kind alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from berth.policies.codes import Code
from berth.policies.constraints import Exclusion
from berth.policies.fit import Fit
from berth.policies.objectives.time_and_cost import expected_wait_s
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, CandidateState, Ranked
from berth.predictor.core.prediction import Basis

WORTH = 1.2
"""How many times a difference must surely be to change the list: one place passes another where it
is so many times faster, and one is left out for programs that lose so many times more there than
programs usually do. In the month benchmark (development period, true ratios, three seeds) 1.1, 1.2
and 1.3 gain 3.3, 5.1 and 4.2 % at 85 % load where ratios vary, and change nothing where they do
not."""


class SiteNow(NamedTuple):
    """The site at the moment of a decision."""

    candidates: Sequence[Candidate]
    states: Mapping[str, CandidateState]
    settings: PolicySettings
    now_s: float


class PlaceList(NamedTuple):
    """The candidates where a job fits as it is asked for, in the order of its list of queues."""

    fits: tuple[Fit, ...]
    unfit: Mapping[str, Exclusion]
    """Why the other candidates are not on the list, by name."""
    slower: Mapping[str, Exclusion]
    """Those of ``unfit`` where the job very likely ends later than after waiting for the best."""
    by_time: bool
    """Whether evidence about the program decided the order of some."""

    @property
    def queues(self) -> list[str]:
        """Return the queues in order, each once."""
        return list(dict.fromkeys(fit.candidate.queue for fit in self.fits))

    @property
    def code(self) -> Code:
        """Return whether the job fits in several queues or in one."""
        return Code.FITS if len(self.queues) > 1 else Code.FITS_ONE

    @property
    def left_out(self) -> str:
        """Return a place that was left out because the job very likely ends later there, with the
        reason; empty: there is none."""
        return next((f"on {name} {why.sentence}" for name, why in self.slower.items()), "")


def by_evidence(
    used: Sequence[Fit],
    unfit: Mapping[str, Exclusion],
    known: Mapping[str, Ranked],
    now: SiteNow,
) -> PlaceList:
    """Return the candidates as a list in the site's order, changed by what is known of the
    program."""
    slower = _slower_than_waiting(used, known, now)
    used = [fit for fit in used if fit.candidate.name not in slower]
    times = {
        fit.candidate.name: ranked
        for fit in used
        if (ranked := known.get(fit.candidate.name)) is not None
        and ranked.runtime_s is not None
        and not now.settings.too_wide(ranked.ratio_log_width)
    }
    in_order = _in_order if now.settings.list_queues else _first_to_end
    return PlaceList(
        tuple(in_order(used, times)), dict(unfit) | slower, slower, by_time=len(times) > 1
    )


def _in_order(fits: Sequence[Fit], times: Mapping[str, Ranked]) -> list[Fit]:
    """Return the candidates in the site's order, in which the queues with known times exchange
    their places: one passes another only where it is surely faster. Of several candidates of one
    queue the slowest counts, because the scheduler chooses among their nodes."""
    by_queue: dict[str, list[Fit]] = {}
    for fit in fits:
        by_queue.setdefault(fit.candidate.queue, []).append(fit)
    slowest: dict[str, Ranked] = {}
    for queue, members in by_queue.items():
        known = [times[fit.candidate.name] for fit in members if fit.candidate.name in times]
        if len(known) == len(members):
            slowest[queue] = max(known, key=_seconds)
    queues = sorted(
        by_queue, key=lambda queue: (max(f.candidate.speed_rank for f in by_queue[queue]), queue)
    )
    fastest_first: list[str] = []
    for queue in (each for each in queues if each in slowest):
        place = len(fastest_first)
        while place and _surely_faster(slowest[queue], slowest[fastest_first[place - 1]]):
            place -= 1
        fastest_first.insert(place, queue)
    known_queues = iter(fastest_first)
    return [
        fit
        for queue in (next(known_queues) if each in slowest else each for each in queues)
        for fit in sorted(
            by_queue[queue], key=lambda fit: (fit.candidate.speed_rank, fit.candidate.name)
        )
    ]


def _seconds(ranked: Ranked) -> float:
    return math.inf if ranked.runtime_s is None else ranked.runtime_s.mid


def _surely_faster(ranked: Ranked, other: Ranked) -> bool:
    """Return whether the whole interval of the ratio of their times is beyond ``WORTH``."""
    half_width = math.hypot(ranked.ratio_log_width, other.ratio_log_width)
    return math.log(_seconds(other) / _seconds(ranked)) > half_width + math.log(WORTH)


def _first_to_end(fits: Sequence[Fit], times: Mapping[str, Ranked]) -> list[Fit]:
    """Return the candidates for a scheduler that takes one queue only, by the expected end: a place
    without a known time counts as the next known one in the list's order, else the last."""
    ordered = _in_order(fits, times)
    known = [times[fit.candidate.name] for fit in ordered if fit.candidate.name in times]
    time_s = _seconds(known[-1]) if known else 0.0
    ends_s: dict[str, float] = {}
    for fit in reversed(ordered):
        if fit.candidate.name in times:
            time_s = _seconds(times[fit.candidate.name])
        ends_s[fit.candidate.name] = fit.wait_s + time_s
    return sorted(ordered, key=lambda fit: ends_s[fit.candidate.name])


def _slower_than_waiting(
    fits: Sequence[Fit],
    known: Mapping[str, Ranked],
    now: SiteNow,
) -> dict[str, Exclusion]:
    """Return the candidates where the job very likely ends later than after its wait for the best,
    by name, with the reason."""
    compared: list[tuple[Ranked, float, float]] = []
    for fit in fits:
        ranked = known.get(fit.candidate.name)
        if ranked is None or not _is_evidence(ranked, now.settings):
            continue
        state = now.states.get(fit.candidate.name)
        wait_s = expected_wait_s(fit.resources, ranked.length_s, state)
        compared.append((ranked, ranked.length_s, wait_s))
    if not compared:
        return {}
    best, best_s, best_wait_s = min(compared, key=lambda place: (place[1] + place[2], place[1]))
    if best_wait_s <= 0 and now.settings.list_queues:
        return {}
    return {
        ranked.candidate: Exclusion(
            Code.SLOWER, f"it takes {time_s / best_s:.2g} times as long as on {best.candidate}"
        )
        for ranked, time_s, wait_s in compared
        if ranked is not best
        and ends_later(ranked, _sure(wait_s, now.states.get(ranked.candidate)), best, best_wait_s)
    }


def _is_evidence(ranked: Ranked, settings: PolicySettings) -> bool:
    """Return whether past jobs of this program tell its time on the candidate well enough to leave
    a place out."""
    if ranked.runtime_s is None or ranked.guess or ranked.usual_ratio is None:
        return False
    return ranked.basis is Basis.MEASURED and not settings.too_wide(ranked.ratio_log_width)


def _sure(wait_s: float, state: CandidateState | None) -> float:
    """Return an expected wait where it comes from a simulation of the queue, else 0."""
    return wait_s if state is not None and state.waits is not None else 0.0


def ends_later(ranked: Ranked, wait_s: float, best: Ranked, best_wait_s: float) -> bool:
    """Return whether a job very likely ends later on ``ranked`` than on ``best``, and loses more
    there than programs usually do, by the factor ``WORTH``: by the lower end of their ratio's
    interval, and by a cautious guess of the job's time.

    ``wait_s``: how long it surely waits there; ``best_wait_s``: its expected wait on the other.
    """
    time, best_time = ranked.runtime_s, best.runtime_s
    half_width = math.hypot(ranked.ratio_log_width, best.ratio_log_width)
    if time is None or best_time is None or math.isinf(half_width):
        return False
    least_ratio = time.mid / best_time.mid * math.exp(-half_width)
    if not ranked.usual_ratio or not best.usual_ratio:
        return False
    if least_ratio <= WORTH * ranked.usual_ratio / best.usual_ratio:
        return False
    short_s = math.sqrt(best_time.low * best_time.mid)
    return short_s * (least_ratio - 1.0) > best_wait_s - wait_s
