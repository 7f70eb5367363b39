"""Tells whether two platform files describe the same hardware, whatever their names are.

A program runs equally fast on two platforms of the same hardware, so that its measured times and
a bundle's labels of one platform hold for the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from berth.pilot.platform import Platform, SignatureSource

SAME_RATE = math.log(1.1)
"""Largest difference of a rate, in natural log, between two benchmark runs on one processor model.
"""
EQUAL_RATE = math.log(1.001)
"""The same where a platform file does not name its processor, so that only the rates can tell."""


def same_hardware(first: Platform, second: Platform) -> bool:
    """Return whether two platforms have the same kind, processor, number of cores and rates.

    The name of the platform, its price and its power are not compared. Rates may differ by 10 %
    where both files name the same processor or accelerator, and by 0.1 % where a file names none.
    Rates by a rule of thumb are never those of the same hardware: many kinds of node share them.
    """
    if first is second:
        return True
    sources = first.signature.source, second.signature.source
    if SignatureSource.RULE_OF_THUMB in sources or _form(first) != _form(second):
        return False
    models = [_model(platform) for platform in (first, second)]
    if all(models) and models[0] != models[1]:
        return False
    most = SAME_RATE if all(models) else EQUAL_RATE
    pairs = zip(_rates(first), _rates(second), strict=True)
    return _same_score(first, second) and all(_close(a, b, most) for a, b in pairs)


def same_as(platform: Platform, others: Iterable[Platform]) -> Platform | None:
    """Return the first of ``others`` with the platform's hardware, one with its name before all
    others; None: no such platform."""
    same = [other for other in others if same_hardware(platform, other)]
    return min(same, key=lambda other: other.name != platform.name, default=None)


def _form(platform: Platform) -> tuple[object, ...]:
    return platform.kind, platform.architecture, platform.targets, platform.cores


def _model(platform: Platform) -> str:
    """Return the name of the processor or GPU model; empty: the platform file names none."""
    return " ".join((platform.accelerator or platform.processor or "").split())


def _rates(platform: Platform) -> Iterator[float | None]:
    """Yield the rates of the signature and the sizes of its caches; None: not measured."""
    signature = platform.signature
    yield signature.flops_f64_per_s
    yield signature.flops_f32_per_s
    yield signature.flops_f64_core_per_s
    yield signature.int_ops_core_per_s
    yield signature.scalar_chain_core_per_s
    yield signature.processor_share
    for name in ("l1", "l2", "l3", "dram"):
        level = signature.level(name)
        yield None if level is None else level.core_bytes_per_s
        yield None if level is None else level.total_bytes_per_s
        yield None if level is None or name == "dram" else level.capacity_bytes


def _same_score(first: Platform, second: Platform) -> bool:
    """Return whether no score of the cores' speed tells two platforms apart."""
    ours, theirs = first.signature.core_score, second.signature.core_score
    if ours is None or theirs is None:
        return True
    return _close(ours.integer, theirs.integer, SAME_RATE) and _close(
        ours.floating_point, theirs.floating_point, SAME_RATE
    )


def _close(first: float | None, second: float | None, most: float) -> bool:
    if first is None or second is None:
        return first is second
    return abs(math.log(first / second)) <= most
