"""How much work a job does, as people write it and as screens show it."""

from __future__ import annotations

import math

from berth.pilot.errors import UsageError
from berth.predictor.core.forecast import Unit
from berth.predictor.core.workload import Amount

_UNITS = {
    word: unit
    for unit, words in {
        Unit.EPOCH: ("epoch", "epochs"),
        Unit.STEP: ("step", "steps", "batch", "batches"),
        Unit.REQUEST: ("request", "requests"),
        Unit.TOKEN: ("token", "tokens"),
    }.items()
    for word in words
}
_MOST = 1e15


def parse_amount(text: str, steps_per_epoch: float | None = None) -> Amount:
    """``90 epochs``, ``1e6 tokens``: a count and a unit. Raises UsageError."""
    hint = "write a count and a unit: '90 epochs', '500 steps', '10000 requests', '1e6 tokens'"
    words = text.split()
    if len(words) != 2:
        raise UsageError(f"--amount {text!r} is not a count and a unit", hint=hint)
    unit = _UNITS.get(words[1].lower())
    if unit is None:
        raise UsageError(f"--amount {text!r}: {words[1]!r} is no unit of work", hint=hint)
    count = _positive(words[0], f"--amount {text!r}: {words[0]!r}", hint)
    if steps_per_epoch is None:
        if unit is Unit.EPOCH:
            raise UsageError(
                f"--amount {text!r} also needs the steps of an epoch",
                hint="add --steps-per-epoch N: samples of the data set by the batch",
            )
        return Amount(unit=unit, count=count)
    if unit is not Unit.EPOCH:
        raise UsageError(f"--steps-per-epoch means nothing for --amount {text!r}")
    steps = _positive(str(steps_per_epoch), f"--steps-per-epoch {steps_per_epoch:g}", None)
    return Amount(unit=unit, count=count, steps_per_epoch=steps)


def amount_text(amount: Amount) -> str:
    """``90 epochs of 500 steps``, ``1 job``; ``unknown`` where only the unit is known."""
    if amount.unit is Unit.JOB:
        return "1 job"
    if amount.count is None:
        return f"unknown (per {amount.unit.value})"
    text = f"{amount.count:g} {amount.unit.value}{'' if amount.count == 1 else 's'}"
    if amount.steps_per_epoch is not None:
        text += f" of {amount.steps_per_epoch:g} steps"
    return text


def _positive(text: str, what: str, hint: str | None) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < _MOST:
        raise UsageError(f"{what} is not a positive number", hint=hint)
    return value
