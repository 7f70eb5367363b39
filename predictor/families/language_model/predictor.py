"""Predict served language models on devices, with intervals, basis and abstention.

A head is the learnt model of one quantity (``estimate``). Throughput combines three sources by the
widths of their intervals: ``offline`` (a batch of equal requests), ``saturated`` (more requests
than are resident at once), and ``ttft`` with ``tpot`` (time to first token and time per output
token of a server under a closed load, where the requests that are resident together take ``ttft +
(output - 1) x tpot``). Requests that are not resident wait for a wave before theirs. No prediction
is faster than the hardware's roof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from berth.predictor.core.combine import SourceEstimate
from berth.predictor.core.combine import combine as combine_estimates
from berth.predictor.core.prediction import Basis, Bound, Interval
from berth.predictor.families.language_model import roof
from berth.predictor.families.language_model.bundle import (
    DEFAULT_LLM_BUNDLE,
    LlmModel,
    load,
)
from berth.predictor.families.language_model.candidates import RULES, Novelty, ServingRule
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.estimate import (
    LlmEstimate,
    estimates,
    too_far,
    under_roof,
)
from berth.predictor.families.language_model.framework import named
from berth.predictor.families.language_model.load import MOST_SEQUENCES, LlmLoad, Memory, memory
from berth.predictor.families.language_model.physics import (
    MEAN,
    OFFLINE,
    SATURATED,
    TPOT,
    TTFT,
    LlmCase,
)
from berth.predictor.families.language_model.residual import numbers
from berth.predictor.hardware.unit import Unit

AS_SERVED = 1.92
"""How many times slower servers are as people run them than tuned ones, as benchmarks run them:
median of predicted over measured tokens a second of 223 runs that gpustack published in 2025."""
SERVING = "serving"
"""Name of the source that computes throughput from ``ttft`` and ``tpot``."""
UNVERIFIED = "unverified: no public measurements to check it against"
DRAWN_SHARE = Interval(0.4, 0.7, 1.0)
"""Share of its rated power that a busy accelerator draws: an assumption, not a measurement."""


@dataclass(frozen=True, slots=True)
class ServingPrediction:
    """Predicted throughput, latency, memory and cost of serving one model under one load on one
    device."""

    device: str
    gpus: int
    framework: str
    throughput: Interval
    """Tokens per second, input and output together: of a tuned server in the middle; the lower end
    is of one as people serve (``AS_SERVED``)."""
    tuned_log_width: float
    """Half width in log of the interval of a tuned server."""
    ttft_s: Interval
    tpot_s: Interval
    memory: Memory
    memory_bytes: float
    """Memory of one GPU, in bytes."""
    resident: int
    """Number of sequences that are served at the same time at most, over all replicas."""
    fits: bool
    """Whether the upper end of the least memory needed fits on the GPU, and the model can be split
    as the load asks."""
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
    novelty: Novelty
    """What is new in the question for the source of the throughput."""
    rule: ServingRule
    """Rule that answers there (of TPOT for ``serving``)."""
    by_rule: Mapping[ServingRule, float]
    """Tokens per second by each rule, before the sources agree."""
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
        measured = (name for head in self.model.heads.values() for name in head.entry.frameworks)
        return tuple(sorted({named(name.removesuffix(MEAN))[0] for name in measured}))

    @property
    def accelerators(self) -> frozenset[str]:
        """Return the hardware-catalogue names of all accelerators that were measured."""
        return frozenset(a for h in self.model.heads.values() for a in h.entry.accelerators)

    def predict(
        self,
        model: LanguageModel,
        work: LlmLoad,
        devices: Sequence[Unit],
        framework: str = "vllm",
        carbon_g_per_kwh: float | None = None,
    ) -> list[ServingPrediction]:
        """Return one prediction of the model under the load ``work`` per device, in the order of
        ``devices``. Raises UsageError if the model cannot be served under the load
        (``LlmLoad.check``)."""
        framework, version = named(framework)
        work.check(model, framework)
        if not devices:
            return []
        if work.most_sequences is None:
            work = replace(work, most_sequences=MOST_SEQUENCES.get(framework))
        cases = [LlmCase(model, work, d, framework) for d in devices]
        numbered = {queued: numbers(cases, with_queue=queued) for queued in (True, False)}
        widths, server = self.model.log_widths, (framework, version)
        by_head = {
            name: estimates(head, cases, server, numbered[name == SATURATED], widths)
            for name, head in self.model.heads.items()
        }
        need = memory(model, work)
        known = framework in self.frameworks
        return [
            _join(
                case, framework, need, carbon_g_per_kwh,
                {name: rows[i] for name, rows in by_head.items()},
                known=known,
            )
            for i, case in enumerate(cases)
        ]  # fmt: skip


def _join(
    case: LlmCase,
    framework: str,
    need: Memory,
    carbon_g_per_kwh: float | None,
    by_head: dict[str, LlmEstimate],
    *,
    known: bool,
) -> ServingPrediction:
    load, device, name = case.load, case.device, case.device.sheet.name
    ttft, tpot = by_head[TTFT], by_head[TPOT]
    tokens = load.batch * (load.input_tokens + load.output_tokens)
    at_once = case.at_once * load.data_parallel
    waves = max(load.batch / at_once, 1.0)
    first, further = ttft.seconds, tpot.seconds.scaled(load.output_tokens - 1)
    served = Interval(
        first.low + further.low, first.mid + further.mid, first.high + further.high
    ).scaled(waves)
    latency_basis = max(ttft.basis, tpot.basis, key=lambda basis: basis.rank)
    sources = [
        SourceEstimate(source, seconds, basis, abstained=abstained)
        for source, seconds, basis, abstained in (
            *((head, by_head[head].seconds, by_head[head].basis, by_head[head].abstention(name))
              for head in (OFFLINE, SATURATED)),
            (SERVING, served, latency_basis, too_far((ttft, tpot), served, name)),
        )
    ]  # fmt: skip
    # Another server stands for this one only where no measurement of its own answers.
    stands_in = {head for head, each in by_head.items() if each.similarity.framework}
    stands_in |= {SERVING} if stands_in & {TTFT, TPOT} else set()
    own = [s for s in sources if s.source not in stands_in and s.abstained is None]
    combined = combine_estimates(own or sources)
    source = combined.shares[0].source
    answering = tpot if source == SERVING else by_head[source]
    whole = under_roof(combined.seconds, roof.least_seconds(case))
    # All estimates are of the same work: scale the parts so that they add up to the whole.
    agree = whole.mid / served.mid
    first = under_roof(ttft.seconds.scaled(agree), roof.least_first_token(case))
    further = under_roof(tpot.seconds.scaled(agree), roof.least_token(case))
    together = waves * (first.mid + (load.output_tokens - 1) * further.mid)
    whole = under_roof(whole.scaled(together / whole.mid), roof.least_seconds(case))
    # A request that is not resident waits for the waves before its own.
    wait = whole.scaled(1 - 1 / waves)
    first = Interval(first.low + wait.low, first.mid + wait.mid, first.high + wait.high)
    tuned = whole.over(tokens)
    rate = replace(tuned, low=tuned.low / AS_SERVED)
    apart = _slices_apart(case)
    fits = need.fits(device.memory_bytes) and apart is None
    most = min(need.resident(device.memory_bytes), load.most_sequences or math.inf)
    refusal = apart
    if not fits:
        refusal = apart or (
            f"does not fit: one request needs up to {need.least / 2**30:.1f} GiB on a GPU and "
            f"gets {device.memory_bytes * need.gets / 2**30:.1f} GiB"
        )
    elif not known:
        refusal = f"nothing was measured with the framework {framework!r}"
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
        tuned_log_width=tuned.half_log_width,
        ttft_s=first,
        tpot_s=further,
        memory=need,
        memory_bytes=device.memory_bytes,
        resident=int(most) * load.data_parallel if fits else 0,
        fits=fits,
        energy_j_per_token=energy,
        price_per_million=price,
        carbon_g_per_million=carbon,
        basis=combined.basis,
        latency_basis=latency_basis,
        bound=answering.bound if fits else Bound.MEMORY,
        novelty=answering.similarity.novelty,
        rule=answering.rule,
        by_rule={
            each: tokens
            / (
                waves * (ttft.by_rule[each] + (load.output_tokens - 1) * tpot.by_rule[each])
                if source == SERVING
                else answering.by_rule[each]
            )
            for each in RULES
        },
        source=source,
        abstained=refusal or combined.abstained or too_far((), whole, name),
        ttft_abstained=refusal or ttft.abstention(name),
        tpot_abstained=refusal or tpot.abstention(name),
    )


def _slices_apart(case: LlmCase) -> str | None:
    """Return why a model cannot be split over slices as the load asks; None: it is not split, or
    not over slices. A program uses one MIG slice, and slices send each other no messages."""
    load, device = case.load, case.device
    split = load.tensor_parallel * load.pipeline_parallel > 1 or load.expert_parallel > 1
    if device.whole or device.sheet.software != "cuda" or not split:
        return None
    return f"a program uses one slice: a model cannot be split over {load.gpus} of {device.name}"


@cache
def _shipped() -> LlmModel:
    return load(DEFAULT_LLM_BUNDLE)
