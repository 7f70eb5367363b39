"""Choose one MIG slice per GPU model by the site's aim, before the objective compares candidates.

Small slices are slow, so an objective alone would give every job the largest slice. Sites use
slices so that many jobs share a GPU: the aim is the smallest suitable slice, or the one with the
most work per fraction of the GPU, as in ``berth mig recommend``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from berth.policies.codes import Code
from berth.policies.settings import SliceAim
from berth.policies.values import Candidate, Decision, Ranked
from berth.predictor.hardware.mig.slices import MARK


def one_of_each(
    fits: Sequence[Ranked], candidates: Mapping[str, Candidate], aim: SliceAim
) -> tuple[list[Ranked], list[Ranked]]:
    """Return the candidates that stay, in their order, and the slices passed over for another
    slice.

    ``fits``: candidates that no constraint excludes, best first. A guess never wins over a
    prediction; in a tie the objective's better candidate wins.
    """
    best: dict[str, Ranked] = {}
    if aim is not SliceAim.OBJECTIVE:
        for ranked in fits:
            model = candidates[ranked.candidate].slice_of
            if model is None:
                continue
            known = best.get(model)
            if known is None or _key(ranked, candidates, aim) < _key(known, candidates, aim):
                best[model] = ranked
    stay: list[Ranked] = []
    passed_over: list[Ranked] = []
    for ranked in fits:
        winner = best.get(candidates[ranked.candidate].slice_of or "")
        if winner is None or winner is ranked:
            stay.append(ranked)
        else:
            why = f"{winner.candidate} {_WHY[aim]}"
            passed_over.append(
                ranked._replace(score=None, excluded=why, code=Code.OTHER_SLICE.value)
            )
    return stay, passed_over


_WHY = {
    SliceAim.SMALLEST: "takes no more of the GPU and will do",
    SliceAim.THROUGHPUT: "does more for its part of the GPU",
}


def _key(ranked: Ranked, candidates: Mapping[str, Candidate], aim: SliceAim) -> tuple[bool, float]:
    held = candidates[ranked.candidate].slice_part * max(1, ranked.resources.gpus)
    if aim is SliceAim.SMALLEST:
        return (ranked.guess, held)
    return (ranked.guess, math.inf if ranked.runtime_s is None else ranked.runtime_s.mid * held)


def profiles_that_will_do(decision: Decision) -> list[str]:
    """Return the profile names of the MIG slices that the job could run on, whether or not such
    slices exist now.

    ``berth mig auto`` creates slices for such jobs. The list is empty where the objective preferred
    another kind of candidate although it could have chosen a slice.
    """
    slices = [ranked for ranked in decision.ranked if MARK in ranked.platform]
    elsewhere = decision.chosen is not None and decision.chosen not in [r.candidate for r in slices]
    if elsewhere and any(ranked.code in _CHOICES for ranked in slices):
        return []
    will_do = (*_CHOICES, Code.NOT_CUT.value)
    names = {each.platform.rpartition(MARK)[2] for each in slices if each.code in will_do}
    return sorted(names)


_CHOICES = (None, Code.OTHER_SLICE.value)
