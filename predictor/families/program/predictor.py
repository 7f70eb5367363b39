"""Predict a program's time, memory and energy on platforms from its Profile.

``Predictor`` is the public entry point of this package. It loads a bundle once. Predicting one
profile on all platforms then takes a few numpy operations and one ONNX call per labelled platform
(a platform for which the bundle has measured times).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.pilot.units import MOST_SHOWN_FACTOR
from berth.predictor.core.family import FamilyForecast
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis, Bound, Prediction, PredictionCurve
from berth.predictor.core.program_memory import memory_on, ran_on_gpu
from berth.predictor.core.sizes import SizeGrowth
from berth.predictor.families.program import bundle as bundles
from berth.predictor.families.program.amdahl import cores_used
from berth.predictor.families.program.between_cpus import moved_between_cpus
from berth.predictor.families.program.bundle import ProgramBundle
from berth.predictor.families.program.doubts import (
    crowded,
    doubt_anywhere,
    private_arrays,
    waiting_share,
)
from berth.predictor.families.program.estimate import LogEstimate, estimate
from berth.predictor.families.program.problem_size import size_growth
from berth.predictor.families.program.reading import ProgramReading, RateTable, read
from berth.predictor.hardware.ceilings import Allocation, Ceilings, core_grid
from berth.predictor.hardware.same_hardware import same_as, same_hardware

WIDEST_USEFUL_FACTOR = 20.0
"""Largest useful interval: Berth abstains if its upper end exceeds this many times the predicted
time."""

NOT_KNOWN_LOG_WIDTH = math.log(2 * MOST_SHOWN_FACTOR)
"""Half width in log of a time of which nothing is known: it is shown as such."""


class Predictor:
    """Predictor of programs with one bundle. Immutable after loading; safe to share between
    threads."""

    def __init__(self, bundle: ProgramBundle) -> None:
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
    def bundle(self) -> ProgramBundle:
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
        units = gpus if platform.is_gpu else cores or usable_cores(profile, platform, reference)
        return self.predict_points(profile, [Allocation(platform, units)], reference=reference)[0]

    def answer(
        self, profile: Profile, platforms: Mapping[str, Platform], reference: Platform | None
    ) -> FamilyForecast:
        """Return predictions of a program by platform, over core counts.

        ``reference`` is the platform that the profile was measured on. None: predictions are not
        scaled to the measured time and abstain.
        """
        points = [
            Allocation(p, units)
            for p in platforms.values()
            for units in _grid(profile, p, reference)
        ]
        predictions = self.predict_points(profile, points, reference=reference)
        curves: dict[str, list[Prediction]] = {name: [] for name in platforms}
        for prediction in predictions:
            curves[prediction.platform].append(prediction)
        return FamilyForecast(
            bundle=self.bundle_id,
            curves={name: PredictionCurve(tuple(points)) for name, points in curves.items()},
            sizes=size_growth(profile),
            reference_s=profile.runtime.median_s if profile.runtime else None,
        )

    def predict_points(
        self, profile: Profile, points: Sequence[Allocation], *, reference: Platform | None = None
    ) -> list[Prediction]:
        """Return one prediction per point (platform and number of cores or GPUs), in order of the
        points."""
        layout, growth = self.layout(profile, points, reference), size_growth(profile)
        reading = self.read(profile, layout)
        estimates = estimate(reading, layout, self._bundle)
        launches = reading.roofs.launches if reading.counted else layout.table.fork_s
        doubts = self._doubts(reading, layout, points, reference)
        return [
            _prediction(
                reading,
                point,
                point_estimate,
                index=index,
                growth=growth,
                launch_s=float(launches[index]),
                ran_on=reference,
                doubt=doubts[point.platform.name],
                crowded=crowded(profile, point, layout.table.points[layout.reference]),
            )
            for index, (point, point_estimate) in enumerate(zip(points, estimates, strict=True))
        ]

    def layout(
        self, profile: Profile, points: Sequence[Allocation], reference: Platform | None
    ) -> RateTable:
        """Return a table of peak rates for these points, the reference run and the labelled
        platforms.

        ``reference``: None where the platform that the profile was measured on is unknown. The
        bundle's first labelled platform of the kind (CPU, GPU) that it ran on is assumed then.
        """
        labelled = self._bundle.manifest.labelled
        platforms = {point.platform.name: point.platform for point in points}
        labels = {entry.platform: entry.hardware for entry in labelled}
        assumed = min(labels.values(), key=lambda p: p.is_gpu != ran_on_gpu(profile))
        reference = reference or platforms.get(profile.platform)
        home = reference or assumed
        own = [Allocation(entry.hardware, entry.cores or entry.gpus) for entry in labelled]
        cpus = [Allocation(platform, 1) for platform in platforms.values() if not platform.is_gpu]
        used, most = cores_used(profile, reference), home.cores * (profile.runs_on.nodes or 1)
        run = Allocation(home, used if home.is_gpu else min(used, most))
        table = Ceilings.of([*points, run, Allocation(home, 1), *own, *cpus])
        first = len(points) + 2
        return RateTable(
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
            home=(same_as(home, labels.values()) or home).name,
            one_core={p.platform.name: first + len(own) + i for i, p in enumerate(cpus)},
        )

    def between_cpus(self, profile: Profile, point: Allocation, reference: Platform) -> float:
        """Return the log of seconds predicted at a point of a CPU from the program's own time on
        another CPU and the speeds of the cores, without any label of the CPU."""
        layout = self.layout(profile, [point], reference)
        return moved_between_cpus(self.read(profile, layout), layout, 0).log_time

    def read(self, profile: Profile, layout: RateTable) -> ProgramReading:
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
        self,
        reading: ProgramReading,
        layout: RateTable,
        points: Sequence[Allocation],
        reference: Platform | None,
    ) -> dict[str, str | None]:
        """Return by platform name why its predictions should not be acted on; None: no reason."""
        names = _names(points)
        if (why := doubt_anywhere(reading.profile, reference)) is not None:
            return dict.fromkeys(names, why)
        on_cpu = {point.platform.name for point in points if layout.is_between_cpus(point)}
        if waits := waiting_share(reading.profile, reference):
            why = f"it computed for {1 - waits:.0%} of its time, and how long it waits is not known"
            return {name: None if name in on_cpu else why for name in names}
        if not reading.counted:
            return dict.fromkeys(names)
        general = self._bundle.range_check.unlike(reading.work_features)
        private = private_arrays(reading.work)
        labelled = {entry.platform for entry in self._bundle.manifest.labelled}
        return {
            name: None if name in on_cpu else general or (None if name in labelled else private)
            for name in names
        }


def _names(points: Sequence[Allocation]) -> list[str]:
    return list(dict.fromkeys(point.platform.name for point in points))


def _grid(profile: Profile, platform: Platform, reference: Platform | None) -> list[int]:
    """Return the core counts of a platform to predict for, ascending; a GPU platform gets ``[1]``.

    These are the usual counts, and those that the program was run with.
    """
    if platform.is_gpu:
        return [1]
    runs_on = profile.runs_on
    own = {runs_on.ranks, runs_on.ranks * runs_on.threads, cores_used(profile, reference)}
    return sorted({*core_grid(platform), *(n for n in own if n <= platform.cores)})


def usable_cores(profile: Profile, platform: Platform, reference: Platform | None = None) -> int:
    """Return the number of cores that the program would use on ``platform``.

    All cores if the profile has measured scaling, else at most those that its run used.
    """
    if len({p.threads for p in profile.scaling}) >= 2:
        return platform.cores
    return max(1, min(platform.cores, cores_used(profile, reference)))


def too_wide(log_width: float) -> str:
    """Return the sentence on an interval with this half width in log, in which nobody can act."""
    if log_width > math.log(MOST_SHOWN_FACTOR):
        return f"its time there is not known to within a factor of {MOST_SHOWN_FACTOR:.0f}"
    return f"the interval is too wide: a factor {math.exp(log_width):.0f} each way"


def _prediction(
    reading: ProgramReading,
    point: Allocation,
    estimated: LogEstimate,
    *,
    index: int,
    growth: SizeGrowth,
    launch_s: float,
    ran_on: Platform | None,
    doubt: str | None,
    crowded: str | None,
) -> Prediction:
    platform, reference_s = point.platform, reading.runtime_s
    log_width = estimated.log_width
    abstained = None if estimated.basis is Basis.MEASURED else doubt or crowded
    if abstained is not None and crowded is not None:
        log_width = NOT_KNOWN_LOG_WIDTH
    if abstained is None and log_width > math.log(WIDEST_USEFUL_FACTOR):
        abstained = too_wide(log_width)
    runtime = around(math.exp(estimated.log_time), log_width)
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
        bound=reading.roofs.bound(index) if reading.counted else Bound.UNKNOWN,
        abstained=abstained,
        own_log_width=None if log_width > estimated.log_width else estimated.own_log_width,
        launch_s=launch_s,
    )
