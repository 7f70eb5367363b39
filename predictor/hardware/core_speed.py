"""How fast one core of a platform runs whole programs: measured, published, or by its generation.

The speed of a core is known, most reliable first, from

- ``signature.core_score`` of the platform file;
- the score of its processor model in the catalogue (``processors.json``);
- the scores of other models of the same core, in proportion to the clock;
- the trend of scores per clock over the years, where no model of that core has a score.

``deviation`` is the standard error of the log of the speed. ``python -m lab cpus`` prints the
errors that the constants of this module come from: each scored model is estimated without its own
score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import lru_cache
from statistics import fmean, median

import numpy as np

from berth.pilot.platform import CoreScore, Platform
from berth.predictor.hardware.processor import (
    Core,
    Processor,
    core_named,
    cores,
    find_processor,
    processors,
)

SAME_CORE_DEVIATION = 0.12
"""Standard error of the log speed of a core that other scored models have: clocks under load,
caches and memory differ."""
TREND_DEVIATION = 0.23
"""The same by the trend of scores per clock over the years."""


def core_score(platform: Platform) -> CoreScore | None:
    """Return the speed of one core of a CPU platform; None: nothing tells."""
    if platform.is_gpu:
        return None
    if platform.signature.core_score is not None:
        return platform.signature.core_score
    return _catalogued(platform.processor or platform.name)


@lru_cache(maxsize=1024)
def _catalogued(name: str) -> CoreScore | None:
    """Return the speed of one core of the processor with this name; None: an unknown name."""
    processor = find_processor(name)
    if processor is not None:
        return processor.score or estimated_score(
            cores()[processor.core], processor.boost_hz, processors().values()
        )
    core = core_named(name)
    if core is None:
        return None
    of_core = [p.boost_hz for p in processors().values() if p.core == core.name]
    return estimated_score(core, median(of_core), processors().values())


def estimated_score(core: Core, boost_hz: float, among: Collection[Processor]) -> CoreScore:
    """Return the speed of a core at a clock, from the scores of the processor models ``among``."""
    scored = [(p, score) for p in among if (score := p.score) is not None]
    same = [(p, score) for p, score in scored if p.core == core.name]
    if same:
        integer, floating = (
            fmean(math.log(value(score) / p.boost_hz) for p, score in same) for value in _PARTS
        )
        return _score(core, boost_hz, integer, floating, SAME_CORE_DEVIATION)
    years = np.array([cores()[p.core].year for p, _ in scored], dtype=np.float64)
    trends = []
    for value in _PARTS:
        per_clock = [math.log(value(score) / p.boost_hz) for p, score in scored]
        slope, level = np.polyfit(years, per_clock, 1)
        trends.append(float(level + slope * core.year))
    return _score(core, boost_hz, trends[0], trends[1], TREND_DEVIATION)


def _integer(score: CoreScore) -> float:
    return score.integer


def _floating_point(score: CoreScore) -> float:
    return score.floating_point


_PARTS: tuple[Callable[[CoreScore], float], ...] = (_integer, _floating_point)


def _score(
    core: Core, boost_hz: float, integer: float, floating: float, deviation: float
) -> CoreScore:
    return CoreScore(
        integer=boost_hz * math.exp(integer),
        floating_point=boost_hz * math.exp(floating),
        source=f"estimated for the core {core.name} at {boost_hz / 1e9:.2f} GHz",
        deviation=deviation,
    )
