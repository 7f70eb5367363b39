"""Predictions of the platforms that a site added, in place of the roofline's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from berth.pilot.platform import Platform
from berth.predictor.families.graph.latency.features import work_of
from berth.predictor.families.graph.latency.transfer.belief import Belief
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.roofline import Roofline, roofline
from berth.predictor.hardware.roofs import roof_of


def with_samples(
    found: Sequence[Roofline], graph: ModelGraph, belief: Belief, known: Mapping[str, Platform]
) -> list[Roofline]:
    """``found`` with the time, interval and basis of platforms that ``belief`` has samples of.

    On a CPU the time is of as many threads as the samples had.
    """
    work = work_of(graph)
    made = []
    for one in found:
        name = one.roof.platform
        if name in belief.samples:
            place = one.roof
            if name in belief.threads:
                place = roof_of(known[name], known, belief.threads[name])
            seconds = belief.seconds(work, place, one.numbers, max(graph.batch, 1))
            own = roofline(graph, place, one.numbers)
            made.append(
                replace(
                    own,
                    seconds=seconds,
                    basis=belief.basis(name),
                    source=f"{belief.samples[name]} runs measured on it",
                )
            )
        else:
            made.append(one)
    return sorted(made, key=lambda one: (not one.fits, one.seconds.mid, one.roof.platform))
