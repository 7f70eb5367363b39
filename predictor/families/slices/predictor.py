"""Predict slow-downs on MIG slices with intervals, by the best method for the workload's
measurements.

Half the width of the interval of the log slow-down is ``q (0.1 - log(e)) + u``, where

- ``q``: 90 % quantile of scaled errors, on models left out of training (from the bundle);
- ``e``: effective share of the GPU, 0 to 1 (smaller slices are harder to predict; see ``physics``);
- ``u``: unsteadiness, ``|log(mean / median)|`` of the step time on the whole GPU (measured).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform, PlatformKind
from berth.predictor.core.arrays import Floats
from berth.predictor.core.prediction import Basis, Bound, Interval, MemoryUse
from berth.predictor.families.slices import sweep
from berth.predictor.families.slices.bundle import MethodEntry, SliceManifest
from berth.predictor.families.slices.equivalence import Curve
from berth.predictor.families.slices.latent import (
    SHARPNESS,
    LatentProcess,
    features,
    log_slowdowns,
    probed,
)
from berth.predictor.families.slices.physics import (
    EASE,
    SliceShare,
    launch_share,
    most_log_slowdown,
    plain_profiles,
    share_of,
)
from berth.predictor.families.slices.sweep import (
    MOST_MISFIT,
    Load,
    LoadModel,
    SeenProbe,
    can_fit,
    fit,
    probe_factor,
)
from berth.predictor.families.slices.workload import SliceProbe, SliceWorkload, WholeRun
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile
from berth.predictor.hardware.mig.slices import geometry_of, lookup, slice_of

SWEEP, BATCHES = "sweep", "batches"
"""Methods: a load model fitted to times over batches and processes; batch equivalence."""
TYPICAL = "typical"
"""Method for workloads of which only one time is known: the mean of the training models, as a
prior."""
UNKNOWN_SHARE = 1.25
"""Factor on the log interval for slice sizes whose effective share was not measured."""
UNKNOWN_GPU = 1.5
"""Factor on the log interval for GPU models whose slices were not measured."""
UNKNOWN_LOAD_WIDTH = 0.05
"""Half width added to the log interval where the load was not measured on the whole GPU."""
LEAST_SLOWDOWN = 0.9
"""Lower limit of intervals: no measured slice was faster than the whole GPU by more than noise."""
PROBE_HALF_WIDTH = 0.05
"""Half width of the 90 % interval of a measured log slow-down: 1.645 times ``PROBE_NOISE``."""
MEMORY_BOUND = 0.5
"""Share of the kernels' time with memory accesses from which on a workload counts as
memory-bound."""


Probes = Sequence[tuple[SliceShare, SliceProbe]]
"""A workload's runs on slices, with the slices' shares of the GPU."""


@dataclass(frozen=True, slots=True)
class SlicePrediction:
    """The prediction for one slice. Slow-downs are t_slice / t_whole (> 1: slower than the whole
    GPU)."""

    share: SliceShare
    """The slice's shares of the GPU's compute and memory slices."""
    slowdown: Interval
    """90 % interval of the slow-down."""
    step_s: Interval
    """90 % interval of the seconds per batch in one process on the slice."""
    whole_s: float
    """Seconds per batch in one process on the whole GPU: measured, or by the fitted load model."""
    bound: Bound
    launch_share: float
    """Share of the time on the slice that a larger slice would not shorten, 0 to 1."""
    basis: Basis
    method: str
    """Name of the method, as in the bundle's manifest."""
    abstained: str | None = None
    """Reason not to act on the prediction; None: no reason."""


@dataclass(frozen=True, slots=True)
class _SlowdownEstimate:
    """Log slow-downs of several slices by one method, before intervals are added."""

    name: str
    log_slowdown: Floats
    whole_s: float
    """Seconds per batch in one process on the whole GPU."""
    launch: Floats
    """Share of each slice's time that a larger slice would not shorten."""
    width: float
    extra: Floats
    """Half width added to each slice's log interval: unsteadiness, or an unmeasured load."""
    abstained: str | None
    measured: Mapping[SliceShare, float] = field(default_factory=dict)
    """Log slow-downs that were measured on slices at the load to predict."""
    accidents: Mapping[SliceShare, float] = field(default_factory=dict)
    """Those beyond what the hardware explains: they widen their own slice's interval only."""


@dataclass(frozen=True, slots=True)
class SlicePredictor:
    """Predictor of a workload's slow-down on slices of its GPU. Equal inputs give equal results."""

    model: SliceManifest

    def methods(self, workload: SliceWorkload) -> tuple[str, ...]:
        """Return the prediction methods that the workload's measurements allow, narrowest interval
        first."""
        names = [p.name for p in self.model.latents if _known(workload, p) is not None]
        batches = [p.batch for p in workload.points]
        processes = [p.processes for p in workload.points]
        if len(set(processes)) > 1 and can_fit(batches, processes):
            names.append(SWEEP)
        if Curve.of(workload.points, workload.processes) is not None:
            names.append(BATCHES)
        known = [entry for entry in self.model.methods if entry.name in names]
        return tuple(e.name for e in sorted(known, key=lambda entry: entry.width))

    def predict(
        self,
        workload: SliceWorkload,
        shares: Sequence[SliceShare],
        *,
        gpu: str,
        probes: Probes = (),
    ) -> tuple[SlicePrediction, ...]:
        """Return one prediction of a workload's slow-down per slice in ``shares``, in the same
        order.

        A slice on which the load was measured gets the measured slow-down, and bounds those of
        larger and smaller slices. No slow-down is predicted above its limit by the utilisation of
        the whole GPU. A run that was slower than the slice's share of the hardware explains is an
        accident (of memory, of the host): it says nothing about other slices, and its own slice's
        interval reaches from the prediction to it.

        - ``gpu``: canonical name of the GPU model;
        - ``probes``: the workload's runs on slices.

        The method is the one with the narrowest intervals. Raises UsageError if none is possible
        with the workload's measurements.
        """
        allowed = self.methods(workload)
        if not allowed:
            raise UsageError(
                f"{workload.name}: nothing was measured on the whole GPU at batch "
                f"{workload.target_batch:g} with {workload.processes} process(es)",
                hint="add that point (one process), or at least four loads with a range of 8",
            )
        name = allowed[0]
        effective = np.array([self.model.shares.effective(s) for s in shares])
        known = self._beyond(workload, probes)
        accidents = _measured(workload, known)
        probes = [one for one in probes if one not in known]
        by = {SWEEP: self._by_sweep, BATCHES: self._by_batches}
        entry = next(entry for entry in self.model.methods if entry.name == name)
        estimate = by.get(name, self._by_latent)(entry, workload, effective, probes)
        logs, point = np.maximum(estimate.log_slowdown, 0.0), workload.target
        if point is not None and point.sm_utilization is not None:
            most = [most_log_slowdown(point.sm_utilization, float(e)) for e in effective]
            logs = np.minimum(logs, most)
        estimate = replace(
            estimate,
            log_slowdown=_ordered(shares, logs),
            measured=_measured(workload, probes),
            accidents=accidents,
        )
        return tuple(
            self._finish(workload, gpu, share, estimate, i) for i, share in enumerate(shares)
        )

    def _by_latent(
        self, entry: MethodEntry, workload: SliceWorkload, effective: Floats, probes: Probes
    ) -> _SlowdownEstimate:
        process, point = self.model.latent(entry.name), workload.target
        known = None if process is None else _known(workload, process)
        if process is None or point is None or known is None:
            raise AssertionError("only asked where the process can answer")
        latent, width = process.latent(known), entry.width_at(workload.target_batch)
        at_target = {(point.batch, point.processes): point.seconds}
        seen = self._seen(probes, lambda *load: at_target.get(load))
        if seen and entry.probed is not None:
            logs = [probe.log_slowdown for probe in seen]
            at = [probe.effective for probe in seen]
            latent, width = probed(latent, logs, at, point.unsteadiness), entry.probed
        launch = np.array([launch_share(latent, float(e), SHARPNESS) for e in effective])
        return _SlowdownEstimate(
            entry.name, log_slowdowns(latent, effective), point.seconds, launch, width,
            np.full(len(effective), point.unsteadiness), process.outside(known),
        )  # fmt: skip

    def _by_batches(
        self, entry: MethodEntry, workload: SliceWorkload, effective: Floats, probes: Probes
    ) -> _SlowdownEstimate:
        """Return log slow-downs by batch equivalence, scaled by runs on slices."""
        curve = Curve.of(workload.points, workload.processes)
        if curve is None:
            raise AssertionError("only asked where there is a curve")
        batch = workload.target_batch
        width, factor = entry.width_at(batch), 1.0
        seen = self._seen(
            probes, lambda b, n: curve.whole_s(b) if n == workload.processes else None
        )
        if seen and entry.probed is not None:
            width = entry.probed
            factor = probe_factor(
                seen, lambda load, effective: curve.log_slowdowns(load.batch, effective)
            )
        point = workload.target
        extra = point.unsteadiness if point else UNKNOWN_LOAD_WIDTH
        return _SlowdownEstimate(
            entry.name,
            factor * curve.log_slowdowns(batch, effective),
            curve.whole_s(batch),
            curve.launch_shares(batch, effective),
            width,
            extra + curve.unsure(batch, effective),
            None,
        )

    def _by_sweep(
        self, entry: MethodEntry, workload: SliceWorkload, effective: Floats, probes: Probes
    ) -> _SlowdownEstimate:
        load_model, point = load_model_of(workload.points), workload.target
        batch, processes = workload.target_batch, workload.processes
        whole_s = load_model.whole_s(batch, processes) if point is None else point.seconds
        load = Load(batch, processes, None if point is None else math.log(whole_s))
        width, factor = entry.width_at(batch), 1.0
        measured = {(p.batch, p.processes): p.seconds for p in workload.points}
        seen = self._seen(probes, lambda *load: measured.get(load) or load_model.whole_s(*load))
        if seen and entry.probed is not None:
            width = entry.probed
            factor = probe_factor(seen, partial(sweep.log_slowdowns, load_model))
        ones = np.ones(len(effective))
        host, work = load_model.logs(batch * ones, processes * ones, effective)
        launch = 1 / (1 + np.exp(np.minimum(load_model.sharpness * (work - host), 700.0)))
        extra = 0.0 if point else UNKNOWN_LOAD_WIDTH
        unfit = None
        if load_model.misfit > MOST_MISFIT:
            unfit = (
                f"its times on the whole GPU follow no model of batches and processes "
                f"(off by {math.expm1(load_model.misfit):.0%})"
            )
        return _SlowdownEstimate(
            entry.name, factor * sweep.log_slowdowns(load_model, load, effective), whole_s, launch,
            width, extra * ones, unfit,
        )  # fmt: skip

    def _beyond(self, workload: SliceWorkload, probes: Probes) -> Probes:
        """Return the runs on slices that were slower than the slice's share explains, against the
        same load on the whole GPU."""
        whole = {(p.batch, p.processes): p.seconds for p in workload.points}
        return [
            (share, probe)
            for share, probe in probes
            if (alone := whole.get((probe.batch, probe.processes))) is not None
            and math.log(probe.seconds / alone) > share.most_log_slowdown + PROBE_HALF_WIDTH
        ]

    def _seen(
        self, probes: Probes, whole_s: Callable[[float, int], float | None]
    ) -> list[SeenProbe]:
        """Return the slow-downs of the workload's runs on slices, of those loads (batch size and
        processes) whose seconds per batch on the whole GPU ``whole_s`` knows."""
        seen = []
        for share, probe in probes:
            whole = whole_s(probe.batch, probe.processes)
            if whole is not None:
                load = Load(probe.batch, probe.processes, math.log(whole))
                effective = self.model.shares.effective(share)
                seen.append(SeenProbe(load, effective, math.log(probe.seconds / whole)))
        return seen

    def _finish(
        self,
        workload: SliceWorkload,
        gpu: str,
        share: SliceShare,
        estimate: _SlowdownEstimate,
        index: int,
    ) -> SlicePrediction:
        log, launch = float(estimate.log_slowdown[index]), float(estimate.launch[index])
        if share.is_whole:
            unity = Interval(1.0, 1.0, 1.0)
            return SlicePrediction(
                share, unity, unity.scaled(estimate.whole_s), estimate.whole_s,
                _bound(workload, launch), launch, Basis.MEASURED, estimate.name,
            )  # fmt: skip
        basis, wider = Basis.CALIBRATED, 1.0
        if not self.model.shares.knows(share):
            basis, wider = Basis.SCALED, UNKNOWN_SHARE
        smaller = [log for seen, log in estimate.measured.items() if seen.within(share)]
        larger = [log for seen, log in estimate.measured.items() if share.within(seen)]
        if gpu not in self.model.gpus:
            basis, wider = Basis.PRIOR, wider * UNKNOWN_GPU
        elif estimate.name == TYPICAL and not smaller:
            basis = Basis.PRIOR
        abstained = estimate.abstained
        if share in estimate.measured:
            basis, abstained = Basis.MEASURED, None
        hard = EASE - math.log(self.model.shares.effective(share))
        extra = float(estimate.extra[index])
        half = wider * (estimate.width * hard + extra)
        bounds = max(larger, default=-math.inf), min(smaller, default=math.inf)
        slowdown = _interval(log, half, *bounds)
        if share in estimate.accidents:
            accident = math.exp(estimate.accidents[share])
            slowdown = replace(slowdown, high=max(slowdown.high, accident))
        return SlicePrediction(
            share, slowdown, slowdown.scaled(estimate.whole_s), estimate.whole_s,
            _bound(workload, launch), launch, basis, estimate.name, abstained,
        )  # fmt: skip


def _known(workload: SliceWorkload, process: LatentProcess) -> dict[str, float] | None:
    """Return the workload's features by name; None if one that ``process`` needs is missing."""
    point = workload.target
    if point is None or (process.features and point.processes != 1):
        return None
    known = features(point.sm_utilization, point.memory_utilization)
    return known if all(name in known for name in process.features) else None


@lru_cache(maxsize=256)
def load_model_of(points: tuple[WholeRun, ...]) -> LoadModel:
    """Return the load model fitted to a workload's measurements on the whole GPU (cached)."""
    return fit(
        [p.batch for p in points], [p.processes for p in points], [p.seconds for p in points]
    )


def _ordered(shares: Sequence[SliceShare], logs: Floats) -> Floats:
    """Return log slow-downs raised so that no slice is faster than one with as much compute and
    memory."""
    return np.array(
        [
            max(float(log) for other, log in zip(shares, logs, strict=True) if share.within(other))
            for share in shares
        ]
    )


def _measured(workload: SliceWorkload, probes: Probes) -> dict[SliceShare, float]:
    """Return the measured log slow-down on each slice that ran the load to predict."""
    point = workload.target
    if point is None:
        return {}
    return {
        share: max(math.log(probe.seconds / point.seconds), 0.0)
        for share, probe in probes
        if (probe.batch, probe.processes) == (point.batch, point.processes)
    }


def _interval(log: float, half: float, least: float, most: float) -> Interval:
    """Return the slow-down ``exp(log)`` with an interval of half width ``half`` in log.

    ``least`` and ``most`` are log slow-downs that were measured on a larger and a smaller slice.
    """
    log = max(min(log, most), least)
    low = max(log - half, least - PROBE_HALF_WIDTH, math.log(LEAST_SLOWDOWN))
    high = max(min(log + min(half, 20.0), most + PROBE_HALF_WIDTH), log)
    return Interval(math.exp(min(low, log)), math.exp(log), math.exp(high))


def _bound(workload: SliceWorkload, launch: float) -> Bound:
    """Return what limits the workload on a slice: launches, memory accesses or compute.

    ``launch`` is the share of the time that a larger slice would not shorten.
    """
    if launch > 0.5:
        return Bound.LAUNCH
    point = workload.target
    if point is None or point.memory_utilization is None:
        return Bound.COMPUTE
    running = point.sm_utilization or 1.0
    return Bound.MEMORY if point.memory_utilization >= MEMORY_BOUND * running else Bound.COMPUTE


def predictions(
    workload: SliceWorkload, geometry: Geometry, predictor: SlicePredictor
) -> dict[str, SlicePrediction]:
    """Return a workload's predictions by MIG profile name, for the GPU's profiles without media
    variants.

    A slice with at least as much compute and memory as another is never slower. Raises UsageError
    if the workload was measured on another GPU model, if a probe does not name one of the GPU's
    profiles, or if no method is possible with the workload's measurements.
    """
    if lookup(workload.gpu).gpu != geometry.gpu:
        raise UsageError(
            f"{workload.name} was measured on {workload.gpu}, not on {geometry.gpu}",
            hint="measure it on the whole GPU that is to be sliced",
        )
    profiles = plain_profiles(geometry)
    probes = [(share_of(geometry, geometry.profile(p.profile)), p) for p in workload.probes]
    by_slice = predictor.predict(
        workload, [share_of(geometry, p) for p in profiles], gpu=geometry.gpu, probes=probes
    )
    return {p.name: prediction for p, prediction in zip(profiles, by_slice, strict=True)}


def memory_of(workload: SliceWorkload, geometry: Geometry) -> MemoryUse:
    """Return the workload's GPU memory as measured, and the memory of the smallest slice on which a
    load at least as large ran; without measured memory, at most that of the whole GPU."""
    held_in = [
        geometry.profile(probe.profile).memory_bytes
        for probe in workload.probes
        if probe.batch >= workload.target_batch and probe.processes >= workload.processes
    ]
    if workload.memory is None:
        held_in.append(max(p.memory_bytes for p in geometry.profiles))
    return MemoryUse(
        gpu_bytes=None if workload.memory is None else workload.memory.interval,
        gpu_held_in_bytes=float(min(held_in)) if held_in else None,
    )


def profiles_of(geometry: Geometry, platforms: Mapping[str, Platform]) -> dict[str, SliceProfile]:
    """Return the MIG profile of each platform that is a slice of this GPU model.

    A platform that is the whole GPU gets the largest profile; other platforms are absent.
    """
    plain = plain_profiles(geometry)
    plain_by_platform: dict[str, SliceProfile] = {}
    for name, platform in platforms.items():
        cut = slice_of(platform)
        if cut is not None and cut[0].gpu == geometry.gpu and cut[1] in plain:
            plain_by_platform[name] = cut[1]
        elif is_whole(geometry, platform):
            plain_by_platform[name] = plain[-1]
    return plain_by_platform


def is_whole(geometry: Geometry, platform: Platform) -> bool:
    """Return whether a platform is a whole GPU of this model."""
    known_geometry = geometry_of(platform) if platform.kind is PlatformKind.GPU else None
    return known_geometry is not None and known_geometry.gpu == geometry.gpu
