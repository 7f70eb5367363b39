"""How fast one core of a platform runs whole programs: measured, published, or by its core.

The speed of a core is known, most reliable first, from

- ``signature.core_score`` of the platform file (a site's own measurement);
- the measured score of its processor model (``core_scores.json``);
- the estimate of its microarchitecture, at the clock of the model or of its product line;
- Berth's own benchmark kernels, before the last where the name tells neither model nor clock
  (virtual machines), and where it tells nothing.

``deviation`` is the standard error of the log of the speed. ``python -m lab cpus`` prints the
errors with each scored model left out; ``lab/cpus/core_scores.py`` derives the estimates.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from pathlib import Path
from statistics import median

from pydantic import Field

from berth.pilot.documents import Document, read_json
from berth.pilot.platform import LIKE_PROGRAMS, CoreScore, Platform, Signature
from berth.pilot.profile import Name, Positive
from berth.predictor.hardware import platforms
from berth.predictor.hardware.processor import Processor
from berth.predictor.hardware.processor_names import (
    find_processor,
    known_processor,
    nearest_processors,
    simplified_model,
    tells_only_core,
)

SCORE_TABLE = Path(__file__).with_name("core_scores.json")
AT_HZ = 3e9
"""Clock of the scores of cores in the table."""
CLOCK_EXPONENT = 0.85
"""A core's speed grows with this power of its clock: main memory does not get faster with it. By
two Xeons of nearly one core at 1.7 and 3.3 GHz it is 0.8."""
MODEL_DEVIATION = 0.08
"""Standard error of a model's log speed around that of its core at its clock: clocks under load,
caches and memory differ."""
UNLISTED_DEVIATION = 0.08
"""The same by a clock that is only usual in the product line."""
BENCHMARK_DEVIATION = 0.2
"""Standard error of the log ratio of core speeds by Berth's own benchmark kernels."""
LEAST_COMMON_KERNELS = 8
"""Benchmark kernels that two platforms need for a ratio of core speeds."""
MOST_BESIDE_CLOCK = math.log(4.0)
"""Largest difference, in log, of that ratio from the ratio of the clocks; more: the kernels' times
are of a machine that did other work."""
BENCHMARKED_PLATFORM = "epyc-genoa-vm"
"""Shipped platform with benchmark kernels and a score, which others are compared with."""


class ScoredModel(Document):
    """What was measured of one core of a processor model."""

    name: Name
    integer: Positive
    floating_point: Positive


class ScoredCore(Document):
    """What is estimated of a microarchitecture at ``AT_HZ``, for all programs alike."""

    name: Name
    speed: Positive
    deviation: Positive
    """Standard error of the log of ``speed``."""


class CoreScores(Document):
    """The content of ``core_scores.json``: speeds relative to one core of an EPYC 7742."""

    schema_: str = Field(alias="schema")
    source: str
    measured: tuple[ScoredModel, ...]
    cores: tuple[ScoredCore, ...]

    def of(self, processor: Processor) -> CoreScore:
        """Return the speed of one core of a processor, measured or estimated."""
        listed = find_processor(processor.model) is not None
        known = next((m for m in self.measured if listed and m.name == processor.name), None)
        if known is not None:
            return CoreScore(
                integer=known.integer, floating_point=known.floating_point, source=self.source
            )
        core = next(c for c in self.cores if c.name == processor.core)
        speed = core.speed * (processor.boost_hz / AT_HZ) ** CLOCK_EXPONENT
        return CoreScore(
            integer=speed,
            floating_point=speed,
            source=f"estimated for the core {core.name} at {processor.boost_hz / 1e9:.2f} GHz",
            deviation=math.hypot(
                core.deviation, MODEL_DEVIATION, 0.0 if listed else UNLISTED_DEVIATION
            ),
        )


@cache
def core_scores() -> CoreScores:
    """Return the shipped scores."""
    return read_json(SCORE_TABLE, CoreScores)


def processor_score(processor: Processor) -> CoreScore:
    """Return the speed of one core of a processor model, measured or estimated."""
    return core_scores().of(processor)


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
        only_core = tells_only_core(named) or not simplified_model(named, brands=False)
        near = () if only_core else nearest_processors(named)
        unlisted = f"the catalogue has no processor {named!r}"
        unlisted += f" (did you mean {' or '.join(near)}?)" if near else ""
    if score is None:
        return f"nothing tells how fast its cores are: {unlisted}, and no benchmark was run there"
    known_within = f"the speed of its cores is known within {score.deviation:.0%} ({score.source})"
    return f"{unlisted}; {known_within}" if unlisted else known_within


def benchmarked_log_ratio(ours: Signature, theirs: Signature) -> float | None:
    """Return the log of the time on a core of ``theirs`` over that on a core of ``ours``: the
    median of the benchmark kernels that both ran on one thread, of those that are like programs
    where these are enough. None: too few are common, or their times are far from what the clocks
    say."""
    common = {
        name: math.log(theirs.kernel_times_s[name] / seconds)
        for name, seconds in ours.kernel_times_s.items()
        if name.endswith("x1") and name in theirs.kernel_times_s
    }
    like = [each for name, each in common.items() if name.startswith(LIKE_PROGRAMS)]
    chosen = like if len(like) >= LEAST_COMMON_KERNELS else list(common.values())
    if len(chosen) < LEAST_COMMON_KERNELS:
        return None
    log_ratio = median(chosen)
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
    processor = known_processor(name)
    return None if processor is None else processor_score(processor)
