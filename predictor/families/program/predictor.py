"""Predict a program's time, memory and energy on platforms from its Profile.

``Predictor`` is the public entry point of this package. It loads a bundle once. Predicting one
profile on all platforms then takes a few numpy operations and one ONNX call per labelled platform
(a platform for which the bundle has measured times).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.family import Answer
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis, Bound, Prediction, PredictionCurve
from berth.predictor.core.sizes import SizeGrowth, growth_to, memory_on, ran_on_gpu
from berth.predictor.families.program import bundle as bundles
from berth.predictor.families.program.between_cpus import Shares, TypicalShares
from berth.predictor.families.program.bundle import Bundle
from berth.predictor.families.program.estimate import (
    Estimate,
    Layout,
    Reading,
    estimate,
    moved_between_cpus,
    read,
)
from berth.predictor.families.program.time_only import (
    combined,
    is_time_only,
    mispredicts_per_instruction,
    stand_ins,
)
from berth.predictor.families.program.work import busy_cores, run_s
from berth.predictor.hardware.ceilings import Ceilings, Point, core_grid
from berth.predictor.hardware.same_hardware import same_as, same_hardware

WIDEST_USEFUL_FACTOR = 20.0
"""Largest useful interval: Berth abstains if its upper end exceeds this many times the predicted
time."""
LEAST_BUSY = 0.5
"""Average number of busy cores below which a program is considered to be mostly waiting."""
LEAST_JUDGED_S = 0.1
"""Shortest run time in seconds for which ``LEAST_BUSY`` is checked.

A shorter run is mostly program start, which waits for files.
"""


class Predictor:
    """Predictor of programs with one bundle. Immutable after loading; safe to share between
    threads."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    @classmethod
    def load(cls, folder: Path | None = None) -> Predictor:
        """Return a predictor with the bundle in ``folder``, verified; None: the shipped bundle.

        Raises DocumentError if the bundle is missing or invalid.
        """
        return cls(bundles.load(bundles.DEFAULT_BUNDLE if folder is None else folder))

    @property
    def bundle_id(self) -> str:
        """Return the digest of the loaded program bundle."""
        return self._bundle.id

    @property
    def bundle(self) -> Bundle:
        """Return the loaded program bundle."""
        return self._bundle

    def predict(
        self,
        profile: Profile,
        platform: Platform,
        *,
        reference: Platform | None = None,
        cores: int | None = None,
        gpus: int = 1,
    ) -> Prediction:
        """Return the prediction of one profile on one platform.

        ``cores=None``: as many as the program can use. ``reference`` is the platform that the
        profile was measured on; without it, the prediction is not scaled to the measured time and
        abstains. Raises UsageError for a profile without run time or counters.
        """
        units = gpus if platform.is_gpu else cores or usable_cores(profile, platform)
        return self.predict_points(profile, [Point(platform, units)], reference=reference)[0]

    def predict_all(
        self, profile: Profile, platforms: Iterable[Platform], reference: Platform | None = None
    ) -> list[Prediction]:
        """Return one prediction per platform, each with as many cores as the program can use."""
        points = [Point(p, 1 if p.is_gpu else usable_cores(profile, p)) for p in platforms]
        return self.predict_points(profile, points, reference=reference)

    def answer(
        self, profile: Profile, platforms: Mapping[str, Platform], reference: Platform | None
    ) -> Answer:
        """Return predictions of a program by platform, over core counts.

        ``reference`` is the platform that the profile was measured on. None: predictions are not
        scaled to the measured time and abstain.
        """
        points = [Point(p, units) for p in platforms.values() for units in _grid(profile, p)]
        predictions = self.predict_points(profile, points, reference=reference)
        curves: dict[str, list[Prediction]] = {name: [] for name in platforms}
        for prediction in predictions:
            curves[prediction.platform].append(prediction)
        return Answer(
            bundle=self.bundle_id,
            curves={name: PredictionCurve(tuple(points)) for name, points in curves.items()},
            sizes=size_growth(profile),
            reference_s=profile.runtime.median_s if profile.runtime else None,
        )

    def predict_points(
        self, profile: Profile, points: Sequence[Point], *, reference: Platform | None = None
    ) -> list[Prediction]:
        """Return one prediction per point (platform and number of cores or GPUs), in order of the
        points."""
        layout, growth = self.layout(profile, points, reference), _own_size(profile)
        if is_time_only(profile):
            readings = self._uncounted(profile, layout)
            estimates = combined([estimate(each, layout, self._bundle) for each in readings])
            reading = readings[0]
            doubts = dict.fromkeys(_names(points), _doubt(profile, reference))
            launches = layout.table.fork_s
        else:
            reading = self.read(profile, layout)
            estimates, launches = estimate(reading, layout, self._bundle), reading.roofs.launches
            doubts = self._doubts(reading, points, reference)
        predictions = [
            _prediction(
                reading,
                point,
                point_estimate,
                index=index,
                growth=growth,
                launch_s=float(launches[index]),
                ran_on=reference,
                doubt=doubts[point.platform.name] or _crowded(profile, point),
            )
            for index, (point, point_estimate) in enumerate(zip(points, estimates, strict=True))
        ]
        if is_time_only(profile):
            return [replace(prediction, bound=Bound.UNKNOWN) for prediction in predictions]
        return predictions

    def layout(
        self, profile: Profile, points: Sequence[Point], reference: Platform | None
    ) -> Layout:
        """Return a table of peak rates for these points, the reference run and the labelled
        platforms.

        ``reference``: None where the platform that the profile was measured on is unknown. The
        bundle's first labelled platform of the kind (CPU, GPU) that it ran on is assumed then.
        """
        runs_on, labelled = profile.runs_on, self._bundle.manifest.labelled
        platforms = {point.platform.name: point.platform for point in points}
        labels = {entry.platform: entry.hardware for entry in labelled}
        assumed = min(labels.values(), key=lambda p: p.is_gpu != ran_on_gpu(profile))
        reference = reference or platforms.get(profile.platform)
        home = reference or assumed
        own = [Point(entry.hardware, entry.cores or entry.gpus) for entry in labelled]
        cpus = [Point(platform, 1) for platform in platforms.values() if not platform.is_gpu]
        run = Point(home, runs_on.threads * runs_on.ranks)
        table = Ceilings.of([*points, run, Point(home, 1), *own, *cpus])
        first = len(points) + 2
        return Layout(
            table=table,
            count=len(points),
            reference=len(points),
            reference_core=len(points) + 1,
            assumed=reference is None,
            labelled={p.platform.name: first + i for i, p in enumerate(own)},
            at_home=frozenset(
                name
                for name, platform in platforms.items()
                if name == profile.platform
                # Times measured on the platform itself tell more than an equal signature.
                or (name not in labels and reference and same_hardware(platform, reference))
            ),
            labels_of={
                name: same.name
                for name, platform in platforms.items()
                if (same := same_as(platform, labels.values())) is not None
            },
            one_core={p.platform.name: first + len(own) + i for i, p in enumerate(cpus)},
            typical=TypicalShares.on(table),
        )

    def between_cpus(
        self, profile: Profile, point: Point, reference: Platform, share_weight: float
    ) -> float:
        """Return the log of seconds predicted at a point of a CPU from the program's own time on
        another CPU and the speeds of the cores, without any label of the CPU."""
        layout = self.layout(profile, [point], reference)
        readings = (
            self._uncounted(profile, layout)
            if is_time_only(profile)
            else [self.read(profile, layout)]
        )
        return statistics.median(
            moved_between_cpus(r, Shares.of(r.roofs), layout, 0, share_weight).log_time
            for r in readings
        )

    def _uncounted(self, profile: Profile, layout: Layout) -> list[Reading]:
        """Return readings of a profile without counters, with those of each kernel of the suite."""
        mispredicts = mispredicts_per_instruction(profile)
        return [
            replace(self.read(other, layout), counted=False, mispredicts=mispredicts)
            for other in stand_ins(profile)
        ]

    def read(self, profile: Profile, layout: Layout) -> Reading:
        """Return the profile with its work and with roofline times at the points of ``layout``.

        Raises UsageError for a profile without run time or counters.
        """
        if profile.runtime is None:
            raise UsageError(
                f"profile {profile.name!r} has no runtime",
                hint="pilot it again; only a run that finished can be predicted from",
            )
        typical = self._bundle.manifest.typical_log_efficiency
        return read(profile, profile.runtime.median_s, layout, typical)

    def _doubts(
        self, reading: Reading, points: Sequence[Point], reference: Platform | None
    ) -> dict[str, str | None]:
        """Return by platform name why its predictions should not be acted on; None: no reason."""
        names = _names(points)
        if (why := _doubt(reading.profile, reference)) is not None:
            return dict.fromkeys(names, why)
        values = reading.work_features
        general = self._bundle.range_check.unlike(values)
        own = self._bundle.own_ranges
        return {name: own[name].unlike(values) if name in own else general for name in names}


def _doubt(profile: Profile, reference: Platform | None) -> str | None:
    """Return why predictions on any platform should not be acted on; None: no reason."""
    return (
        _incomplete(profile)
        or _undescribed(profile, reference)
        or _elsewhere(profile, reference)
        or _waiting(profile, reference)
    )


def _undescribed(profile: Profile, reference: Platform | None) -> str | None:
    """Return a sentence if the platform that the profile was measured on is unknown; None:
    it is known."""
    if reference is not None:
        return None
    return (
        f"it was measured on {profile.platform!r}, of which there is no platform file: how fast "
        "that is was assumed (berth pilot bench makes one)"
    )


def _names(points: Sequence[Point]) -> list[str]:
    """Return the names of the points' platforms, without duplicates."""
    return list(dict.fromkeys(point.platform.name for point in points))


def _waiting(profile: Profile, reference: Platform | None) -> str | None:
    """Return a sentence if the program mostly waits for something other than a processor; None: no.

    A faster processor hardly changes the run time of such a program.
    """
    runs_on, took = profile.runs_on, run_s(profile)
    busy = busy_cores(profile, reference)
    if busy is None or took is None or runs_on.gpus or runs_on.ranks > 1:
        return None
    if took < LEAST_JUDGED_S or busy >= LEAST_BUSY:
        return None
    return f"it computed for {busy:.0%} of its time, and how long it waits elsewhere is not known"


def _incomplete(profile: Profile) -> str | None:
    """Return a sentence if the pilot run failed or was cut short; None: the run completed."""
    failed = not profile.complete or profile.exit_status != 0
    return "the pilot run did not complete" if failed else None


def _crowded(profile: Profile, point: Point) -> str | None:
    """Return a sentence if several MPI ranks would have to share a core; None: each rank has a
    core.

    A rank that busy-waits keeps the other ranks on its core from running.
    """
    ranks = profile.runs_on.ranks
    if point.platform.is_gpu or point.units >= ranks:
        return None
    cores = "1 core" if point.units == 1 else f"{point.units} cores"
    return f"its {ranks} ranks would share {cores}, and ranks that wait keep a core busy"


def _elsewhere(profile: Profile, reference: Platform | None) -> str | None:
    """Return a sentence if the pilot ran on another processor model than its stated platform has.

    None: the processors are the same, or one of them is unknown.
    """
    origin = profile.provenance
    if reference is None or origin.imported is not None:
        return None
    ran_on, expected = (
        " ".join(processor.split()) for processor in (origin.host_cpu, reference.processor or "")
    )
    if not ran_on or not expected or ran_on == expected:
        return None
    return f"it ran on {ran_on}, but platform {reference.name!r} is {expected}: pilot it there"


def _grid(profile: Profile, platform: Platform) -> list[int]:
    """Return the core counts of a platform to predict for, ascending; a GPU platform gets ``[1]``.

    These are the usual counts, and those that the program was run with.
    """
    if platform.is_gpu:
        return [1]
    runs_on = profile.runs_on
    own = {runs_on.ranks, runs_on.ranks * runs_on.threads}
    return sorted({*core_grid(platform), *(n for n in own if n <= platform.cores)})


def usable_cores(profile: Profile, platform: Platform) -> int:
    """Return the number of cores that the program would use on ``platform``.

    All cores if the profile has measured scaling, else at most the declared threads x ranks.
    """
    if len({p.threads for p in profile.scaling}) >= 2:
        return platform.cores
    return max(1, min(platform.cores, profile.runs_on.threads * profile.runs_on.ranks))


def at_size(prediction: Prediction, profile: Profile, size: float | None) -> Prediction:
    """Return the prediction for another problem size, by the growth measured in the profile.

    Time, energy and memory are scaled; the speedup stays, because nothing is known of its change.
    """
    sizes = size_growth(profile)
    if size is None or sizes.memory_bytes() is None:
        return prediction
    growth, energy = growth_to(sizes, size), prediction.energy_j
    return replace(
        prediction,
        runtime_s=growth.runtime(prediction.runtime_s, prediction.launch_s),
        energy_j=None if energy is None else energy.times(growth.time),
        memory=growth.memory(prediction.memory),
    )


def size_growth(profile: Profile) -> SizeGrowth:
    """Return how run time and memory grow with the problem size, fitted to the profile's runs."""
    return SizeGrowth.fit(
        _size_points(profile),
        size=profile.workload.size,
        peak_memory_bytes=profile.peak_memory_bytes,
        bounds=_bounds(profile),
        gpu_peak_bytes=_gpu_peak(profile),
    )


def size_doubt(profile: Profile, size: float | None) -> str | None:
    """Return a warning about a prediction at problem size ``size``; None: no warning.

    Always None for profiles of runs on several nodes, which have size checks of their own.
    """
    return None if profile.node_scaling else size_growth(profile).doubt(size)


def _own_size(profile: Profile) -> SizeGrowth:
    """Return how memory grows with the problem size, without fitting power laws.

    This is sufficient for the profile's own problem size, and much faster than ``size_growth``.
    """
    points = _size_points(profile)
    if profile.peak_memory_bytes is None and points:
        return size_growth(profile)
    sizes = tuple(point[0] for point in points)
    bound = bool(profile.peak_memory_is_bound)
    return SizeGrowth(
        profile.workload.size,
        profile.peak_memory_bytes,
        sizes,
        peak_is_bound=bound,
        gpu_peak_bytes=_gpu_peak(profile),
    )


def _gpu_peak(profile: Profile) -> float | None:
    """Return the peak memory of all GPUs together in bytes; None: not measured or reported as 0."""
    return profile.value("gpu_memory_bytes") or None


def _bounds(profile: Profile) -> set[float | None]:
    """Return the problem sizes whose memory peak is only an upper bound.

    None in the set stands for the run without a stated size.
    """
    own = {profile.workload.size} if profile.peak_memory_is_bound else set()
    return own | {point.size for point in profile.sizes if point.peak_memory_is_bound}


def _size_points(profile: Profile) -> list[tuple[float, float, float]]:
    """Return (problem size, run time in seconds, peak memory in bytes) of the profile's runs."""
    points = [(p.size, p.runtime_s, p.peak_memory_bytes) for p in profile.sizes]
    own, peak = profile.workload.size, profile.peak_memory_bytes
    if own and peak and profile.runtime and not any(math.isclose(own, p[0]) for p in points):
        points.append((own, profile.runtime.median_s, peak))
    return points


def _prediction(
    reading: Reading,
    point: Point,
    estimated: Estimate,
    *,
    index: int,
    growth: SizeGrowth,
    launch_s: float,
    ran_on: Platform | None,
    doubt: str | None,
) -> Prediction:
    platform, reference_s = point.platform, reading.run.runtime_s
    runtime = around(math.exp(estimated.log_time), estimated.log_width)
    abstained = None if estimated.basis is Basis.MEASURED else doubt
    if abstained is None and estimated.log_width > math.log(WIDEST_USEFUL_FACTOR):
        factor = math.exp(min(estimated.log_width, 50.0))
        abstained = f"the interval is too wide: a factor {factor:.0f} each way"
    share = 1.0 if platform.is_gpu else min(1.0, point.units / platform.cores)
    return Prediction(
        workload=reading.profile.name,
        platform=platform.name,
        cores=point.cores,
        gpus=point.gpus,
        basis=estimated.basis,
        speedup=runtime.over(reference_s),
        runtime_s=runtime,
        memory=memory_on(platform, reading.profile, growth, ran_on),
        energy_j=runtime.scaled(platform.power_w * share) if platform.power_w else None,
        bound=reading.roofs.bound(index),
        abstained=abstained,
        own_log_width=estimated.own_log_width,
        launch_s=launch_s,
    )
