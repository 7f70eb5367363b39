"""``python -m lab unseen-gpus``: programs on an H100 and an MI300A, each without any labels.

The shipped predictor forecasts each kernel from a pilot on a CPU, as a site would ask it. Its
bundle holds times of one GPU, a V100, so both cards are left out of all that was fitted. What a
launch costs on a card is part of its Signature; here it is the least time of a launch in the card's
other kernels, as the times of a kernel must not tell how long the kernel itself takes. The second
row has the other card's cost of a launch, and the third one what the shipped platform file says.

The intervals have the width with which 90 % of kernels are inside on the V100 (each kernel left
out) and on the other card together: the reported card has no part in it. ``NEW_GPU_WIDTH`` is the
same of all three.

Baselines: published bytes over the card's memory bandwidth; the time on the V100 times the ratio of
bandwidths; the time on the V100 times the factor that is best for the card's other kernels; the
time on the other card times the ratio of bandwidths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from berth.pilot.documents import read_json
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile, read_profiles
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import LEVEL
from berth.predictor.core.prediction import Prediction
from berth.predictor.families.program.bundle import Manifest
from berth.predictor.families.program.estimate import NEW_GPU_WIDTH
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.hardware import platforms as known
from berth.predictor.hardware.ceilings import DEFAULT_LAUNCH_S, Allocation
from berth.predictor.learning.programs.prior import kernel_weights
from lab.datasets.rajaperf import rows
from lab.datasets.rajaperf_gpus import RAJAPERF_GPUS, SYSTEMS, Timing, timings
from lab.experiments.experiment import Options
from lab.ground.figures import Figures, figures
from lab.ground.report import Report, Section, figure_cells, figure_titles
from lab.kernels.examples import PROFILES, columns, read_examples
from lab.kernels.program_bundle import prior_scores
from lab.kernels.residual_model import Settings

GPU_PROFILES = PROFILES.with_name("gpu_profiles.jsonl")
"""Pilots of the kernels at the sizes that were timed on the GPUs, on ``PILOT_PLATFORM``."""
PILOT_PLATFORM = PROFILES.with_name("sapphire-rapids-vm.json")
V100 = "lassen-v100"
NO_ORDER = 0.1
"""Times of two cards that differ by less than this share have no order."""
_SHOWN = (
    "rows", "median_error", "mean_error", "bias", "kendall_tau", "coverage", "interval_factor",
)  # fmt: skip
OURS = "Berth"
OTHER_LAUNCH = "Berth, launch cost of the other card"
SHIPPED_LAUNCH = "Berth, launch cost as shipped"


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel at one size on one card: its measured time, its pilot and the predicted times."""

    timing: Timing
    log_predicted: dict[str, float]
    """By method, natural log of seconds; NaN where the method has no answer."""
    log_width: float
    """Half width of Berth's 90 % interval, calibrated without the card."""
    abstained: bool


@dataclass(frozen=True, slots=True)
class Order:
    """Whether a kernel is faster on the H100 or on the MI300A, over the sizes that both ran."""

    kernel: str
    measured: float
    """Geometric mean of the MI300A's time / the H100's time."""
    predicted: float
    pairs: int
    """Sizes where the two times differ by over ``NO_ORDER``."""
    right: int
    """Sizes among these where the faster card was predicted."""


def evaluate(_options: Options) -> Report:
    """Report errors, intervals and the order of the two cards, beside the baselines."""
    profiles = {profile.name: profile for profile in read_profiles(GPU_PROFILES)}
    predictor = Predictor.load()
    cases = cases_of(predictor, profiles, known.shipped())
    scores = {name: _scores(cases, name) for name in SYSTEMS.values()}
    scores[V100] = v100_scores(predictor.bundle.manifest)
    factors = {
        left_out: width_factor([of for name, of in scores.items() if name != left_out])
        for left_out in ("", *SYSTEMS.values())
    }
    cases = [replace(c, log_width=c.log_width * factors[c.timing.platform]) for c in cases]
    orders = orders_of(cases)
    sections = [
        _table(name, [case for case in cases if case.timing.platform == name])
        for name in SYSTEMS.values()
    ]
    sections += [_by_kernel(cases), _orders(orders)]
    return Report(
        "Programs on GPUs without labels",
        (
            f"{RAJAPERF_GPUS.title}; {RAJAPERF_GPUS.source}; {RAJAPERF_GPUS.licence}.",
            "Both cards are left out of the bundle, which has times of a V100 only. Errors are of "
            "the time; coverage of the nominal 90 % interval, each kernel weighing the same; "
            "`interval x` is its upper end over the predicted time (median).",
        ),
        (*sections, _factors(factors)),
        {
            "factors": factors,
            "cases": [asdict(case) for case in cases],
            "orders": [asdict(order) for order in orders],
        },
    )  # fmt: skip


def cases_of(
    predictor: Predictor, profiles: Mapping[str, Profile], platforms: Mapping[str, Platform]
) -> list[Case]:
    """Return the predictions of every timing whose kernel was piloted at its size."""
    every = [t for t in timings() if f"{t.kernel}-{t.size}" in profiles]
    ground = _Ground(predictor, profiles, platforms, every)
    return [_case(timing, ground) for timing in every]


@dataclass(frozen=True, slots=True)
class _Ground:
    """What every prediction is made from."""

    predictor: Predictor
    profiles: Mapping[str, Profile]
    platforms: Mapping[str, Platform]
    every: Sequence[Timing]

    def launch_s(self, platform: str, without: str) -> float:
        """Return the least time per launch on a card, in seconds, over all kernels but one."""
        return min(
            t.seconds / (self.profiles[f"{t.kernel}-{t.size}"].value("gpu_kernels") or 1.0)
            for t in self.every
            if t.platform == platform and t.kernel != without
        )

    def answer(self, timing: Timing, launch_s: float) -> Prediction:
        """Return Berth's prediction of a timing on its card with this cost of a launch."""
        card = _with_launch(self.platforms[timing.platform], launch_s)
        return self.predictor.predict_points(
            self.profiles[f"{timing.kernel}-{timing.size}"],
            [Allocation(card, 1)],
            reference=read_json(PILOT_PLATFORM, Platform),
        )[0]


def _case(timing: Timing, ground: _Ground) -> Case:
    platforms, every = ground.platforms, ground.every
    (other,) = [name for name in SYSTEMS.values() if name != timing.platform]
    shipped_s = platforms[timing.platform].signature.launch_overhead_s
    methods = {
        OURS: ground.launch_s(timing.platform, timing.kernel),
        OTHER_LAUNCH: ground.launch_s(other, timing.kernel),
        SHIPPED_LAUNCH: shipped_s or DEFAULT_LAUNCH_S,
    }
    answers = {name: ground.answer(timing, launch_s) for name, launch_s in methods.items()}
    bandwidth = {name: _bytes_per_s(platforms[name]) for name in (timing.platform, other, V100)}
    on_v100 = _on_v100(timing.kernel, timing.bytes_per_rep)
    on_other = _on_other(timing, other, every)
    baselines = {
        "bytes over bandwidth": math.log(timing.bytes_per_rep / bandwidth[timing.platform]),
        "V100 x bandwidths": on_v100 + math.log(bandwidth[V100] / bandwidth[timing.platform]),
        "V100 x best factor of other kernels": on_v100 + _best_factor(timing, every),
        "other card x bandwidths": on_other
        + math.log(bandwidth[other] / bandwidth[timing.platform]),
    }
    return Case(
        timing,
        {n: math.log(a.runtime_s.mid) for n, a in answers.items()} | baselines,
        answers[OURS].runtime_s.log_width / NEW_GPU_WIDTH,
        answers[OURS].abstained is not None,
    )


Scores = tuple[Floats, tuple[str, ...]]
"""Log errors of a card's rows over the half widths of their intervals, and the rows' kernels."""


def _scores(cases: Sequence[Case], platform: str) -> Scores:
    own = [case for case in cases if case.timing.platform == platform]
    off = [abs(c.log_predicted[OURS] - math.log(c.timing.seconds)) / c.log_width for c in own]
    return np.array(off), tuple(case.timing.kernel for case in own)


def v100_scores(manifest: Manifest) -> Scores:
    """Return the scores of the bundle's kernels on the V100, each kernel left out of the fit."""
    platforms = known.shipped()
    prefix, every = f"{V100}.", manifest.training.hyperparameters
    chosen: dict[str, Any] = {
        key.removeprefix(prefix): value for key, value in every.items() if key.startswith(prefix)
    }
    chosen |= {name: int(chosen[name]) for name in ("rounds", "depth")}
    data = columns(read_examples(), platforms[V100], platforms[manifest.reference])
    off = prior_scores(data, Settings(**chosen), manifest.training.seed)
    return off / manifest.priors["gpu"].score_quantile, data.kernels


def width_factor(cards: Sequence[Scores]) -> float:
    """Return the score that ``LEVEL`` of the rows stay below; each card weighs the same, and each
    kernel of a card."""
    weights = np.concatenate([kernel_weights(kernels) for _, kernels in cards]) / len(cards)
    scores = np.concatenate([off for off, _ in cards])
    order = np.argsort(scores)
    reached = np.cumsum(weights[order])
    return float(scores[order][int(np.searchsorted(reached, LEVEL - 1e-9))])


def _factors(factors: Mapping[str, float]) -> Section:
    rows_ = [(name or "none: shipped", f"{factor:.2f}") for name, factor in factors.items()]
    return Section(
        "Width of intervals over that of the V100's kernels", ("left out", "factor"), rows_
    )


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


def _best_factor(timing: Timing, every: Sequence[Timing]) -> float:
    """Return the log factor from V100 to the card that is best for the card's other kernels."""
    logs = [
        math.log(t.seconds) - _on_v100(t.kernel, t.bytes_per_rep)
        for t in every
        if t.platform == timing.platform and t.kernel != timing.kernel
    ]
    logs = [value for value in logs if not math.isnan(value)]
    return float(np.median(logs)) if logs else math.nan


def _on_other(timing: Timing, other: str, every: Sequence[Timing]) -> float:
    """Return the log time of the kernel at this size on the other card, interpolated by size."""
    same = [t for t in every if t.platform == other and t.kernel == timing.kernel]
    logs = np.log([(t.size, t.seconds) for t in same])
    return float(np.interp(math.log(timing.size), logs[:, 0], logs[:, 1]))


def _figures(cases: Sequence[Case], method: str) -> Figures:
    answered = [c for c in cases if not math.isnan(c.log_predicted[method])]
    widths = np.array([c.log_width if method == OURS else math.nan for c in answered])
    return figures(
        np.log([c.timing.seconds for c in answered]),
        np.array([c.log_predicted[method] for c in answered]),
        np.array([c.timing.kernel for c in answered]),
        log_width=widths,
    )


def _table(platform: str, cases: Sequence[Case]) -> Section:
    methods = cases[0].log_predicted
    rows_ = [(method, *figure_cells(_figures(cases, method), _SHOWN)) for method in methods]
    abstained = sum(case.abstained for case in cases)
    title = f"{platform}, left out ({abstained} of {len(cases)} abstained)"
    return Section(title, ("method", *figure_titles(_SHOWN)), rows_)


def _by_kernel(cases: Sequence[Case]) -> Section:
    rows_ = []
    for platform, kernel in sorted({(c.timing.platform, c.timing.kernel) for c in cases}):
        own = [c for c in cases if (c.timing.platform, c.timing.kernel) == (platform, kernel)]
        ends = [own[0], own[-1]]
        spans = [f"{math.exp(c.log_predicted[OURS]) / c.timing.seconds:.2f}" for c in ends]
        rows_.append((platform, kernel, *figure_cells(_figures(own, OURS), _SHOWN), *spans))
    header = ("platform", "kernel", *figure_titles(_SHOWN), "smallest", "largest")
    return Section(
        "Berth by kernel (last columns: predicted / measured at both ends)", header, rows_
    )


def orders_of(cases: Sequence[Case]) -> list[Order]:
    """Return, for each kernel, measured and predicted order of the two cards at equal sizes."""
    by_place = {(c.timing.kernel, c.timing.size, c.timing.platform): c for c in cases}
    first, second = SYSTEMS.values()
    orders = []
    for kernel in sorted({case.timing.kernel for case in cases}):
        pairs = [
            (case, by_place[kernel, size, second])
            for (name, size, platform), case in sorted(by_place.items())
            if name == kernel and platform == first and (kernel, size, second) in by_place
        ]
        if not pairs:
            continue
        real = np.log([b.timing.seconds / a.timing.seconds for a, b in pairs])
        guess = np.array([b.log_predicted[OURS] - a.log_predicted[OURS] for a, b in pairs])
        clear = np.abs(real) > math.log1p(NO_ORDER)
        orders.append(
            Order(
                kernel,
                float(np.exp(real.mean())),
                float(np.exp(guess.mean())),
                int(clear.sum()),
                int((clear & (np.sign(real) == np.sign(guess))).sum()),
            )
        )
    return orders


def _orders(orders: Sequence[Order]) -> Section:
    rows_ = [
        (o.kernel, f"{o.measured:.2f}", f"{o.predicted:.2f}", f"{o.right} of {o.pairs}",
         "yes" if (o.measured > 1) == (o.predicted > 1) else "no")
        for o in orders
    ]  # fmt: skip
    return Section(
        "H100 against MI300A, time of the MI300A / time of the H100 over equal sizes",
        ("kernel", "measured", "predicted", f"sizes over {NO_ORDER:.0%} apart right", "in order"),
        rows_,
    )
