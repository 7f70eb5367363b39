"""Write the sentence that explains a decision to the user, and the warnings for ranked
candidates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from berth.pilot.units import format_bytes, format_seconds
from berth.policies.codes import CHECKED_IN_ORDER, OF_THE_GATE, OF_THE_PROGRAM, OVER_TIME, Code
from berth.policies.constraints import Exclusion
from berth.policies.list_order import PlaceList
from berth.policies.objectives.protocol import Objective, Scored
from berth.policies.settings import PolicySettings, SliceAim
from berth.policies.values import Makespan, Ranked, Request, Resources
from berth.predictor.core.forecast import WorkUnit
from berth.predictor.core.prediction import Basis, Prediction

NO_WORKLOAD = "There is no workload of this program: measure it once with berth pilot run."
PRIOR = "prior only: no data for this platform"
UNCERTAIN = "very uncertain"
LEARNT = "finished jobs"
"""First words of a prediction's source, where finished jobs changed the predicted time."""
_SLICE = {
    SliceAim.SMALLEST: "is the smallest slice that will do",
    SliceAim.THROUGHPUT: "is the slice that does most for its part of the GPU",
}


def placed(
    best: Ranked,
    others: Sequence[Ranked],
    settings: PolicySettings,
    objective: Objective,
    *,
    unit: WorkUnit = WorkUnit.JOB,
    is_slice: bool = False,
    places: PlaceList | None = None,
    staying: Scored | None = None,
    runs_only_here: bool = False,
) -> str:
    """Return why the best candidate was chosen: its prediction, compared with that of the job as
    written, or where none is known with the next best.

    ``places``: the job's list, on which the best candidate is; None: it has none. ``staying``: the
    score of staying. ``runs_only_here``: the program cannot run as written.
    """
    assert best.runtime_s is not None  # noqa: S101 - it has a score
    runtime = best.runtime_s
    words = _SLICE.get(settings.slices) if is_slice else None
    spread = f"{format_seconds(runtime.low)} to {format_seconds(runtime.high)}"
    per = "" if unit is WorkUnit.JOB else f" per {unit.value}"
    head = (
        f"{best.candidate} ({resources(best.resources)} of {best.platform}) "
        f"{words or objective.superlative}: {_array(best)}"
        f"{format_seconds(runtime.mid)} ({spread}){per}{_learnt(best)}"
    )
    if runs_only_here:
        head = f"{head}; it cannot run where you sent it"
    elif staying is not None:
        head = f"{head}{objective.compared(_scored(best, best.candidate), staying)}"
    listed = [] if places is None else [f.candidate.name for f in places.fits]
    if len(listed) > 1:
        names = ", ".join(name for name in listed if name != best.candidate)
        head = f"{head}; it may also start in {names}, whichever has room first"
    elif places is not None and places.slower:
        head = f"{head}; {places.left_out}"
    else:
        quicker = _quicker(best, others)
        head = head if quicker is None else f"{head}; {quicker}"
        if staying is None and not runs_only_here:
            return f"{head}{_beside_next(best, others, objective, names_all=quicker is None)}."
    return f"{head}."


def _beside_next(
    best: Ranked, others: Sequence[Ranked], objective: Objective, *, names_all: bool
) -> str:
    """Return how the best candidate compares with the next best; ``names_all``: with the makespan
    of an array there."""
    fitting = [ranked for ranked in others if ranked.score is not None]
    next_best = next((ranked for ranked in fitting if ranked.guess == best.guess), None)
    if next_best is not None and next_best.score and best.score:
        named = next_best.candidate
        if next_best.makespan is not None and names_all:
            named = f"{named} with {_in_all(next_best.makespan)}"
        interval = _ratio_range(next_best.score / best.score, best, next_best)
        other = _scored(next_best, named)._replace(interval=interval)
        return f"{objective.compared(_scored(best, best.candidate), other)}"
    if fitting:
        return "; of other places there are only priors or guesses"
    return "; no other place fits" if others else ""


def _scored(ranked: Ranked, place: str) -> Scored:
    return Scored(ranked.score or math.inf, ranked.cost, place)


def _ratio_range(ratio: float, best: Ranked, other: Ranked) -> str:
    """Return the 90 % interval of the ratio of two candidates' scores as `` (1.4 to 1.8)``.

    Empty where nothing is known of the ratio beyond the two times' own intervals.
    """
    if all(
        each.runtime_s is None or each.ratio_log_width >= each.runtime_s.half_log_width
        for each in (best, other)
    ):
        return ""
    factor = math.exp(math.hypot(best.ratio_log_width, other.ratio_log_width))
    return f" ({ratio / factor:.1f} to {ratio * factor:.1f})" if math.isfinite(factor) else ""


def fits(places: PlaceList, *, is_known: bool) -> str:
    """Return why the job gets these queues: it fits there as written.

    ``is_known``: whether anything is predicted of the job.
    """
    chosen, first = places.queues, places.fits[0]
    if places.slower and len(chosen) == 1:
        return f"{chosen[0]} is where the job ends first; {places.left_out}."
    if len(chosen) == 1:
        head = f"{chosen[0]} is the only place where the job fits"
    else:
        head = f"the job fits in {', '.join(chosen)} and starts in the first that has room"
    if first.last_resort is not None:
        head = f"{head} ({first.last_resort.sentence})"
    if not is_known:
        return f"{head}; its program is not known yet."
    if places.by_time:
        return f"{head}; of places with room the one where it is fastest comes first."
    return f"{head}; no time is predicted well enough to choose among them."


def costs_more(bill_ratio: float) -> str:
    """Return the sentence for a job that is billed more than as written; empty: it is not."""
    return f" It is billed {bill_ratio:.2g} times as much as there." if bill_ratio > 1.05 else ""


def not_by_fit(excluded: Mapping[str, Exclusion]) -> tuple[Code, str]:
    """Return the code and sentence of a job of an unknown program that stays where it is.

    ``excluded``: why it fits on no candidate, by name; what it would lose by a move is named first.
    """
    losses = [(name, loss) for name, loss in excluded.items() if loss.code in OF_THE_GATE]
    if not losses:
        return Code.NO_WORKLOAD, NO_WORKLOAD
    name, loss = losses[0]
    return loss.code, f"Left where you sent it: on {name} {loss.sentence}."


def short_of_memory(asked_bytes_per_node: int | None, best: Ranked) -> str:
    """Return a warning if the job requests less host memory than it may need; empty: it requests
    enough.
    """
    memory = None if best.memory is None else best.memory.host_bytes
    nodes = max(1, best.resources.nodes)
    if asked_bytes_per_node is None or memory is None:
        return ""
    asked_bytes = best.resources.memory_bytes_per_node or asked_bytes_per_node
    if memory.high <= asked_bytes * nodes:
        return ""
    return (
        f" You asked for {format_bytes(asked_bytes)} of host memory and it may need "
        f"{format_bytes(memory.high / nodes)}."
    )


def _array(ranked: Ranked) -> str:
    """Return ``60 tasks, 4 at a time: 30 s; each takes `` for an array; empty for a single job."""
    if ranked.makespan is None:
        return ""
    tasks, seconds = ranked.makespan.tasks, format_seconds(ranked.makespan.seconds)
    each = "the largest" if ranked.makespan.unequal else "each"
    return f"{tasks} tasks, {_width(ranked.makespan)}: {seconds}; {each} takes "


def _in_all(makespan: Makespan) -> str:
    """Return the makespan as text: ``30 s (4 at a time)``."""
    return f"{format_seconds(makespan.seconds)} ({_width(makespan)})"


def _width(makespan: Makespan) -> str:
    width = "all" if makespan.at_once == makespan.tasks else str(makespan.at_once)
    waits = f" after {format_seconds(makespan.wait_s)}" if makespan.wait_s else ""
    return f"{width} at a time{waits}"


def _learnt(best: Ranked) -> str:
    """Return a note naming the finished jobs from which the time was learned; empty where none
    changed it.
    """
    origin, colon, jobs = best.source.partition(": ")
    return f", learnt from finished jobs ({jobs})" if colon and origin == LEARNT else ""


def _quicker(best: Ranked, others: Sequence[Ranked]) -> str | None:
    """Return why the candidate with the shortest run time was not chosen; None: it was chosen.

    For an array the run time is that of one task; the sentence also gives the number of tasks that
    run at the same time.
    """
    assert best.runtime_s is not None  # noqa: S101 - it has a score
    mid = best.runtime_s.mid
    shorter = [
        each
        for each in others
        if each.runtime_s is not None and each.runtime_s.mid < mid and each.code != Code.CANNOT_RUN
    ]
    if not shorter:
        return None
    ranked = min(
        shorter, key=lambda each: (each.runtime_s.mid if each.runtime_s else mid, each.candidate)
    )
    assert ranked.runtime_s is not None  # noqa: S101 - as chosen above
    named = f"{ranked.candidate} with {format_seconds(ranked.runtime_s.mid)}"
    if ranked.makespan is not None:
        named = f"{named} a task and {_in_all(ranked.makespan)} for all"
    if ranked.excluded and not ranked.guess:
        return f"{named} is ruled out ({ranked.excluded})"
    return f"{named} {'is only a guess' if ranked.guess else 'ranks behind it'}"


_CHECKS_PASSED = {code.value: place for place, code in enumerate(CHECKED_IN_ORDER)}


_MOST_QUEUES = 6
"""Number of the site's queues that a sentence names."""


def nothing_fits(
    request: Request, ruled_out: Sequence[Ranked], queues: Mapping[str, str]
) -> tuple[str, str]:
    """Return the code and sentence of a job that no candidate fits.

    The code is the one that all exclusions have in common, else ``no-candidate``; places that can
    never run the program count only where no other place has a reason. ``queues``: the queue of
    each candidate.
    """
    others = [ranked for ranked in ruled_out if ranked.code not in OF_THE_PROGRAM]
    reasons = others or ruled_out  # those that somebody can change come first
    codes = {ranked.code for ranked in reasons}
    only = codes.pop() if len(codes) == 1 else None
    if only == Code.OTHER_QUEUE and request.queue is not None:
        return only, _chosen_queue(request.queue, ruled_out, queues)
    return only or Code.NO_CANDIDATE.value, _nearest(reasons, same=only is not None)


def _chosen_queue(queue: str, ruled_out: Sequence[Ranked], queues: Mapping[str, str]) -> str:
    inside = [ranked for ranked in ruled_out if queues.get(ranked.candidate) == queue]
    if inside:
        return f"Left as it is: you chose {queue}; {inside[0].candidate}: {inside[0].excluded}."
    names = sorted(set(queues.values()))
    known = ", ".join(names[:_MOST_QUEUES]) + (", ..." if len(names) > _MOST_QUEUES else "")
    return (
        f"Left as it is: you chose {queue}, where the site file has no place (it has some in "
        f"{known})."
    )


def _nearest(ruled_out: Sequence[Ranked], *, same: bool) -> str:
    if not ruled_out:
        return "Left as it is: the site file has no candidates."
    counted = Counter(ranked.excluded for ranked in ruled_out)
    if same and len(counted) == 1:
        return f"Left as it is: {ruled_out[0].excluded}."
    # Codes of other packages' objectives rank like Berth's own code for a missing score.
    other = _CHECKS_PASSED[Code.NO_SCORE]
    nearest = min(
        ruled_out,
        key=lambda ranked: (
            -_CHECKS_PASSED.get(ranked.code or "", other),
            ranked.runtime_s.mid
            if ranked.code in OVER_TIME and ranked.runtime_s is not None
            else 0.0,
            -counted[ranked.excluded],
            ranked.excluded or "",
        ),
    )
    one_of_all = same and nearest.code not in OVER_TIME
    named = f"{nearest.candidate}, for one" if one_of_all else f"{nearest.candidate} came nearest"
    return f"Left as it is: no place fits; {named}: {nearest.excluded}."


def resources(held: Resources) -> str:
    """Return the resources as text: ``1 GPU, 8 cores`` or ``2 nodes, 64 cores``."""
    parts = []
    if held.gpus:
        parts.append("1 GPU" if held.gpus == 1 else f"{held.gpus} GPUs")
    elif held.nodes > 1:
        parts.append(f"{held.nodes} nodes")
    parts.append("1 core" if held.cores == 1 else f"{held.cores} cores")
    return ", ".join(parts)


def warning(prediction: Prediction | None, too_wide: bool) -> str | None:
    """Return what a person should know before trusting the candidate's prediction; None: no
    warning.

    ``too_wide``: whether it is too uncertain to be compared with other candidates.
    """
    if prediction is None:
        return None
    if prediction.abstained is not None:
        return f"only a guess: {prediction.abstained}"
    prior = prediction.basis is Basis.PRIOR
    if too_wide:
        return f"{PRIOR}; {UNCERTAIN}" if prior else UNCERTAIN
    return PRIOR if prior else None
