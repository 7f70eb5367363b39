"""Makes platforms and a calibrated bundle from measurements of nodes."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.network.links import LinkMeasurement
from berth.pilot.node import NodeMeasurement
from berth.pilot.platform import Platform
from berth.predictor.core.prediction import Basis
from berth.predictor.families.program.bundle import Manifest
from berth.predictor.families.program.estimate import CALIBRATED_KERNELS
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.families.program.suite import suite_profiles, timed
from berth.predictor.hardware.ceilings import Allocation
from berth.predictor.learning.programs.columns import kernel_and_size

APART = 1.15
"""Nodes whose times differ from their type's by more than this factor are reported."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A type of node, with the measurements of some of its nodes."""

    platform: Platform
    """The measured platform of the median node, under the name of the node type."""
    seconds: Mapping[str, float]
    """Median time in seconds over the nodes, by kernel and size."""
    nodes: Mapping[str, float]
    """Each node's times divided by the node type's times: geometric mean over the kernels."""

    @property
    def kernels(self) -> int:
        """Return the number of kernels with a measured time; several sizes of one kernel count
        once."""
        return len({kernel[0] for name in self.seconds if (kernel := kernel_and_size(name))})

    @property
    def apart(self) -> tuple[str, ...]:
        """Return the nodes whose times differ from their type's by more than ``APART``, the most
        different first."""
        far = [n for n, ratio in self.nodes.items() if max(ratio, 1 / ratio) > APART]
        return tuple(sorted(far, key=lambda n: -abs(math.log(self.nodes[n]))))


@dataclass(frozen=True, slots=True)
class FitQuality:
    """How accurately a bundle predicts a platform, over the kernels of the suite."""

    factor: float
    """Median over the kernels of the upper end of the predicted time divided by the lower end."""
    basis: Basis


def measured(
    old: Platform, results: Sequence[NodeMeasurement], links: Sequence[LinkMeasurement] = ()
) -> Measured:
    """Return the combined results of one node type's nodes; there must be at least one.

    ``links``: measurements of the link between two of the nodes, newest first.
    """
    names = [name for name in suite_profiles() if any(name in r.seconds for r in results)]
    seconds = {
        name: statistics.median(r.seconds[name] for r in results if name in r.seconds)
        for name in names
    }
    ratios = {
        r.node: math.exp(
            statistics.fmean(math.log(r.seconds[n] / seconds[n]) for n in names if n in r.seconds)
        )
        for r in results
    }
    middle = min(results, key=lambda r: (abs(math.log(ratios[r.node])), r.node))
    if middle.platform is None:
        raise UsageError(f"the result of {middle.node} has no benchmark")
    usable = {
        "name": old.name,
        "price_per_hour": old.price_per_hour,
        "power_w": old.power_w,
        "idle_power_w": old.idle_power_w,
        "interconnect": links[0].interconnect if links else old.interconnect,
    }
    return Measured(middle.platform.model_copy(update=usable), seconds, ratios)


def learnt(
    source: Path,
    kinds: Sequence[Measured],
    reference: str,
    platforms: Mapping[str, Platform],
    folder: Path,
    *,
    command: str,
) -> Manifest:
    """Write the bundle ``source``, calibrated for every node type, to ``folder``; return its
    manifest.

    The other kinds are predicted from ``reference``, which is one of them; ``reference`` itself is
    predicted from the machine on which the suite's counters were measured. Raises UsageError.
    """
    from berth.predictor.learning.programs.adapt import adapt  # noqa: PLC0415 - rarely needed

    known = {**platforms, **{kind.platform.name: kind.platform for kind in kinds}}
    home = next(kind for kind in kinds if kind.platform.name == reference)
    shipped = suite_profiles()
    with tempfile.TemporaryDirectory(prefix="berth-calibrate-") as temporary:
        bundle = source
        for number, kind in enumerate([home, *(k for k in kinds if k is not home)], 1):
            there = timed(kind.platform.name, kind.seconds)
            names = {profile.name for profile in there}
            if kind is home:
                seen = [profile for name, profile in shipped.items() if name in names]
            else:
                seen = [p for p in timed(reference, home.seconds) if p.name in names]
                names = {profile.name for profile in seen}
            last = number == len(kinds)
            out = folder if last else Path(temporary) / f"step-{number}"
            manifest = adapt(
                bundle,
                [*seen, *(p for p in there if p.name in names)],
                kind.platform,
                known,
                out,
                command=command,
            )
            bundle = out
    return manifest


def qualities(
    bundle: Path,
    kinds: Mapping[str, Measured],
    reference: str,
    platforms: Mapping[str, Platform],
) -> dict[str, FitQuality]:
    """Return how accurately a bundle predicts the suite on one core or GPU of each platform: on
    CPUs as programs of which only the time is known.

    ``reference``: the measured kind of which the suite's times are taken. Nothing where the bundle
    cannot be read.
    """
    points = [Allocation(platform, 1) for platform in platforms.values()]
    cpus = [point for point in points if not point.platform.is_gpu]
    gpus = [point for point in points if point.platform.is_gpu]
    known = platforms.get(reference)
    spreads: defaultdict[str, list[tuple[float, Basis]]] = defaultdict(list)
    try:
        predictor = Predictor.load(bundle)
        for profile in timed(reference, kinds[reference].seconds):
            timed_only = profile.model_copy(update={"counters": {}})
            for point in (
                *predictor.predict_points(timed_only, cpus, reference=known),
                *predictor.predict_points(profile, gpus, reference=known),
            ):
                ratio = point.runtime_s.high / point.runtime_s.low
                spreads[point.platform].append((ratio, point.basis))
    except BerthError:
        return {}
    return {
        name: FitQuality(
            statistics.median(f for f, _ in rows), max((b for _, b in rows), key=lambda b: b.rank)
        )
        for name, rows in spreads.items()
    }


def enough(kind: Measured) -> bool:
    """Return whether enough kernels were measured for the node type to get its own prediction
    interval."""
    return kind.kernels >= CALIBRATED_KERNELS
