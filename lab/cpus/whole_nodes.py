"""Applications on whole nodes of CPUs that they never ran on, from a pilot on one core.

The measured times are the University of Bristol's (all cores of a node, other problem sizes than
the pilots'), so only the ratios of two nodes are judged. Nothing is fitted on these times. The
pilots are of one core; the applications are taken as fully parallel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from berth.pilot.profile import Profile, ScalingPoint, read_profiles
from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.hardware import platforms
from berth.predictor.hardware.by_sheet import platform_of_processor
from berth.predictor.hardware.ceilings import Allocation
from berth.predictor.hardware.processor import processors
from lab.datasets.machines import mini_apps

PROFILES = Path(__file__).with_name("data") / "whole_node_profiles.jsonl"
NODES = {
    "bdw": "broadwell-bdw",
    "skl": "skylake-8176",
    "cxl": "cascadelake-6248",
    "rome": "rome-7742",
    "tx2": "thunderx2",
    "graviton2": "graviton2",
    "a64fx": "a64fx",
    "power9": "power9",
}
"""Platform file of each node of the data set."""
APART = np.log(1.1)


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """Errors of one application over all pairs of nodes."""

    application: str
    method: str
    nodes: int
    right: int
    """Pairs in the right order, of those that differ by over 10 %."""
    told: int
    error: float
    """Median error of the ratio of two nodes' times, as a factor minus 1."""
    factor: float | None = None
    """Largest factor of the interval of a time."""
    coverage: float | None = None
    """Share of ratios inside their interval."""


def whole_nodes() -> list[NodeFigures]:
    """Return the errors of Berth and of the ratio of bandwidths. Raises ToolMissing."""
    times, known, predictor = mini_apps(), platforms.shipped(), Predictor.load()
    found = []
    for profile in read_profiles(PROFILES):
        home = platform_of_processor(processors()[profile.platform])
        seconds = times[profile.name]
        nodes = [name for name in NODES if name in seconds]
        there = [known[NODES[name]] for name in nodes]
        predictions = predictor.predict_points(
            parallel(profile), [Allocation(node, node.cores) for node in there], reference=home
        )
        truth = np.log([seconds[name] for name in nodes])
        guess = np.log([prediction.runtime_s.mid for prediction in predictions])
        widths = np.array([prediction.ratio_log_width for prediction in predictions])
        factor = max(p.runtime_s.high / p.runtime_s.mid for p in predictions)
        found.append(_figures(profile.name, "Berth", truth, guess, widths=widths, factor=factor))
        drams = [node.signature.level("dram") for node in there]
        rates = [level.total_bytes_per_s for level in drams if level is not None]
        found.append(_figures(profile.name, "ratio of bandwidths", truth, -np.log(rates)))
    return found


def parallel(profile: Profile) -> Profile:
    """Return the profile of a run on one core, as of a fully parallel program."""
    assert profile.runtime is not None  # noqa: S101 - of the files here
    own = profile.runtime.median_s
    points = tuple(ScalingPoint(threads=n, runtime_s=own / n) for n in (1, 2))
    return profile.model_copy(update={"scaling": points})


def _figures(
    application: str,
    method: str,
    truth: Floats,
    guess: Floats,
    *,
    widths: Floats | None = None,
    factor: float | None = None,
) -> NodeFigures:
    a, b = np.array(list(combinations(range(len(truth)), 2))).T
    actual, ratio = truth[a] - truth[b], guess[a] - guess[b]
    told = np.abs(actual) > APART
    off = np.abs(ratio - actual)
    inside = None if widths is None else float((off <= np.hypot(widths[a], widths[b])).mean())
    return NodeFigures(
        application,
        method,
        len(truth),
        int(((ratio * actual > 0) & told).sum()),
        int(told.sum()),
        float(np.expm1(np.median(off))),
        factor,
        inside,
    )
