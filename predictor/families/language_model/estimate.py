"""Estimate one learnt quantity (head) of a served language model on devices.

The calibrated physical model and the learnt residual give the time; the similarity to the
measurements gives the width of its interval. A device that was not measured takes the fitted
factors and the residual of its nearest relative. No estimate is faster than the hardware's roof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from berth.pilot.platform import Precision
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis, Bound, Interval
from berth.predictor.families.language_model import roof
from berth.predictor.families.language_model.bundle import LlmHead
from berth.predictor.families.language_model.physics import (
    MEAN,
    OFFLINE,
    SATURATED,
    TPOT,
    TTFT,
    LlmCase,
    combine,
    log_terms,
)
from berth.predictor.families.language_model.residual import code, numbers, ties
from berth.predictor.families.language_model.situation import (
    Similarity,
    Situation,
    similarity_of,
)
from berth.predictor.hardware.dominance import dominates
from berth.predictor.hardware.unit import unit_named

_SERVED = frozenset(Precision) - {Precision.FP64, Precision.TF32, Precision.INT8}
"""Precisions that language models are served in."""
WIDEST = math.log(3.0)
"""Half width in log time above which the predictor abstains."""
_BOUNDS = {
    "weights": Bound.MEMORY, "weights_one_gpu": Bound.MEMORY, "cache": Bound.MEMORY,
    "cache_all_heads": Bound.MEMORY, "decode": Bound.COMPUTE, "prefill": Bound.COMPUTE,
    "prefill_queue": Bound.COMPUTE, "prefill_between": Bound.COMPUTE, "attention": Bound.COMPUTE,
    "experts_all": Bound.COMPUTE, "prompt_squared": Bound.COMPUTE, "messages": Bound.LATENCY,
    "bytes_sent": Bound.LATENCY, "activations": Bound.MEMORY, "routing": Bound.MEMORY,
}  # fmt: skip
_ROOFS: Mapping[str, Callable[[LlmCase], float]] = {
    OFFLINE: roof.least_seconds, SATURATED: roof.least_seconds, TTFT: roof.least_first_token,
    TPOT: roof.least_token,
}  # fmt: skip
"""Least seconds of each head's quantity."""


@dataclass(frozen=True, slots=True)
class LlmEstimate:
    """One head's predicted time in seconds, with its similarity to the measurements and its
    bottleneck."""

    seconds: Interval
    similarity: Similarity
    bound: Bound

    @property
    def basis(self) -> Basis:
        """Return ``calibrated`` inside the measurements; ``scaled`` where the device, the load, the
        precision, the kind of model or the server was not measured; ``prior`` where no framework
        that stands for it was measured on the device or a relative of it."""
        similarity = self.similarity
        if similarity.situation is Situation.APART:
            return Basis.PRIOR
        inside = similarity.is_measured and similarity.is_inside and not similarity.framework
        unlike = similarity.situation is Situation.UNLIKE
        return Basis.CALIBRATED if inside and not unlike else Basis.SCALED

    def abstention(self, name: str) -> str | None:
        """Return the reason why nobody should act on the time on the accelerator ``name``; None:
        one may."""
        return too_far((self,), self.seconds, name)


_is_better = partial(dominates, precisions=_SERVED, linked=False)


def estimates(
    head: LlmHead, cases: Sequence[LlmCase], framework: str, version: str, numbered: Floats
) -> list[LlmEstimate]:
    """Return the head's estimate of each case.

    A device with more of every resource than the measured relative whose factors it uses is not
    slower than that relative; a device with less of every resource, such as a slice, is not
    faster.
    """
    key = _name_in(head, framework)

    def similar_to(cases: Sequence[LlmCase]) -> list[Similarity]:
        return [similarity_of(case, key, head.entry.cells, version) for case in cases]

    similar = similar_to(cases)
    relatives = sorted({s.stand_in for s in similar if s.stand_in and not s.is_measured})
    whole = [replace(cases[0], device=unit_named(name)) for name in relatives]
    of_whole = numbers(whole, with_queue=head.entry.head == SATURATED)
    times, bounds = _log_times(
        head, [*cases, *whole], key, [*similar, *similar_to(whole)],
        np.vstack([numbered, of_whole]),
    )  # fmt: skip
    limits = dict(zip(relatives, times[len(cases) :], strict=True))
    estimates = []
    for case, log_time, similarity, bound in zip(cases, times, similar, bounds, strict=False):
        if similarity.stand_in and not similarity.is_measured:
            relative, limit = unit_named(similarity.stand_in), limits[similarity.stand_in]
            if _is_better(case.device, relative):
                log_time = min(log_time, limit)  # noqa: PLW2901
            elif _is_better(relative, case.device):
                log_time = max(log_time, limit)  # noqa: PLW2901
        seconds = around(math.exp(log_time), head.entry.widths.log_width(similarity))
        least = _ROOFS[head.entry.head](case)
        estimates.append(LlmEstimate(under_roof(seconds, least), similarity, bound))
    return estimates


def _log_times(
    head: LlmHead,
    cases: Sequence[LlmCase],
    key: str,
    similar: Sequence[Similarity],
    numbered: Floats,
) -> tuple[list[float], list[Bound]]:
    frameworks = [each.framework or key for each in similar]
    effects = np.array([
        head.entry.effects.of(each.stand_in, name)
        for each, name in zip(similar, frameworks, strict=True)
    ])  # fmt: skip
    log_time, shares = combine(log_terms(head.entry.head, cases), effects)
    tied = np.repeat(ties(cases[:1], [key], head.entry), len(cases), axis=0)
    tied[:, 1] = [code(head.entry.frameworks, name) for name in frameworks]
    tied[:, 0] = [
        code(head.entry.accelerators, each.stand_in if case.device.whole else "")
        for case, each in zip(cases, similar, strict=True)
    ]
    log_time += head.residual(tied, numbered)
    terms = [head.entry.effects.terms[n] for n in np.argmax(shares, axis=1)]
    bounds = [_BOUNDS.get(term, Bound.LAUNCH) for term in terms]
    return np.clip(log_time, -20.0, 20.0).tolist(), bounds


def under_roof(seconds: Interval, least: float) -> Interval:
    """Return the interval with no end below the least seconds that the hardware allows."""
    return Interval(*(max(end, least) for end in (seconds.low, seconds.mid, seconds.high)))


def too_far(parts: Sequence[LlmEstimate], seconds: Interval, name: str) -> str | None:
    """Return the reason why nobody should act on seconds that are computed from ``parts``, on the
    accelerator ``name``; None: one may."""
    if any(part.similarity.situation is Situation.APART for part in parts):
        return f"nothing was measured on {name} or a relative of it; physics only"
    if math.log(seconds.high / seconds.mid) > WIDEST:
        return f"the interval on {name} is wider than a factor {math.exp(WIDEST):.0f} to each side"
    return None


def _name_in(head: LlmHead, framework: str) -> str:
    """Return the name under which a head's data has a framework: TensorRT-LLM has two, and first
    tokens are medians or means. Unchanged if the head has none of them."""
    others = {"trtllm": "tensorrt-llm"}.get(framework, framework)
    written = (framework, others, framework + MEAN, others + MEAN)
    return next((each for each in written if each in head.entry.frameworks), framework)
