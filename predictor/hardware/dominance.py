"""Find devices that are at least as good as others in every figure of their data sheets.

The relation is a partial order: reflexive, transitive, and antisymmetric up to equal figures. A
device whose data sheet lacks a figure that the other states is not at least as good, so no
result rests on an unknown figure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from berth.pilot.platform import Platform, Precision
from berth.predictor.hardware.device import DataSheet, Numbers
from berth.predictor.hardware.roofs import Roof
from berth.predictor.hardware.unit import Unit, unit_of

ALL = frozenset(Precision)


def dominates(
    a: DataSheet | Unit,
    b: DataSheet | Unit,
    precisions: Collection[Precision] = ALL,
    *,
    linked: bool = True,
) -> bool:
    """Return whether ``a`` is at least as good as ``b`` in every figure and runs the same software.

    The figures are memory size and bandwidth, L2 cache size, link rate, and the peaks of
    ``precisions`` (a precision without hardware units has the peak of the wider one that computes
    it). ``linked=False`` ignores the link rate, for work on a single device. Slices have their
    share of the GPU's figures.
    """
    if a == b:
        return True
    first, second = figures(a, precisions, linked=linked), figures(b, precisions, linked=linked)
    if not first or not second or _sheet(a).software != _sheet(b).software:
        return False
    return all(name in first and first[name] >= value for name, value in second.items())


def better_pairs(
    roofs: Sequence[Roof], platforms: Mapping[str, Platform], numbers: Numbers
) -> list[tuple[str, str]]:
    """Return all pairs (better, worse) of names of GPUs and slices at the precision ``numbers``.

    Compared are the data sheets' figures without the link rate, and the platforms' launch overhead
    and L2 cache rate.
    """
    compared_precisions = frozenset({Precision.FP32, numbers.precision})
    known = [(roof, unit_of(platforms[roof.platform], platforms)) for roof in roofs]
    places = [(roof, unit) for roof, unit in known if unit is not None]
    order = {
        (a.platform, b.platform)
        for a, ours in places
        for b, theirs in places
        if a is not b
        and (a.launch_s <= b.launch_s and a.l2_bytes >= b.l2_bytes)
        and dominates(ours, theirs, compared_precisions, linked=False)
    }
    return sorted(pair for pair in order if pair[::-1] not in order)


def figures(
    place: DataSheet | Unit, precisions: Collection[Precision] = ALL, *, linked: bool = True
) -> Mapping[str, float]:
    """Return the figures that ``dominates`` compares, by name.

    The result is empty where memory or peaks were not published.
    """
    share, peaks = (place.share, place.peaks) if isinstance(place, Unit) else (1.0, place.peaks)
    if peaks is None or place.memory_bytes is None or place.bytes_per_s is None:
        return {}
    compared = {
        "memory": place.memory_bytes,
        "bandwidth": place.bytes_per_s,
        "l2": place.l2_bytes,
        "link": _sheet(place).link_bytes_per_s if linked and share >= 1 else None,
    }
    stated = {name: value for name, value in compared.items() if value is not None}
    reached = peaks.attainable
    return stated | {p.value: reached[p] * share for p in precisions if p in reached}


def _sheet(place: DataSheet | Unit) -> DataSheet:
    return place.sheet if isinstance(place, Unit) else place
