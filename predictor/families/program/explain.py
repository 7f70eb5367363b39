"""What limits a program on a platform: the largest component of its roofline time there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.prediction import Bound
from berth.predictor.families.program.estimate import estimate
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.roofline import LIMITS
from berth.predictor.hardware.ceilings import Allocation


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What limits a program on one platform."""

    platform: str
    speedup: float
    bound: Bound
    limit: str
    """Printed name of the component that takes most of the time on the platform."""
    limit_share: float
    """Share of the largest component in the roofline time, 0 to 1."""

    def sentence(self) -> str:
        """Return the speedup and what bounds it as one sentence."""
        return (
            f"{self.speedup:.3g}x on {self.platform}: {self.bound.value}-bound there "
            f"({100 * self.limit_share:.0f} % of the roofline's time is {self.limit})."
        )


def bottlenecks(
    predictor: Predictor,
    profile: Profile,
    points: Sequence[Allocation],
    *,
    reference: Platform | None = None,
) -> list[Bottleneck]:
    """Return what limits a program at each point (platform and core count), in order.

    ``reference`` is the platform that the profile was measured on. Raises UsageError for a profile
    without run time or without required counters.
    """
    layout = predictor.layout(profile, points, reference)
    reading = predictor.read(profile, layout)
    estimates = estimate(reading, layout, predictor.bundle)
    found = []
    for index, (point, there) in enumerate(zip(points, estimates, strict=True)):
        limit, share = reading.roofs.limit(index)
        # A GPU has no L3 cache: traffic beyond its L2 cache goes to its memory.
        bound, words = LIMITS["dram" if limit == "l3" and point.platform.is_gpu else limit]
        speedup = reading.runtime_s / math.exp(there.log_time)
        found.append(Bottleneck(point.platform.name, speedup, bound, words, share))
    return found
