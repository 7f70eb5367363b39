"""Estimate one learnt quantity (head) of a served language model on devices.

The calibrated physical model and the learnt residual give the time; the similarity to the
measurements gives the width of its interval. A device that was not measured takes the fitted
factors and the residual of its nearest relative. No estimate is faster than the hardware's roof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from berth.pilot.platform import Precision
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis, Bound, Interval
from berth.predictor.families.language_model import roof
from berth.predictor.families.language_model.bundle import LlmHead
from berth.predictor.families.language_model.candidates import RULES, Novelty, ServingRule
from berth.predictor.families.language_model.physics import (
    MEAN,
    SATURATED,
    LlmCase,
    combine,
    log_terms,
)
from berth.predictor.families.language_model.residual import code, numbers, ties
from berth.predictor.families.language_model.situation import Similarity, similarity_of
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


@dataclass(frozen=True, slots=True)
class LlmEstimate:
    """One head's predicted time in seconds, with its similarity to the measurements and its
    bottleneck."""

    seconds: Interval
    similarity: Similarity
    bound: Bound
    rule: ServingRule
    """The rule that answers."""
    by_rule: Mapping[ServingRule, float]
    """Seconds by each rule."""

    @property
    def basis(self) -> Basis:
        """Return ``calibrated`` inside the measurements of a version of the server that is named;
        ``scaled`` where the device, the load, the precision, the kind of model, the server or its
        version was not measured; ``prior`` where no framework that stands for it was measured on
        the device or a relative of it."""
        similarity = self.similarity
        if similarity.apart:
            return Basis.PRIOR
        inside = similarity.is_measured and not similarity.outside and not similarity.framework
        alike = similarity.alike and similarity.version_known
        return Basis.CALIBRATED if inside and alike else Basis.SCALED

    def abstention(self, name: str) -> str | None:
        """Return the reason why nobody should act on the time on the accelerator ``name``; None:
        one may."""
        return too_far((self,), self.seconds, name)


_is_better = partial(dominates, precisions=_SERVED, linked=False)


def estimates(
    head: LlmHead,
    cases: Sequence[LlmCase],
    server: tuple[str, str],
    numbered: Floats,
    others: Mapping[Novelty, float],
) -> list[LlmEstimate]:
    """Return the head's estimate of each case, by the rule that answers questions of its kind.

    A device with more of every resource than the measured relative whose factors it uses is not
    slower than that relative; a device with less of every resource, such as a slice, is not
    faster. ``server``: name and version of the framework. ``others``: of ``LlmModel.log_widths``.
    """
    framework, version = server
    entry, key = head.entry, _name_in(head, framework)

    def similar_to(cases: Sequence[LlmCase]) -> list[Similarity]:
        return [similarity_of(case, key, entry.cells, version) for case in cases]

    similar = similar_to(cases)
    relatives = sorted({s.stand_in for s in similar if s.stand_in and not s.is_measured})
    whole = [replace(cases[0], device=unit_named(name)) for name in relatives]
    of_whole = numbers(whole, with_queue=entry.head == SATURATED)
    times, bounds = _log_times(
        head, [*cases, *whole], key, [*similar, *similar_to(whole)],
        np.vstack([numbered, of_whole]),
    )  # fmt: skip
    limits = dict(zip(relatives, times[len(cases) :], strict=True))
    estimates = []
    for case, by_rule, similarity, bound in zip(cases, times, similar, bounds, strict=False):
        rule = entry.choice(similarity.novelty).rule
        log_time = by_rule[rule]
        if similarity.stand_in and not similarity.is_measured:
            relative = unit_named(similarity.stand_in)
            limit = limits[similarity.stand_in][rule]
            if _is_better(case.device, relative):
                log_time = min(log_time, limit)
            elif _is_better(relative, case.device):
                log_time = max(log_time, limit)
        seconds = around(math.exp(log_time), entry.log_width(similarity, others))
        least = float(np.exp(roof.log_roofs(entry.head, [case])[0]))
        estimates.append(
            LlmEstimate(
                under_roof(seconds, least), similarity, bound, rule,
                {each: max(math.exp(log), least) for each, log in by_rule.items()},
            )
        )  # fmt: skip
    return estimates


def _log_times(
    head: LlmHead,
    cases: Sequence[LlmCase],
    key: str,
    similar: Sequence[Similarity],
    numbered: Floats,
) -> tuple[list[dict[ServingRule, float]], list[Bound]]:
    """Return each case's log seconds by each rule, and what bounds it."""
    frameworks = [each.framework or key for each in similar]
    effects = np.array([
        head.entry.effects.of(each.stand_in, name)
        for each, name in zip(similar, frameworks, strict=True)
    ])  # fmt: skip
    log_time, shares = combine(log_terms(head.entry.head, cases), effects)
    tied = ties(cases, frameworks, head.entry)
    tied[:, 0] = [
        code(head.entry.accelerators, each.stand_in if case.device.whole else "")
        for case, each in zip(cases, similar, strict=True)
    ]
    plain = head.measured.plain(
        [case.device for case in cases], tied, numbered, roof.log_roofs(head.entry.head, cases)
    )
    columns = (plain[:, 0], plain[:, 1], log_time, log_time + head.residual(tied, numbered))
    rows = np.clip(np.column_stack(columns), -20.0, 20.0).tolist()
    terms = [head.entry.effects.terms[n] for n in np.argmax(shares, axis=1)]
    bounds = [_BOUNDS.get(term, Bound.LAUNCH) for term in terms]
    return [dict(zip(RULES, row, strict=True)) for row in rows], bounds


def under_roof(seconds: Interval, least: float) -> Interval:
    """Return the interval with no end below the least seconds that the hardware allows."""
    return Interval(*(max(end, least) for end in (seconds.low, seconds.mid, seconds.high)))


def too_far(parts: Sequence[LlmEstimate], seconds: Interval, name: str) -> str | None:
    """Return the reason why nobody should act on seconds that are computed from ``parts``, on the
    accelerator ``name``; None: one may."""
    if any(part.similarity.apart for part in parts):
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
