"""The order of a job's list of places: the site's, changed kind by kind by what is known.

- The kinds whose times are known for this program exchange their places in it: one passes another
  where it is surely faster; a kind without evidence keeps its place.
- A kind is left out only where the program is known on both kinds and very likely ends later there
  than after the expected wait for the best one. Where the best one has room now, none is left out:
  the job starts there.

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
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis

WAIT_MARGIN = 3.0
"""A place is left out where waiting for the best one is so many times shorter than what the job
would lose there: a list keeps both chances, and a wait is only expected. In the month benchmark
(development period, one seed) a margin of 1 lost up to 8 % against the list, and 3 up to 6 %."""
_OF_A_PILOT = frozenset({Basis.MEASURED, Basis.LEARNED, Basis.CALIBRATED})
_OF_PAST_JOBS = frozenset({Basis.MEASURED})
"""Bases that are evidence about the program itself on a place, by how the program is known."""


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
    forecast: Forecast | None,
    now: SiteNow,
) -> PlaceList:
    """Return the candidates as a list in the site's order, changed by what is known of the
    program."""
    slower = _slower_than_waiting(used, known, forecast, now)
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
    """Return whether the whole interval of the ratio of their times is on one side."""
    half_width = math.hypot(ranked.ratio_log_width, other.ratio_log_width)
    return math.log(_seconds(other) / _seconds(ranked)) > half_width


def _first_to_end(fits: Sequence[Fit], times: Mapping[str, Ranked]) -> list[Fit]:
    """Return the candidates for a scheduler that takes one queue only: by the expected end where
    all times are known, else by the expected start and the site's order."""
    compared = len(times) == len(fits)

    def key(fit: Fit) -> tuple[float, float, str]:
        place = fit.candidate
        wait_s, rank = fit.wait_s, place.speed_rank
        return (wait_s + _seconds(times[place.name]) if compared else wait_s), rank, place.name

    return sorted(fits, key=key)


def _slower_than_waiting(
    fits: Sequence[Fit],
    known: Mapping[str, Ranked],
    forecast: Forecast | None,
    now: SiteNow,
) -> dict[str, Exclusion]:
    """Return the candidates where the job very likely ends later than after its wait for the best,
    by name, with the reason."""
    compared: list[tuple[Ranked, float, float]] = []
    for fit in fits:
        ranked = known.get(fit.candidate.name)
        if ranked is None or not _is_evidence(ranked, forecast, now.settings):
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


def _is_evidence(ranked: Ranked, forecast: Forecast | None, settings: PolicySettings) -> bool:
    """Return whether the candidate's time is known for this program well enough to leave a place
    out."""
    if forecast is None or ranked.runtime_s is None or ranked.guess:
        return False
    bases = _OF_PAST_JOBS if forecast.kind == "history" else _OF_A_PILOT
    return ranked.basis in bases and not settings.too_wide(ranked.ratio_log_width)


def _sure(wait_s: float, state: CandidateState | None) -> float:
    """Return an expected wait where it comes from a simulation of the queue, else 0."""
    return wait_s if state is not None and state.waits is not None else 0.0


def ends_later(ranked: Ranked, wait_s: float, best: Ranked, best_wait_s: float) -> bool:
    """Return whether a job very likely ends later on ``ranked`` than on ``best``: by the lower end
    of their ratio's interval, by a cautious guess of the job's time, and with a margin.

    ``wait_s``: how long it surely waits there; ``best_wait_s``: its expected wait on the other.
    """
    time, best_time = ranked.runtime_s, best.runtime_s
    half_width = math.hypot(ranked.ratio_log_width, best.ratio_log_width)
    if time is None or best_time is None or math.isinf(half_width):
        return False
    least_ratio = time.mid / best_time.mid * math.exp(-half_width)
    short_s = math.sqrt(best_time.low * best_time.mid)
    return short_s * (least_ratio - 1.0) > WAIT_MARGIN * (best_wait_s - wait_s)
