"""Predict served language models on devices, with intervals, basis and abstention.

A head is the learnt model of one quantity. Throughput comes from the head whose measurements
resemble the request most: ``offline`` (a batch of equal requests), ``saturated`` (more requests
than are resident at once), or ``ttft`` and ``tpot`` (time to first token and time per output token
of a server under a closed load, where the requests that are resident together take ``ttft +
(output - 1) x tpot``). Requests that are not resident wait for a wave before theirs. No prediction
is faster than the hardware's roof. A device that was not measured takes the fitted factors and the
residual of its nearest relative; without one, the prediction abstains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from berth.pilot.platform import Precision
from berth.predictor.core.combine import SourceEstimate
from berth.predictor.core.combine import combine as combine_estimates
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis, Bound, Interval
from berth.predictor.families.language_model import roof
from berth.predictor.families.language_model.bundle import (
    DEFAULT_LLM_BUNDLE,
    Head,
    LlmModel,
    load,
)
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.framework import named
from berth.predictor.families.language_model.load import MOST_SEQUENCES, Load, Memory, memory
from berth.predictor.families.language_model.physics import (
    MEAN,
    OFFLINE,
    SATURATED,
    TPOT,
    TTFT,
    Case,
    combine,
    log_terms,
)
from berth.predictor.families.language_model.residual import numbers, ties
from berth.predictor.families.language_model.situation import Situation, situation_of, stands_for
from berth.predictor.hardware.dominance import dominates
from berth.predictor.hardware.unit import Unit, unit_named

SERVING = "serving"
"""Name of the source that computes throughput from ``ttft`` and ``tpot``."""
_SERVED = frozenset(Precision) - {Precision.FP64, Precision.TF32, Precision.INT8}
"""Precisions that language models are served in."""
UNVERIFIED = "unverified: no public measurements to check it against"
DRAWN_SHARE = Interval(0.4, 0.7, 1.0)
"""Share of its rated power that a busy accelerator draws: an assumption, not a measurement."""
WIDEST = math.log(3.0)
"""Half width in log time above which the predictor abstains."""
_BASIS = {
    Situation.BLOCK: Basis.CALIBRATED,
    Situation.PAIR: Basis.CALIBRATED,
    Situation.MODEL: Basis.CALIBRATED,
    Situation.RELATIVE: Basis.SCALED,
    Situation.APART: Basis.SCALED,
    Situation.NEW: Basis.PRIOR,
}
_BOUNDS = {
    "weights": Bound.MEMORY, "weights_one_gpu": Bound.MEMORY, "cache": Bound.MEMORY,
    "cache_all_heads": Bound.MEMORY, "decode": Bound.COMPUTE, "prefill": Bound.COMPUTE,
    "prefill_queue": Bound.COMPUTE, "prefill_between": Bound.COMPUTE, "attention": Bound.COMPUTE,
    "experts_all": Bound.COMPUTE, "prompt_squared": Bound.COMPUTE, "messages": Bound.LATENCY,
    "bytes_sent": Bound.LATENCY, "activations": Bound.MEMORY, "routing": Bound.MEMORY,
}  # fmt: skip
_ROOFS: Mapping[str, Callable[[Case], float]] = {
    OFFLINE: roof.least_seconds, SATURATED: roof.least_seconds, TTFT: roof.least_first_token,
    TPOT: roof.least_token,
}  # fmt: skip
"""Least seconds of each head's quantity."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One head's predicted time in seconds, with its situation (similarity to the measurements) and
    its bottleneck."""

    seconds: Interval
    situation: Situation
    bound: Bound
    stand_in: str
    """Name of the accelerator whose measurements apply; empty: none do."""


@dataclass(frozen=True, slots=True)
class ServingPrediction:
    """Predicted throughput, latency, memory and cost of serving one model under one load on one
    device."""

    device: str
    gpus: int
    framework: str
    throughput: Interval
    """Tokens per second, input and output together."""
    ttft_s: Interval
    tpot_s: Interval
    memory: Memory
    memory_bytes: float
    """Memory of one GPU, in bytes."""
    resident: float
    """Number of sequences per replica whose cache fits at the same time."""
    fits: bool
    """Whether the upper end of the least memory needed fits on the GPU."""
    energy_j_per_token: Interval | None
    """Joules per token; not verified by measurements. None: the device's power is unknown."""
    price_per_million: Interval | None
    """Price per million tokens, in the site's currency. None: the device has no price."""
    carbon_g_per_million: Interval | None
    """Grams of carbon per million tokens; not verified by measurements."""
    basis: Basis
    latency_basis: Basis
    """Basis of ``ttft_s`` and ``tpot_s``."""
    bound: Bound
    source: str
    """Source of the throughput: ``offline``, ``saturated``, or ``serving`` (from ``ttft`` and
    ``tpot``)."""
    abstained: str | None
    """Reason why nobody should act on the throughput; None: one may."""
    ttft_abstained: str | None
    """Reason why nobody should act on ``ttft_s``; None: one may."""
    tpot_abstained: str | None
    """Reason why nobody should act on ``tpot_s``; None: one may."""


@dataclass(frozen=True, slots=True)
class LlmPredictor:
    """Predicts served language models from one loaded bundle."""

    model: LlmModel

    @classmethod
    def load(cls, folder: Path | None = None) -> LlmPredictor:
        """Return a predictor with the bundle in ``folder`` (default: the shipped bundle). Raises
        DocumentError."""
        return cls(_shipped() if folder is None else load(folder))

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Return the names of all measured serving frameworks, sorted."""
        return tuple(
            sorted(
                {
                    named(f.removesuffix(MEAN))[0]
                    for h in self.model.heads.values()
                    for f in h.codes.frameworks
                }
            )
        )

    @property
    def accelerators(self) -> frozenset[str]:
        """Return the hardware-catalogue names of all accelerators that were measured."""
        return frozenset(a for h in self.model.heads.values() for a in h.codes.accelerators)

    def predict(
        self,
        model: LanguageModel,
        work: Load,
        devices: Sequence[Unit],
        framework: str = "vllm",
        carbon_g_per_kwh: float | None = None,
    ) -> list[ServingPrediction]:
        """Return one prediction of the model under the load ``work`` per device, in the order of
        ``devices``. Raises UsageError if the model cannot be served under the load
        (``Load.check``)."""
        framework, version = named(framework)
        work.check(model, framework)
        if not devices:
            return []
        if work.most_sequences is None:
            work = replace(work, most_sequences=MOST_SEQUENCES.get(framework))
        cases = [Case(model, work, d) for d in devices]
        numbered = numbers(cases)
        estimates = {
            name: self._estimates(head, cases, framework, version, numbered)
            for name, head in self.model.heads.items()
        }
        need = memory(model, work)
        return [
            _join(
                case, framework, need, carbon_g_per_kwh,
                {name: rows[i] for name, rows in estimates.items()},
                known=framework in self.frameworks,
            )
            for i, case in enumerate(cases)
        ]  # fmt: skip

    def _in_order(
        self, head: Head, case: Case, estimate: Estimate, names: tuple[str, str]
    ) -> float:
        """Return the estimate's log seconds, limited by the time of the measured relative whose
        factors the device uses.

        A device with more of every resource than that relative is not slower; a device with less of
        every resource, such as a slice, is not faster.
        """
        log_time, near = math.log(estimate.seconds.mid), estimate.stand_in
        if not near or (near == case.device.sheet.name and case.device.whole):
            return log_time
        whole_relative = replace(case, device=unit_named(near))
        (other,) = self._estimates(head, [whole_relative], *names, numbers([whole_relative]))
        limit = math.log(other.seconds.mid)
        better = partial(dominates, precisions=_SERVED, linked=False)
        if better(case.device, whole_relative.device):
            return min(log_time, limit)
        return max(log_time, limit) if better(whole_relative.device, case.device) else log_time

    def _estimates(
        self, head: Head, cases: Sequence[Case], framework: str, version: str, numbered: np.ndarray
    ) -> list[Estimate]:
        name, cells = head.entry.head, head.entry.cells
        key = _name_in(head, framework)
        stand_ins = [stands_for(case, key, cells) for case in cases]
        situations = [situation_of(case, key, cells, version) for case in cases]
        widths = [head.width(each) for each in situations]
        effects = np.array([head.effects.of(stand_in, key) for stand_in in stand_ins])
        log_time, shares = combine(log_terms(name, cases), effects)
        # All cases have the same model and load: only the accelerator differs.
        tied = np.repeat(ties(cases[:1], [key], head.codes), len(cases), axis=0)
        tied[:, 0] = [
            head.codes.accelerator(stand_in if case.device.whole else "")
            for case, stand_in in zip(cases, stand_ins, strict=True)
        ]
        added = np.flatnonzero([width.process for width in widths])
        log_time[added] += head.residual(tied[added], numbered[added])
        estimates = []
        for i, (case, width) in enumerate(zip(cases, widths, strict=True)):
            term = head.effects.terms[int(np.argmax(shares[i]))]
            mid = math.exp(min(max(float(log_time[i]), -20.0), 20.0))
            estimate = Estimate(
                around(mid, width.log_width), situations[i], _BOUNDS.get(term, Bound.LAUNCH),
                stand_ins[i],
            )  # fmt: skip
            mid = math.exp(self._in_order(head, case, estimate, (framework, version)))
            seconds = under_roof(around(mid, width.log_width), _ROOFS[name](case))
            estimates.append(replace(estimate, seconds=seconds))
        return estimates


def under_roof(seconds: Interval, least: float) -> Interval:
    """Return the interval with no end below the least seconds that the hardware allows."""
    return Interval(*(max(end, least) for end in (seconds.low, seconds.mid, seconds.high)))


def _name_in(head: Head, framework: str) -> str:
    """Return the name under which a head's data has a framework: TensorRT-LLM has two, and first
    tokens are medians or means. Unchanged if the head has none of them."""
    others = {"trtllm": "tensorrt-llm"}.get(framework, framework)
    written = (framework, others, framework + MEAN, others + MEAN)
    return next((each for each in written if each in head.codes.frameworks), framework)


def _combined(sources: Sequence[tuple[str, Interval]], basis: Basis) -> Interval:
    """Return the combined seconds of estimates that are based on equally similar measurements."""
    estimates = [SourceEstimate(name, seconds, basis) for name, seconds in sources]
    return combine_estimates(estimates).seconds


def _join(
    case: Case,
    framework: str,
    need: Memory,
    carbon_g_per_kwh: float | None,
    by_head: dict[str, Estimate],
    *,
    known: bool,
) -> ServingPrediction:
    load, device = case.load, case.device
    ttft, tpot = by_head[TTFT], by_head[TPOT]
    tokens = load.batch * (load.input_tokens + load.output_tokens)
    at_once = load.at_once(case.model, device.memory_bytes) * load.data_parallel
    waves = max(load.batch / at_once, 1.0)
    first, further = ttft.seconds, tpot.seconds.scaled(load.output_tokens - 1)
    served = Interval(
        first.low + further.low, first.mid + further.mid, first.high + further.high
    ).scaled(waves)
    order = list(Situation)
    worse = max(ttft.situation, tpot.situation, key=order.index)
    sources = [(by_head[name].situation, name, by_head[name].seconds)
               for name in (OFFLINE, SATURATED)]  # fmt: skip
    sources.append((worse, SERVING, served))
    nearest = min((each for each, *_ in sources), key=order.index)
    used = [(name, seconds) for each, name, seconds in sources if each is nearest]
    source = used[0][0]
    whole = used[0][1] if len(used) == 1 else _combined(used, _BASIS[nearest])
    whole = under_roof(whole, roof.least_seconds(case))
    # All estimates are of the same work: scale the parts so that they add up to the whole.
    agree = whole.mid / served.mid
    first = under_roof(ttft.seconds.scaled(agree), roof.least_first_token(case))
    further = under_roof(tpot.seconds.scaled(agree), roof.least_token(case))
    together = waves * (first.mid + (load.output_tokens - 1) * further.mid)
    whole = under_roof(whole.scaled(together / whole.mid), roof.least_seconds(case))
    # A request that is not resident waits for the waves before its own.
    wait = whole.scaled(1 - 1 / waves)
    first = Interval(first.low + wait.low, first.mid + wait.mid, first.high + wait.high)
    rate = whole.over(tokens)
    stand_in = (tpot if source == SERVING else by_head[source]).stand_in
    fits = need.least <= device.memory_bytes
    abstention = partial(_abstention, case, framework, fits=fits, known=known)
    energy = price = carbon = None
    if device.power_w is not None:
        watts = DRAWN_SHARE.scaled(device.power_w * load.gpus)
        energy = watts.divided_by(rate)
        if carbon_g_per_kwh is not None:
            carbon = energy.scaled(1e6 / 3.6e6 * carbon_g_per_kwh)
    if device.price_per_hour is not None:
        price = rate.over(device.price_per_hour * load.gpus * 1e6 / 3600)
    return ServingPrediction(
        device=device.name,
        gpus=load.gpus,
        framework=framework,
        throughput=rate,
        ttft_s=first,
        tpot_s=further,
        memory=need,
        memory_bytes=device.memory_bytes,
        resident=need.resident(device.memory_bytes) if fits else 0.0,
        fits=fits,
        energy_j_per_token=energy,
        price_per_million=price,
        carbon_g_per_million=carbon,
        basis=_BASIS[nearest],
        latency_basis=_BASIS[worse],
        bound=(tpot if source == SERVING else by_head[source]).bound,
        source=source,
        abstained=abstention(whole, stand_in),
        ttft_abstained=abstention(ttft.seconds, ttft.stand_in),
        tpot_abstained=abstention(tpot.seconds, tpot.stand_in),
    )


def _abstention(
    case: Case, framework: str, seconds: Interval, stand_in: str, *, fits: bool, known: bool
) -> str | None:
    name = case.device.sheet.name
    if not fits:
        return f"does not fit on {case.device.name}: nothing to predict"
    if not known:
        return f"nothing was measured with the framework {framework!r}"
    if not stand_in:
        return f"nothing was measured on {name} or a relative of it; physics only"
    if math.log(seconds.high / seconds.mid) > WIDEST:
        return f"the interval on {name} is wider than a factor {math.exp(WIDEST):.0f} to each side"
    return None


@cache
def _shipped() -> LlmModel:
    return load(DEFAULT_LLM_BUNDLE)
