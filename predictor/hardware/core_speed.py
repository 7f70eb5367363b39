"""How fast one core of a platform runs whole programs: measured, published, or by its generation.

The speed of a core is known, most reliable first, from

- ``signature.core_score`` of the platform file;
- the score of its processor model in the catalogue (``processors.json``);
- the scores of other models of the same core, in proportion to the clock;
- the trend of scores per clock over the years, where no model of that core has a score;
- Berth's own benchmark kernels, where nobody says which processor it is (virtual machines).

``deviation`` is the standard error of the log of the speed. ``python -m lab cpus`` prints the
errors that the constants of this module come from: each scored model is estimated without its own
score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import lru_cache
from statistics import fmean, linear_regression, median

from berth.pilot.platform import CoreScore, Platform, Signature
from berth.predictor.hardware import platforms
from berth.predictor.hardware.processor import (
    Microarchitecture,
    Processor,
    core_named,
    cores,
    find_processor,
    nearest_processors,
    processors,
    simplified_model,
    tells_only_core,
)

SAME_CORE_DEVIATION = 0.12
"""Standard error of the log speed of a core that other scored models have: clocks under load,
caches and memory differ."""
TREND_DEVIATION = 0.23
"""The same by the trend of scores per clock over the years."""
BENCHMARK_DEVIATION = 0.2
"""Standard error of the log ratio of core speeds by Berth's own benchmark kernels."""
LEAST_COMMON_KERNELS = 8
"""Benchmark kernels that two platforms need for a ratio of core speeds."""
MOST_BESIDE_CLOCK = math.log(4.0)
"""Largest difference, in log, of that ratio from the ratio of the clocks; more: the kernels' times
are of a machine that did other work."""
BENCHMARKED_PLATFORM = "epyc-genoa-vm"
"""Shipped platform with benchmark kernels and a score, which others are compared with."""


def core_score(platform: Platform) -> CoreScore | None:
    """Return the speed of one core of a CPU platform; None: nothing tells."""
    if platform.is_gpu:
        return None
    signature = platform.signature
    named = platform.processor or platform.name
    if find_processor(named) is None and tells_only_core(named):
        return signature.core_score or _benchmarked(signature) or _catalogued(named)
    return signature.core_score or _catalogued(named) or _benchmarked(signature)


def core_speed_doubt(platform: Platform) -> str | None:
    """Return a sentence where the speed of a CPU platform's cores is estimated or unknown; None: it
    is a GPU, or the speed was measured."""
    score = core_score(platform)
    if platform.is_gpu or (score is not None and not score.deviation):
        return None
    named = platform.processor or platform.name
    unlisted = ""
    if find_processor(named) is None:
        near = nearest_processors(named) if simplified_model(named, brands=False) else ()
        unlisted = f"the catalogue has no processor {named!r}"
        unlisted += f" (did you mean {' or '.join(near)}?)" if near else ""
    if score is None:
        return f"nothing tells how fast its cores are: {unlisted}, and no benchmark was run there"
    known_within = f"the speed of its cores is known within {score.deviation:.0%} ({score.source})"
    return f"{unlisted}; {known_within}" if unlisted else known_within


def benchmarked_log_ratio(ours: Signature, theirs: Signature) -> float | None:
    """Return the log of the time on a core of ``theirs`` over that on a core of ``ours``, by the
    benchmark kernels that both ran on one thread; None: too few kernels are common, or their times
    are far from what the clocks say."""
    common = [
        math.log(theirs.kernel_times_s[name] / seconds)
        for name, seconds in ours.kernel_times_s.items()
        if name.endswith("x1") and name in theirs.kernel_times_s
    ]
    if len(common) < LEAST_COMMON_KERNELS:
        return None
    log_ratio = fmean(common)
    clocks = ours.scalar_chain_core_per_s, theirs.scalar_chain_core_per_s
    if clocks[0] and clocks[1]:
        by_clock = math.log(clocks[0] / clocks[1])
        return log_ratio if abs(log_ratio - by_clock) <= MOST_BESIDE_CLOCK else None
    return log_ratio


def _benchmarked(signature: Signature) -> CoreScore | None:
    """Return the speed of a core by its benchmark kernels; None: too few were run."""
    compared_with = platforms.shipped()[BENCHMARKED_PLATFORM].signature
    score, log_ratio = compared_with.core_score, benchmarked_log_ratio(compared_with, signature)
    if score is None or log_ratio is None:
        return None
    return CoreScore(
        integer=score.integer * math.exp(-log_ratio),
        floating_point=score.floating_point * math.exp(-log_ratio),
        source=f"Berth's benchmark kernels, compared with {BENCHMARKED_PLATFORM}",
        deviation=math.hypot(score.deviation, BENCHMARK_DEVIATION),
    )


@lru_cache(maxsize=1024)
def _catalogued(name: str) -> CoreScore | None:
    """Return the speed of one core of the processor with this name; None: an unknown name."""
    processor = find_processor(name)
    if processor is not None:
        return processor_score(processor)
    core = core_named(name)
    if core is None:
        return None
    of_core = [p.boost_hz for p in processors().values() if p.core == core.name]
    return estimated_score(core, median(of_core), processors().values())


def processor_score(processor: Processor) -> CoreScore:
    """Return the speed of one core of a processor model, published or estimated."""
    core = cores()[processor.core]
    return processor.score or estimated_score(core, processor.boost_hz, processors().values())


def estimated_score(
    core: Microarchitecture, boost_hz: float, among: Collection[Processor]
) -> CoreScore:
    """Return the speed of a core at a clock, from the scores of the processor models ``among``."""
    scored = [(p, score) for p in among if (score := p.score) is not None]
    same = [(p, score) for p, score in scored if p.core == core.name]
    if same:
        integer, floating = (
            fmean(math.log(value(score) / p.boost_hz) for p, score in same) for value in _PARTS
        )
        return _score(core, boost_hz, integer, floating, SAME_CORE_DEVIATION)
    years = [float(cores()[p.core].year) for p, _ in scored]
    trends = []
    for value in _PARTS:
        per_clock = [math.log(value(score) / p.boost_hz) for p, score in scored]
        slope, level = linear_regression(years, per_clock)
        trends.append(float(level + slope * core.year))
    return _score(core, boost_hz, trends[0], trends[1], TREND_DEVIATION)


def _integer(score: CoreScore) -> float:
    return score.integer


def _floating_point(score: CoreScore) -> float:
    return score.floating_point


_PARTS: tuple[Callable[[CoreScore], float], ...] = (_integer, _floating_point)


def _score(
    core: Microarchitecture, boost_hz: float, integer: float, floating: float, deviation: float
) -> CoreScore:
    return CoreScore(
        integer=boost_hz * math.exp(integer),
        floating_point=boost_hz * math.exp(floating),
        source=f"estimated for the core {core.name} at {boost_hz / 1e9:.2f} GHz",
        deviation=deviation,
    )
