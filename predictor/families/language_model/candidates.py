"""Answer a question by the plainest rule that nothing beats on questions of the same kind.

Four rules compute the time of each question, plainest first: the roofline times one factor; the
nearest measured row times the ratio of rooflines; calibrated physics (``physics.TermEffects``: what
each phase reaches on each framework); the same with the learnt residual. Which one answers depends
on what is new in the question (``Novelty``): for each, the bundle has a table of the rules' errors
on held-out folds of that kind (``python -m lab language-models``). A richer rule answers only where
it beat the plainer ones there, in its error and not at the cost of the order (``decide``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.core.arrays import Floats
from berth.predictor.families.language_model.residual import TIES, Integers
from berth.predictor.hardware.unit import Unit, unit_named


class ServingRule(StrEnum):
    """A way to compute a time, plainest first."""

    ROOFLINE = "roofline"
    """The least time that the hardware allows, times one factor for all questions."""
    NEAREST = "nearest"
    """The nearest measured row of the most similar device, times the ratio of their rooflines."""
    EFFICIENCY = "efficiency"
    """Physics with what each phase reaches of the peaks, by framework and device."""
    LEARNT = "learnt"
    """The same, corrected by the residual of similar measured rows."""


RULES = tuple(ServingRule)


class Novelty(StrEnum):
    """What is new in a question against the measurements, the hardest first."""

    MAKER = "new maker"
    """No device of the accelerator's software was measured."""
    DEVICE = "new device"
    EXPERTS = "new mixture of experts"
    MODEL = "new model"
    VERSION = "new server version"
    """Another version of the server was measured."""
    LOAD = "new load"
    KIND = "new kind or precision"
    """No model of this kind and size was measured at this precision with this server there."""
    COMBINATION = "new combination"
    """The model was not measured at this precision with this server on this device."""
    SERVER = "new server"
    """Another server stands for this one, which was not measured."""
    NOTHING = "nothing new"


class RuleErrors(Document):
    """Errors of one rule on held-out folds of one kind."""

    median_error: float = Field(ge=0)
    """Median of |predicted / measured - 1|."""
    kendall_tau: float
    log_width: float = Field(ge=0)
    """Half width of the 90 % interval in log time: each group of rows weighs the same."""


class RuleChoice(Document):
    """The rules' errors where one thing, or nothing, is new, and the rule that answers there."""

    novelty: Novelty
    rows: int = Field(ge=1)
    folds: int = Field(ge=1)
    rule: ServingRule
    errors: dict[ServingRule, RuleErrors]

    @property
    def log_width(self) -> float:
        """Return the half width in log time of the rule that answers."""
        return self.errors[self.rule].log_width


BETTER, SAME_TAU = 0.98, 0.01
"""Share of a plainer rule's error that a richer rule must stay under, for a tie goes to the
plainer; and the difference of Kendall's tau that counts as none."""


def decide(errors: Mapping[ServingRule, RuleErrors]) -> ServingRule:
    """Return the rule that answers: the better of the two plain rules, then each richer one that is
    better by more than a tie and orders the rows no worse."""
    plain = (ServingRule.ROOFLINE, ServingRule.NEAREST)
    best = min(plain, key=lambda rule: errors[rule].median_error)
    for rule in (ServingRule.EFFICIENCY, ServingRule.LEARNT):
        own, known = errors[rule], errors[best]
        ordered = own.kendall_tau >= known.kendall_tau - SAME_TAU
        if ordered and own.median_error < BETTER * known.median_error:
            best = rule
    return best


_UNLIKE = {"framework": 100.0, "model": 30.0, "bits": 10.0}
"""How far a row is where one of its ``TIES`` differs, the weightiest first."""


@dataclass(frozen=True)
class MeasuredRows:
    """The measured rows of one head that the plain rules need."""

    accelerators: tuple[str, ...]
    """Names of the accelerators by their code in ``ties``."""
    ties: Integers
    numbers: Floats
    log_seconds: Floats
    log_roofs: Floats
    """Log of the least seconds that the hardware allows for each row."""

    @cached_property
    def factor(self) -> float:
        """Return the log factor from the roofline to the measured time, the middle of all rows."""
        return float(np.median(self.log_seconds - self.log_roofs))

    def nearest(self, devices: Sequence[Unit], ties: Integers, numbers: Floats) -> Integers:
        """Return the measured row that is nearest to each case, [cases]: of the same framework,
        model and precision as far as possible, on the most similar device, at the most similar
        load. ``devices``: the cases' accelerators or slices."""
        chosen = []
        for device, tied, numbered in zip(devices, ties, numbers, strict=True):
            apart = sum(
                weight * (self.ties[:, TIES.index(tie)] != tied[TIES.index(tie)])
                for tie, weight in _UNLIKE.items()
            )
            apart = apart + 3.0 * np.abs(self._log_rates - _log_rates(device)).sum(axis=1)
            chosen.append(int(np.argmin(apart + np.abs(self.numbers - numbered).sum(axis=1))))
        return np.array(chosen, dtype=np.int64)

    @cached_property
    def _log_rates(self) -> Floats:
        """Return the log of bandwidth and peak of each row's device, [rows, 2]."""
        rates = [_log_rates(unit_named(name)) for name in self.accelerators]
        return np.array(rates)[self.ties[:, 0]]

    def plain(
        self, devices: Sequence[Unit], ties: Integers, numbers: Floats, log_roofs: Floats
    ) -> Floats:
        """Return log seconds by the two plain rules, [cases, 2]."""
        row = self.nearest(devices, ties, numbers)
        moved = self.log_seconds[row] + log_roofs - self.log_roofs[row]
        return np.column_stack([log_roofs + self.factor, moved])


def _log_rates(device: Unit) -> Floats:
    return np.log([device.bytes_per_s, device.flops_per_s(16)])
