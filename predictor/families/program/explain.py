"""Explanation: why a program is that much faster there, in counters and in words.

For the shipped family (roofline prior times learnt residual). The inputs are those of
``counterfactual``, the background is the median of each over the bundle's
training kernels. The effects are Shapley values on the log speedup
(``attribution``) through the very code that serves, so they add up to the
prediction that is shown. The bound is the roofline's: which part of the time there is largest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.prediction import Bound
from berth.predictor.families.program.attribution import Attribution, attribute
from berth.predictor.families.program.counterfactual import GROUPS, Game
from berth.predictor.families.program.estimate import Reading
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.hardware.ceilings import Point

SHOWN = 3
LEAST_EFFECT = 0.01
"""In log: effects of less than a per cent are not worth a word."""

LIMITS = {
    "flops": (Bound.COMPUTE, "floating-point operations"),
    "instructions": (Bound.COMPUTE, "issuing instructions"),
    "l1": (Bound.COMPUTE, "first-level cache traffic"),
    "l2": (Bound.MEMORY, "second-level cache traffic"),
    "l3": (Bound.MEMORY, "last-level cache traffic"),
    "dram": (Bound.MEMORY, "main-memory traffic"),
    "branches": (Bound.LATENCY, "mispredicted branches"),
    "atomics": (Bound.LATENCY, "contended atomic updates"),
    "launches": (Bound.LAUNCH, "starting parallel regions or kernels"),
    "serial": (Bound.SERIAL, "its serial part"),
}
"""Parts of the roofline's time: the bound that each is, and what it is called."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One group of counters: by what factor it moves the speedup."""

    name: str
    counters: tuple[str, ...]
    factor: float
    """On the speedup: above 1, the program gains more there than a typical one for this."""

    @property
    def shown(self) -> str:
        """The factor as people read it: ``x1.72``, ``x24``, ``x1/140``."""
        if self.factor < 0.1:
            return f"x1/{1 / self.factor:.3g}"
        return f"x{self.factor:.2f}" if self.factor < 10 else f"x{self.factor:.3g}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One platform: ``speedup = typical_speedup`` times all the effects' factors."""

    whose_time: ClassVar[str] = "the roofline's"
    platform: str
    speedup: float
    typical_speedup: float
    """Of a program with the training kernels' median counters and this one's instructions."""
    bound: StrEnum
    """A ``Bound``, or what another family says in its place."""
    limit: str
    """The largest part of the time there."""
    limit_share: float
    """Of the roofline's time."""
    effects: tuple[Effect, ...]
    """All of them, largest first."""
    at_home: bool
    """Measured, or scaled from what was measured, on this very platform."""
    shares: dict[str, float]
    """Each part of the roofline's time over the whole; those that overlap sum to more than 1."""

    @property
    def largest(self) -> tuple[Effect, ...]:
        """Those worth naming: at most three."""
        return tuple(e for e in self.effects if abs(math.log(e.factor)) >= LEAST_EFFECT)[:SHOWN]

    def sentence(self) -> str:
        """One or two sentences for people."""
        there = (
            f"{self.speedup:.3g}x on {self.platform}: {self.bound.value}-bound there "
            f"({100 * self.limit_share:.0f} % of {self.whose_time} time is {self.limit})."
        )
        if self.at_home:
            return f"{there} Its own run tells the time, so no counter moves it."
        moved = ", ".join(f"{e.name} ({e.shown})" for e in self.largest)
        why = f"moved most by {moved}" if moved else "no counter moves it by more than 1 %"
        return f"{there} A typical program gets {self.typical_speedup:.3g}x; {why}."


def explain(
    predictor: Predictor,
    profile: Profile,
    points: Sequence[Point],
    *,
    reference: Platform | None = None,
) -> list[Explanation]:
    """Why each point gets its speedup, in their order. Raises UsageError as predicting does."""
    reading, layout = predictor.read(profile, points, reference=reference)
    game = Game(reading, layout, predictor.bundle)
    found = attribute(game.log_speedups, game.row, game.typical, game.groups)
    return [_explanation(point, reading, index, found) for index, point in enumerate(points)]


def largest_first(effects: Iterable[Effect]) -> tuple[Effect, ...]:
    """By how far each moves the speedup, either way."""
    return tuple(sorted(effects, key=lambda e: -abs(math.log(e.factor))))


def _explanation(point: Point, reading: Reading, index: int, found: Attribution) -> Explanation:
    roofs = reading.roofs
    total = float(roofs.total[index])
    shares = {name: float(getattr(roofs, name)[index]) / total for name in LIMITS}
    limit = max(shares, key=shares.__getitem__)
    # Behind a GPU's second level lies its memory.
    bound, words = LIMITS["dram" if limit == "l3" and point.platform.is_gpu else limit]
    made = [
        Effect(name, counters, math.exp(float(effect)))
        for (name, counters, _), effect in zip(GROUPS, found.effects[:, index], strict=True)
    ]
    return Explanation(
        platform=point.platform.name,
        speedup=math.exp(float(found.value[index])),
        typical_speedup=math.exp(float(found.base[index])),
        bound=bound,
        limit=words,
        limit_share=shares[limit],
        effects=largest_first(made),
        at_home=point.platform.name == reading.profile.platform,
        shares=shares,
    )
