"""Predict served language models on devices, with intervals, basis and abstention.

A head is the learnt model of one quantity. Throughput comes from the head whose measurements
resemble the request most: ``offline`` (a batch of equal requests), or ``ttft`` and ``tpot`` (time
to first token and time per output token of a server under a closed load, where throughput is
``batch x (input + output) / (ttft + (output - 1) x tpot)``). A device that was not measured gets
the physical model with the framework's fitted factors; such predictions abstain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from berth.pilot.platform import Precision
from berth.predictor.core.combine import SourceEstimate
from berth.predictor.core.combine import combine as combine_estimates
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis, Bound, Interval
from berth.predictor.families.language_model.bundle import (
    DEFAULT_LLM_BUNDLE,
    Head,
    LlmModel,
    Situation,
    load,
)
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.load import Load, Memory, memory
from berth.predictor.families.language_model.physics import (
    LOG_WIDTHS,
    OFFLINE,
    TPOT,
    TTFT,
    Case,
    combine,
    log_terms,
    stands_for,
)
from berth.predictor.families.language_model.residual import UNKNOWN, numbers, ties
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
    Situation.APART: Basis.SCALED,
    Situation.NEW: Basis.PRIOR,
}
_BOUNDS = {
    "weights": Bound.MEMORY, "weights_one_gpu": Bound.MEMORY, "cache": Bound.MEMORY,
    "cache_all_heads": Bound.MEMORY, "decode": Bound.COMPUTE, "prefill": Bound.COMPUTE,
    "prefill_queue": Bound.COMPUTE, "prefill_between": Bound.COMPUTE, "attention": Bound.COMPUTE,
    "experts_all": Bound.COMPUTE, "prompt_squared": Bound.COMPUTE, "messages": Bound.LATENCY,
    "bytes_sent": Bound.LATENCY,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Estimate:
    """One head's predicted time in seconds, with its situation (similarity to the measurements) and
    its bottleneck."""

    seconds: Interval
    situation: Situation
    bound: Bound
    by_sibling: bool = False
    """Whether the accelerator is unmeasured and uses the factors of its nearest measured
    sibling."""


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
    """Source of the throughput: ``offline``, or ``serving`` (from ``ttft`` and ``tpot``)."""
    abstained: str | None


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
        return tuple(sorted({f for h in self.model.heads.values() for f in h.codes.frameworks}))

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
        work.check(model)
        if not devices:
            return []
        cases = [Case(model, work, d) for d in devices]
        numbered = numbers(cases)
        estimates = {
            name: self._estimates(head, cases, framework, numbered)
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

    def _in_order(self, head: Head, case: Case, framework: str, log_time: float) -> float:
        """Return ``log_time`` (log seconds), limited by the time of the measured sibling whose
        factors the device uses.

        A device with more of every resource than that sibling is not slower; a device with less of
        every resource, such as a slice, is not faster.
        """
        near = stands_for(case.device, head.codes.accelerators)
        if not near or (near == case.device.sheet.name and case.device.whole):
            return log_time
        whole_sibling = replace(case, device=unit_named(near))
        (estimate,) = self._estimates(head, [whole_sibling], framework, numbers([whole_sibling]))
        limit = math.log(estimate.seconds.mid)
        better = partial(dominates, precisions=_SERVED, linked=False)
        if better(case.device, whole_sibling.device):
            return min(log_time, limit)
        return max(log_time, limit) if better(whole_sibling.device, case.device) else log_time

    def _estimates(
        self, head: Head, cases: Sequence[Case], framework: str, numbered: np.ndarray
    ) -> list[Estimate]:
        name = head.entry.head
        framework = framework if framework in head.codes.frameworks else _alias(framework, head)
        terms = log_terms(name, cases)
        effects = np.array([
            head.effects.of(stands_for(c.device, head.codes.accelerators), framework)
            for c in cases
        ])  # fmt: skip
        log_time, shares = combine(terms, effects)
        # All cases have the same model and load: only the accelerator differs.
        tied = np.repeat(ties(cases[:1], [framework], head.codes), len(cases), axis=0)
        tied[:, 0] = [head.codes.accelerator(c) for c in cases]
        situations = [_situation(head, c, framework, t) for c, t in zip(cases, tied, strict=True)]
        widths = head.entry.widths
        added = np.flatnonzero([widths[situation].process for situation in situations])
        log_time[added] += head.residual(tied[added], numbered[added])
        for i, case in enumerate(cases):
            log_time[i] = self._in_order(head, case, framework, float(log_time[i]))
        estimates = []
        for i, situation in enumerate(situations):
            width = widths[situation].log_width
            by_sibling = situation is Situation.NEW and _has_sibling(head, cases[i])
            if by_sibling:
                width = LOG_WIDTHS.get(name, width)
            term = head.effects.terms[int(np.argmax(shares[i]))]
            estimates.append(
                Estimate(
                    around(math.exp(min(max(log_time[i], -20.0), 20.0)), width),
                    situation,
                    _BOUNDS.get(term, Bound.LAUNCH),
                    by_sibling and name in LOG_WIDTHS,
                )
            )
        return estimates


def _has_sibling(head: Head, case: Case) -> bool:
    measured = head.codes.accelerators
    return case.device.sheet.name not in measured and bool(stands_for(case.device, measured))


def _both(offline: Interval, serving: Interval, basis: Basis) -> Interval:
    """Return the combined seconds of the offline and the serving estimate, which are based on
    equally similar measurements."""
    combined = combine_estimates(
        (SourceEstimate(OFFLINE, offline, basis), SourceEstimate(SERVING, serving, basis))
    )
    return combined.seconds


def _situation(head: Head, case: Case, framework: str, tied: np.ndarray) -> Situation:
    name = case.device.sheet.name
    if tied[0] == UNKNOWN:
        known = not case.device.whole and name in head.codes.accelerators
        return Situation.APART if known and tied[1] != UNKNOWN else Situation.NEW
    if tied[1] == UNKNOWN:
        return Situation.NEW
    pair = f"{name} | {framework}"
    if pair not in head.pairs:
        return Situation.APART
    signature = head.codes.models[tied[2]] if tied[2] != UNKNOWN else ""
    return Situation.BLOCK if f"{pair} | {signature}" in head.blocks else Situation.PAIR


def _alias(framework: str, head: Head) -> str:
    """Return the name under which the head knows the framework (the data sets have two names for
    TensorRT-LLM); unchanged if neither name is known."""
    other = {"tensorrt-llm": "trtllm", "trtllm": "tensorrt-llm"}.get(framework, framework)
    return other if other in head.codes.frameworks else framework


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
    ttft, tpot, offline = by_head[TTFT], by_head[TPOT], by_head[OFFLINE]
    tokens = load.batch * (load.input_tokens + load.output_tokens)
    steps = load.output_tokens - 1
    served = Interval(*(
        first + steps * each
        for first, each in (
            (ttft.seconds.low, tpot.seconds.low), (ttft.seconds.mid, tpot.seconds.mid),
            (ttft.seconds.high, tpot.seconds.high),
        )
    ))  # fmt: skip
    order = list(Situation)
    worse = max(ttft.situation, tpot.situation, key=order.index)
    situation, source = min(
        (offline.situation, OFFLINE), (worse, SERVING), key=lambda pair: order.index(pair[0])
    )
    if order.index(offline.situation) == order.index(worse):
        whole = _both(offline.seconds, served, _BASIS[worse])
    else:
        whole = offline.seconds if source == OFFLINE else served
    # Both estimates are of the same work: scale the parts so that they add up to the whole.
    agree = whole.mid / served.mid
    first, further = ttft.seconds.scaled(agree), tpot.seconds.scaled(agree)
    rate = whole.over(tokens)
    fits = need.least <= device.memory_bytes
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
        basis=_BASIS[situation],
        latency_basis=_BASIS[worse],
        bound=(offline if source == OFFLINE else tpot).bound,
        source=source,
        abstained=_abstention(
            case,
            framework,
            situation,
            whole,
            fits=fits,
            known=known,
            by_sibling=offline.by_sibling and source == OFFLINE,
        ),
    )


def _abstention(
    case: Case,
    framework: str,
    situation: Situation,
    whole: Interval,
    *,
    fits: bool,
    known: bool,
    by_sibling: bool,
) -> str | None:
    name = case.device.sheet.name
    if not fits:
        return f"does not fit on {case.device.name}: nothing to predict"
    if not known:
        return f"nothing was measured with the framework {framework!r}"
    if situation is Situation.NEW and not by_sibling:
        return f"nothing was measured on {name}; physics only"
    if whole.log_width > WIDEST:
        return f"the interval on {name} is wider than a factor {math.exp(WIDEST):.0f} to each side"
    return None


@cache
def _shipped() -> LlmModel:
    return load(DEFAULT_LLM_BUNDLE)
