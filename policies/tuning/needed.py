"""Which settings of a trial are needed: those without which a metric is worse beyond chance.

A trial has a value for every tuned setting, most of them drawn at random. A value that has no
measurable effect on the replayed jobs may have one elsewhere, so it must not be recommended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from berth.policies.settings import PolicySettings
from berth.policies.tuning.differences import block_s_of, differences
from berth.policies.tuning.parameters import PARAMETERS, Values, matters, settings_with
from berth.policies.tuning.replayer import Figures, Metric, Part, Replayer


class _Loss(NamedTuple):
    """What going back to today's value of one setting costs."""

    without: dict[str, float | str]
    figures: Figures
    largest: float
    """The largest relative worsening of a metric."""
    is_clear: bool
    """Whether a metric is worse beyond chance, or more jobs are killed."""


@dataclass(frozen=True)
class Elimination:
    """Drops settings one by one (backward elimination), by replays of the training weeks."""

    replayer: Replayer
    today: PolicySettings
    metrics: Sequence[Metric]
    part: Part

    def needed(self, values: Values, now: Values) -> dict[str, float | str]:
        """Return the values that differ from today's (``now``) and that are needed.

        The setting of the smallest effect is dropped first.
        """
        needed = self._used({name: v for name, v in values.items() if now.get(name) != v})
        figures = self._replayed(needed)
        effects = {name: self._loss(name, needed, figures).largest for name in needed}
        for name in sorted(effects, key=effects.__getitem__):
            if name in needed:
                loss = self._loss(name, needed, figures)
                if not loss.is_clear:
                    needed, figures = loss.without, loss.figures
        return needed

    def _loss(self, name: str, values: Values, figures: Figures) -> _Loss:
        without = self._used({other: v for other, v in values.items() if other != name})
        then = self._replayed(without)
        compared = differences(figures, then, self.metrics, block_s_of(self.part))
        is_clear = any(each.worse for each in compared) or then.killed > figures.killed
        return _Loss(without, then, max(each.change for each in compared), is_clear)

    def _used(self, values: Values) -> dict[str, float | str]:
        """Return the values that the objective uses."""
        objective = str(values.get("objective", self.today.objective))
        return {name: v for name, v in values.items() if matters(PARAMETERS[name], objective)}

    def _replayed(self, values: Values) -> Figures:
        cut = self.replayer.cut(self.replayer.slicing.with_values(values))
        return cut.replay(settings_with(self.today, values), self.part)
