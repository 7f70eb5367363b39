"""Which settings of a trial are needed: those without which a metric is worse beyond chance.

A trial has a value for every tuned setting, most of them drawn at random. A value that has no
measurable effect on the replayed jobs may have one elsewhere, so it must not be recommended. The
trial was picked for its luck on the training weeks, too: an effect there counts only if the test
weeks show it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from berth.policies.settings import PolicySettings
from berth.policies.tuning.differences import differences
from berth.policies.tuning.figures import ReplayFigures, TracePart, TuningMetric
from berth.policies.tuning.parameters import PARAMETERS, Values, matters, settings_with

if TYPE_CHECKING:
    from berth.policies.tuning.trace_replayer import TraceReplayer

LEAST_EFFECT = 0.01
"""Least relative effect on a metric for which a setting is worth a line in the site file."""


class _Loss(NamedTuple):
    """What going back to today's value of one setting costs."""

    without: dict[str, float | str]
    largest: float
    """The largest relative worsening of a metric on the training weeks."""
    is_clear: bool
    """Whether a metric is worse beyond chance, or more jobs are killed than today."""


@dataclass(frozen=True)
class Elimination:
    """Drops settings one by one (backward elimination), by replays of all weeks."""

    replayer: TraceReplayer
    today: PolicySettings
    metrics: Sequence[TuningMetric]
    train: TracePart
    test: TracePart
    _replays: dict[frozenset[tuple[str, float | str]], ReplayFigures] = field(default_factory=dict)

    def needed(self, values: Values, now: Values) -> dict[str, float | str]:
        """Return the values that differ from today's (``now``) and that are needed.

        The setting of the smallest effect is dropped first.
        """
        needed = self._used({name: v for name, v in values.items() if now.get(name) != v})
        effects = {name: self._loss(name, needed).largest for name in needed}
        for name in sorted(effects, key=effects.__getitem__):
            if name in needed:
                loss = self._loss(name, needed)
                if not loss.is_clear:
                    needed = loss.without
        return needed

    def replayed(self, values: Values) -> ReplayFigures:
        """Return the figures of all weeks under today's policy with these values."""
        key = frozenset(values.items())
        if key not in self._replays:
            whole = TracePart(self.train.begin_s, self.test.end_s)
            self._replays[key] = self.replayer.replay(settings_with(self.today, values), whole)
        return self._replays[key]

    def _loss(self, name: str, values: Values) -> _Loss:
        without = self._used({other: v for other, v in values.items() if other != name})
        figures, then = self.replayed(values), self.replayed(without)
        trained, tested = (
            differences(figures, then, self.metrics, part) for part in (self.train, self.test)
        )
        is_worse = any(
            here.worse and here.change >= LEAST_EFFECT and there.change > 0
            for here, there in zip(trained, tested, strict=True)
        )
        kills_more = then.killed > max(figures.killed, self.replayed({}).killed)
        return _Loss(without, max(each.change for each in trained), is_worse or kills_more)

    def _used(self, values: Values) -> dict[str, float | str]:
        objective = str(values.get("objective", self.today.objective))
        return {name: v for name, v in values.items() if matters(PARAMETERS[name], objective)}
