"""Reports a served language model: throughput, latency, memory, energy and price by platform."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from berth.pilot.units import format_seconds
from berth.plugin.report.of_forecast import sources_data, sources_part
from berth.plugin.report.parts import (
    Column,
    Part,
    Report,
    Table,
    at_most,
    data_of,
    interval,
    middle,
    worth_showing,
)
from berth.predictor.core.forecast import Forecast, WorkUnit
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.core.workload import Amount
from berth.predictor.families.language_model.candidates import RULES, ServingRule
from berth.predictor.families.language_model.config import LanguageModel
from berth.predictor.families.language_model.estimate import WIDEST
from berth.predictor.families.language_model.framework import named
from berth.predictor.families.language_model.load import LlmLoad
from berth.predictor.families.language_model.predictor import UNVERIFIED, ServingPrediction


@dataclass(frozen=True, slots=True)
class Served:
    """The prediction for a language model served on one platform with a given load."""

    prediction: ServingPrediction
    load: LlmLoad
    tokens: float | None = None
    """Number of tokens of the job, of prompts and answers; None: unknown."""

    @property
    def job_s(self) -> Interval | None:
        """Return the seconds of the whole job; None: its amount is unknown, or nothing fits."""
        if self.tokens is None or not self.prediction.fits:
            return None
        return self.prediction.throughput.over(self.tokens)

    @property
    def job_price(self) -> float | None:
        """Return the price of the whole job; None: no price, no amount, or nothing fits."""
        price = self.where_it_fits(self.prediction.price_per_million)
        return None if self.tokens is None or price is None else price.mid * self.tokens / 1e6

    @property
    def can_act(self) -> bool:
        """Return whether the model fits and the prediction is reliable enough to act on: neither a
        prior (an estimate without measurements) nor an abstention."""
        prediction = self.prediction
        is_prior = prediction.basis is Basis.PRIOR
        return prediction.fits and prediction.abstained is None and not is_prior

    def where_it_fits(self, value: Interval | None) -> Interval | None:
        """Return ``value``; None where the model does not fit."""
        return value if self.prediction.fits else None

    def first_token(self) -> Interval | None:
        """Return the seconds to the first token; None where the predictor abstains from them."""
        return None if self.prediction.ttft_abstained else self.prediction.ttft_s

    def further_token(self) -> Interval | None:
        """Return the seconds of each further token; None where the predictor abstains from them."""
        return None if self.prediction.tpot_abstained else self.prediction.tpot_s

    def gpu_memory(self) -> Interval:
        """Return the bytes of memory on one GPU: of the whole batch, or, where only a part of it
        fits at a time, no more than the GPU has."""
        peak, most = self.prediction.memory.peak, self.prediction.memory_bytes
        if not self.prediction.fits:
            return peak
        return Interval(min(peak.low, most), min(peak.mid, most), min(peak.high, most))

    def fits(self) -> str:
        """Return ``yes`` or ``no``, or the number of sequences that fit at a time, where fewer than
        the load's batch fit."""
        if not self.prediction.fits:
            return "no"
        resident = self.prediction.resident
        return "yes" if resident >= self.load.batch else f"{resident:,} at a time"

    def basis(self) -> str | None:
        """Return the basis of the numbers (measured, learnt, prior, ...); None where the model does
        not fit."""
        if not self.prediction.fits:
            return None
        return self.prediction.basis.value + " (abstains)" * bool(self.prediction.abstained)


def _mid(
    title: str, key: str, value: Callable[[ServingPrediction], Interval | None], unit: str
) -> Column[Served]:
    return middle(
        title, key, lambda row: row.where_it_fits(value(row.prediction)), "{:.3g}".format, unit=unit
    )


def _rate(per_s: float) -> str:
    """Return a rate with three significant digits and without an exponent: ``24,800``."""
    return f"{per_s:.3g}" if per_s < _WHOLE else f"{float(f'{per_s:.3g}'):,.0f}"


_WHOLE = 100.0
"""Rate from which on only whole numbers are shown."""
SERVING: tuple[Column[Served], ...] = (
    Column("Platform", "platform", lambda row: row.prediction.device),
    interval("Tokens/s", "tokens_per_s", lambda row: row.where_it_fits(row.prediction.throughput),
             _rate, unit="1/s"),
    interval("Job", "job_s", lambda row: row.job_s, is_optional=True),
    Column("Job price", "job_price", lambda row: row.job_price, "{:.4g}".format, kind=float,
           is_optional=True),
    middle("First token", "ttft_s", Served.first_token),
    middle("Each token", "tpot_s", Served.further_token),
    at_most("GPU memory <=", "gpu_memory_bytes", Served.gpu_memory),
    Column("Fits", "fits", lambda row: row.prediction.fits, words=Served.fits, kind=bool),
    _mid("J/token", "energy_j_per_token", lambda p: p.energy_j_per_token, "J"),
    _mid("Price/M", "price_per_million_tokens", lambda p: p.price_per_million, ""),
    _mid("g CO2/M", "carbon_g_per_million_tokens", lambda p: p.carbon_g_per_million, "g"),
    Column("Limited by", "bound", lambda row: row.prediction.bound.value),
    Column("Basis", "basis", lambda row: row.prediction.basis.value, words=Served.basis),
)  # fmt: skip
"""The columns of a language model's predictions by platform."""


def _by(rule: ServingRule) -> Column[Served]:
    return Column(
        f"By {rule.value}", f"{rule.value}_tokens_per_s",
        lambda row: row.prediction.by_rule[rule], _rate, "1/s",
    )  # fmt: skip


RULES_OF: tuple[Column[Served], ...] = (
    Column("Platform", "platform", lambda row: row.prediction.device),
    Column("New", "novelty", lambda row: row.prediction.novelty.value),
    *map(_by, RULES),
    Column("Answers", "rule", lambda row: row.prediction.rule.value),
)
"""The columns of what each rule says, and which one answers."""


@dataclass(frozen=True, slots=True)
class ServingRanking:
    """A language model's predictions on the platforms, ranked."""

    model: LanguageModel
    load: LlmLoad
    framework: str
    bundle: str
    predictions: Sequence[ServingPrediction]
    forecast: Forecast | None
    """Forecast for the platforms that this site knows; None: it knows none of them."""
    with_sources: bool
    amount: Amount
    currency: str

    @property
    def tokens(self) -> float | None:
        """Return the number of tokens of the job, of prompts and answers; None: unknown."""
        each = self.load.input_tokens + self.load.output_tokens
        count = self.amount.count
        return count if count is None or self.amount.unit is WorkUnit.TOKEN else count * each

    @property
    def rows(self) -> list[Served]:
        """Return the predictions as table rows."""
        return [Served(prediction, self.load, self.tokens) for prediction in self.predictions]

    def answer(self) -> list[str]:
        """Return the sentences that answer the question: does it fit, how fast on the first
        platform, and how long and dear is the job."""
        load, rows = self.load, self.rows
        best = rows[0]
        place = f"{load.gpus} x {best.prediction.device}" if load.gpus > 1 else (
            best.prediction.device
        )  # fmt: skip
        sequence = (
            f"{load.batch:,} request{'s' * (load.batch > 1)} of "
            f"{load.input_tokens + load.output_tokens:,} tokens at once on {place}"
        )
        if not best.prediction.fits:
            reason = best.prediction.abstained or "the model does not fit"
            return [f"{sequence}: no; {reason}."]
        resident = best.fits()
        first = f"{sequence}: {'yes' if resident == 'yes' else f'no, {resident}'}"
        if best.can_act:
            first += f"; {_rate(best.prediction.throughput.mid)} tokens/s"
        else:
            first += "; how fast is not known"
        if self.tokens is None:
            return [f"{first}."]
        priced = [row for row in rows if row.can_act and row.job_price is not None]
        sentences = [f"{first}."]
        if best.can_act and best.job_s is not None:
            sentences.append(
                f"{self.tokens:.4g} tokens take {format_seconds(best.job_s.mid)} there."
            )
        if priced:
            cheapest = min(priced, key=lambda row: row.job_price or 0.0)
            sentences.append(
                f"Cheapest for {self.tokens:.4g} tokens: {cheapest.prediction.device}, "
                f"{cheapest.job_price:.4g} {self.currency}".rstrip()
                + "."
            )
        elif all(row.prediction.price_per_million is None for row in rows):
            sentences.append(
                "No platform has a price: give price_per_hour of each in the site's platform "
                "files, and the site with --site."
            )
        return sentences


def serving_report(ranking: ServingRanking) -> Report:
    """Return the report of the platforms that serve a language model, best first."""
    model, load, rows = ranking.model, ranking.load, ranking.rows
    predictions = ranking.predictions
    reasons = dict.fromkeys(p.abstained for p in predictions if p.abstained and p.fits)
    each = load.input_tokens + load.output_tokens
    notes = [
        "Tokens/s, energy, price and carbon count the tokens of prompt and answer alike: of "
        f"{each:,} of a request, {load.output_tokens:,} are generated."
    ]
    if 0 < model.positions < each:
        notes.append(
            f"The model was made for at most {model.positions:,} tokens of a request: servers "
            "refuse longer ones unless they are set up to stretch its positions."
        )
    notes += [f"abstains: {reason}" for reason in reasons]
    if any(p.fits and (p.ttft_abstained or p.tpot_abstained) for p in predictions):
        notes.append(
            "A first or further token without a number: its interval is wider than a factor "
            f"{math.exp(WIDEST):.0f} to each side, or nothing was measured there."
        )
    if not named(ranking.framework)[1]:
        notes.append(
            "No version of the server is named, so nothing is calibrated: versions differ. With "
            "one, as in --framework 'vllm 0.19', measurements of that version count alone."
        )
    notes.append(
        "The middle is a tuned server, as benchmarks run it; the interval reaches down to servers "
        "as people run them, about half as fast. Your own run says which is yours."
    )
    if any(p.basis is Basis.PRIOR for p in predictions):
        notes.append("prior: physics only, with what the framework achieves elsewhere.")
    notes.append(f"Memory (of one GPU), energy and carbon are {UNVERIFIED}.")
    table = Table(
        "Accelerators ranked", worth_showing(SERVING, rows), rows, [not row.can_act for row in rows]
    )
    parts = [Part("", ranking.answer(), tables=[table], notes=notes)]
    if ranking.with_sources and ranking.forecast is not None:
        known = ranking.forecast.curves
        names = [p.device for p in predictions if p.device in known]
        parts.append(
            Part(
                "Tokens/s by each rule",
                tables=[Table("Rules", RULES_OF, [row for row in rows if row.prediction.fits])],
                notes=[
                    "The rule that answers had the least error on held-out folds where the same "
                    "is new; ties go to the plainer (docs/figures-llm.md)."
                ],
            )
        )
        parts.append(sources_part(ranking.forecast, names))
    headline = (
        f"{model.name}: {model.family}, {_rate(model.parameters / 1e9)} billion parameters, "
        f"{load.weight_bits:.3g}-bit weights, {ranking.framework}, batch {load.batch}, "
        f"{load.input_tokens} + {load.output_tokens} tokens, {load.gpus} "
        f"GPU{'s' * (load.gpus > 1)} of each; bundle {ranking.bundle}"
    )
    return Report(headline, "", parts)


def serving_data(ranking: ServingRanking) -> dict[str, Any]:
    """Return the ranking of platforms for a language model, for JSON."""
    model, load = ranking.model, ranking.load
    return {
        "model": model.name,
        "family": model.family,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "bundle": ranking.bundle,
        "framework": ranking.framework,
        "batch": load.batch,
        "input_tokens": load.input_tokens,
        "output_tokens": load.output_tokens,
        "weight_bits": load.weight_bits,
        "kv_bits": load.kv_bits,
        "gpus": load.gpus,
        "tokens": ranking.tokens,
        "answer": ranking.answer(),
        "predictions": [_prediction(ranking, row) for row in ranking.rows],
        "unverified": ["gpu_memory_bytes", "energy_j_per_token", "carbon_g_per_million_tokens"],
    }


def _prediction(ranking: ServingRanking, row: Served) -> dict[str, Any]:
    prediction, forecast = row.prediction, ranking.forecast
    is_known = forecast is not None and prediction.device in forecast.curves
    return {
        **data_of(SERVING, row),
        **data_of(RULES_OF[1:], row),
        "latency_basis": prediction.latency_basis.value,
        "gpu_memory_least_bytes": prediction.memory.least,
        "resident_sequences": min(prediction.resident, 1_000_000),
        "from": prediction.source,
        "abstained": prediction.abstained,
        "ttft_abstained": prediction.ttft_abstained,
        "tpot_abstained": prediction.tpot_abstained,
        "sources": sources_data(forecast, prediction.device) if is_known else [],
    }
