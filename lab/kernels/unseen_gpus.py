"""``python -m lab unseen-gpus``: programs on an H100 and an MI300A, each without any labels.

The shipped predictor forecasts each kernel from a pilot on a CPU, as a site would ask it. Its
bundle holds times of one GPU, a V100, so both cards are left out of all that was fitted. What a
launch costs on a card is part of its Signature; here it is the least time of a launch in the card's
other kernels, as the times of a kernel must not tell how long the kernel itself takes.

A last table is of the same times at sizes four times beyond those that they are fitted to
(``core.sizes``), beside a straight line in log-log whose interval is its misfit and the same
uncertainty of its slope.

Baselines: published bytes over the card's bandwidth, and the time on the V100 times the ratio
of bandwidths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from berth.pilot.documents import read_json
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile, read_profiles
from berth.predictor.core.sizes import SLOPE_UNCERTAINTY, SizeGrowth
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.hardware import platforms as known
from berth.predictor.hardware.ceilings import Allocation
from berth.predictor.learning.programs.prior import kernel_weights
from lab.datasets.rajaperf import rows
from lab.datasets.rajaperf_gpus import RAJAPERF_GPUS, SYSTEMS, Timing, timings
from lab.experiments.experiment import Options
from lab.ground.figures import Figures, figures
from lab.ground.report import Report, Section, figure_cells, figure_titles
from lab.kernels.examples import PROFILES

GPU_PROFILES = PROFILES.with_name("gpu_profiles.jsonl")
"""Pilots of the kernels at the sizes that were timed on the GPUs, on ``PILOT_PLATFORM``."""
PILOT_PLATFORM = PROFILES.with_name("sapphire-rapids-vm.json")
V100 = "lassen-v100"
_SHOWN = ("rows", "median_error", "mean_error", "coverage", "interval_factor")
OURS = "Berth"


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel at one size on one card: its measured time, its pilot and the predicted times."""

    timing: Timing
    log_predicted: dict[str, float]
    """By method, natural log of seconds; NaN where the method has no answer."""
    log_width: float
    """Half width of Berth's 90 % interval."""
    abstained: bool


def evaluate(_options: Options) -> Report:
    """Report errors and intervals on both cards, beside the baselines."""
    profiles = {profile.name: profile for profile in read_profiles(GPU_PROFILES)}
    predictor = Predictor.load()
    cases = cases_of(predictor, profiles, known.shipped())
    sections = [
        _table(name, [case for case in cases if case.timing.platform == name])
        for name in SYSTEMS.values()
    ]
    return Report(
        "Programs on GPUs without labels",
        (
            f"{RAJAPERF_GPUS.title}; {RAJAPERF_GPUS.source}; {RAJAPERF_GPUS.licence}.",
            "Both cards are left out of the bundle, which has times of a V100 only. Errors are of "
            "the time; coverage of the nominal 90 % interval, each kernel weighing the same; "
            "`interval x` is its upper end over the predicted time (median).",
        ),
        (*sections, *beyond_sizes(timings())),
        {"cases": [asdict(case) for case in cases]},
        after=(order_of(cases),),
    )


def cases_of(
    predictor: Predictor, profiles: Mapping[str, Profile], platforms: Mapping[str, Platform]
) -> list[Case]:
    """Return the predictions of every timing whose kernel was piloted at its size."""
    every = [t for t in timings() if f"{t.kernel}-{t.size}" in profiles]

    def launch_s(card: str, without: str) -> float:
        """Return the least time per launch on a card, in seconds, over all kernels but one."""
        return min(
            t.seconds / (profiles[f"{t.kernel}-{t.size}"].value("gpu_kernels") or 1.0)
            for t in every
            if t.platform == card and t.kernel != without
        )

    home = read_json(PILOT_PLATFORM, Platform)
    cases = []
    for timing in every:
        card = platforms[timing.platform]
        priced = _with_launch(card, launch_s(timing.platform, timing.kernel))
        (answer,) = predictor.predict_points(
            profiles[f"{timing.kernel}-{timing.size}"], [Allocation(priced, 1)], reference=home
        )
        own, v100 = _bytes_per_s(card), _bytes_per_s(platforms[V100])
        log_predicted = {
            OURS: math.log(answer.runtime_s.mid),
            "bytes over bandwidth": math.log(timing.bytes_per_rep / own),
            "V100 x bandwidths": _on_v100(timing.kernel, timing.bytes_per_rep)
            + math.log(v100 / own),
        }
        cases.append(
            Case(timing, log_predicted, answer.runtime_s.log_width, answer.abstained is not None)
        )
    return cases


MUCH_LARGER = (3.5, 4.6)
"""Sizes that are so many times the largest fitted one are tried."""


def beyond_sizes(every: Sequence[Timing]) -> list[Section]:
    """Return how well times at four times the largest fitted size are predicted, by fits to two
    and to three sizes."""
    series: dict[tuple[str, str], list[Timing]] = {}
    for timing in every:
        series.setdefault((timing.platform, timing.kernel), []).append(timing)
    return [_beyond(list(series.values()), fitted) for fitted in (2, 3)]


def _beyond(series: Sequence[Sequence[Timing]], fitted: int) -> Section:
    rows_: dict[str, list[tuple[float, float]]] = {OURS: [], "straight line in log-log": []}
    real, kernels = [], []
    for of_kernel in series:
        for target in of_kernel:
            near = [t for t in of_kernel if t.size * MUCH_LARGER[0] <= target.size][-fitted:]
            if len(near) < fitted or near[-1].size * MUCH_LARGER[1] < target.size:
                continue
            points = [(float(t.size), t.seconds) for t in near]
            own = points[-1][0]
            ratio = SizeGrowth.fit([(*point, 1.0) for point in points], size=own).runtime_factor(
                float(target.size)
            )
            width = math.log(max(ratio.high / ratio.mid, ratio.mid / ratio.low))
            rows_[OURS].append((math.log(points[-1][1] * ratio.mid), width))
            logs = np.log(points)
            line = np.poly1d(np.polyfit(logs[:, 0], logs[:, 1], 1))
            misfit = np.abs(line(logs[:, 0]) - logs[:, 1]).max()
            width = 2 * misfit + SLOPE_UNCERTAINTY * math.log(target.size / own)
            rows_["straight line in log-log"].append((float(line(math.log(target.size))), width))
            real.append(math.log(target.seconds))
            kernels.append(target.kernel)
    cells = []
    for method, predicted in rows_.items():
        middle, widths = np.array(predicted).T
        of = figures(np.array(real), middle, np.array(kernels), log_width=widths)
        cells.append((method, *figure_cells(of, _SHOWN)))
    title = f"A size four times beyond {fitted} fitted ones"
    return Section(title, ("method", *figure_titles(_SHOWN)), cells)


def _with_launch(card: Platform, launch_s: float) -> Platform:
    signature = card.signature.model_copy(update={"launch_overhead_s": launch_s})
    return card.model_copy(update={"signature": signature})


def _bytes_per_s(platform: Platform) -> float:
    dram = platform.signature.level("dram")
    assert dram is not None  # noqa: S101 - Signature's own validator holds it
    return dram.total_bytes_per_s


def _on_v100(kernel: str, work_bytes: float) -> float:
    """Return the log time of a kernel on the V100; NaN: it was not run there.

    A line through the times at three sizes, and at least the launches that the smallest size has.
    """
    points = [(r.bytes_per_rep, r.seconds[V100]) for r in rows() if r.kernel == kernel]
    if not points:
        return math.nan
    sizes, seconds = np.array(points).T
    slope, constant = np.polyfit(sizes, seconds, 1, w=1 / seconds)
    return float(np.log(max(constant, 0.0) + slope * work_bytes))


def _figures(cases: Sequence[Case], method: str) -> Figures:
    answered = [c for c in cases if not math.isnan(c.log_predicted[method])]
    widths = np.array([c.log_width if method == OURS else math.nan for c in answered])
    return figures(
        np.log([c.timing.seconds for c in answered]),
        np.array([c.log_predicted[method] for c in answered]),
        np.array([c.timing.kernel for c in answered]),
        log_width=widths,
    )


def _each_kernel(cases: Sequence[Case], method: str) -> str:
    """Return the mean error with every kernel weighing the same, and the largest factor."""
    answered = [c for c in cases if not math.isnan(c.log_predicted[method])]
    off = np.array([c.log_predicted[method] - math.log(c.timing.seconds) for c in answered])
    weights = kernel_weights(tuple(c.timing.kernel for c in answered))
    mean = float(weights @ np.abs(np.expm1(off)))
    return f"{mean:.1%}, at most x {math.exp(np.abs(off).max()):.1f}"


def _table(platform: str, cases: Sequence[Case]) -> Section:
    methods = cases[0].log_predicted
    rows_ = [
        (method, *figure_cells(_figures(cases, method), _SHOWN), _each_kernel(cases, method))
        for method in methods
    ]
    abstained = sum(case.abstained for case in cases)
    title = f"{platform}, left out ({abstained} of {len(cases)} abstained)"
    return Section(title, ("method", *figure_titles(_SHOWN), "mean, each kernel alike"), rows_)


def order_of(cases: Sequence[Case]) -> str:
    """Return a sentence on which of both cards is faster, where they differ by over 10 %."""
    by_kernel: dict[tuple[str, float], list[Case]] = {}
    for case in cases:
        by_kernel.setdefault((case.timing.kernel, case.timing.size), []).append(case)
    right = apart = decided = 0
    pairs = [pair for pair in by_kernel.values() if len(pair) == len(SYSTEMS)]
    for first, second in pairs:
        actual = math.log(first.timing.seconds / second.timing.seconds)
        said = first.log_predicted[OURS] - second.log_predicted[OURS]
        decided += abs(said) > math.hypot(first.log_width, second.log_width)
        if abs(actual) > math.log(1.1):
            apart += 1
            right += said * actual > 0
    return (
        f"Which card is faster is right for {right} of {apart} kernels and sizes; the interval of "
        f"the ratio leaves 1 out for {decided} of {len(pairs)}: Berth takes no side."
    )
