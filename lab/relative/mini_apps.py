"""Mini-apps on platforms never trained on, from BabelStream rates and data sheets.

For every ordered pair (source, target) of platforms, the time on the source is known and the time
on the target is predicted. The models are fitted and combined on the n other platforms only, each
of which is left out in turn to measure the errors of the models:

* ``best model``: the model with the least error on these platforms;
* ``averaged``: all models, weighted by ``error ** -n`` (the likelihood of Laplace-distributed
  errors) times a prior by which models with 0, 1 and 2 corrections weigh the same;
* ``nested``: whichever of these two has the lesser error on these platforms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from berth.predictor.core.arrays import Floats
from lab.datasets.machines import KERNELS, PEAKS, MiniApps, mini_apps
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section

SPLIT = (
    "every ordered pair of platforms; source and target both left out of all that is learnt and "
    "chosen (nested); same problem size"
)
RIDGE = 1.0
TOGETHER = ("best model", "averaged")
METHODS = ("triad", "dot", *TOGETHER, "nested")


@dataclass(frozen=True, slots=True)
class RateModel:
    """Model of the time: log t = c - log rate + w . features; c and w are fitted.

    ``rate``: the platform's rate that limits the mini-app. ``features``: corrections by platform.
    """

    rate: str
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"1/{self.rate}" + (
            f" corrected by {', '.join(self.features)}" * bool(self.features)
        )


TRIAD, DOT = RateModel("triad"), RateModel("dot")
RATE_MODELS = tuple(
    RateModel(rate, features)
    for rate in ("triad", "dot", "flops_f32")
    for features in (
        (), ("is_gpu",), ("cache",), ("dot",), ("flops_f32",), ("flops_f64", "cache"),
        ("flops_f32", "cache"),
    )
)  # fmt: skip
"""Models limited by bandwidth, reductions or compute, with up to two corrections."""

_OF_EACH = Counter(len(model.features) for model in RATE_MODELS)
PRIOR = np.array([1 / _OF_EACH[len(model.features)] for model in RATE_MODELS])


@dataclass(frozen=True, slots=True)
class AppResult:
    """Errors of one mini-app over all ordered pairs."""

    app: str
    platforms: tuple[str, ...]
    median_error: dict[str, float]
    """Method -> median of ``|predicted / measured - 1|``."""
    mean_error: dict[str, float]
    chosen: dict[str, int]
    """In how many folds ``nested`` chose each method of ``TOGETHER``."""


def columns(data: MiniApps) -> dict[str, Floats]:
    """Return the columns by name, one value per platform: logarithms; ``is_gpu`` is 0 or 1."""
    rates = {kernel: np.log(data.rates[:, i]) for i, kernel in enumerate(KERNELS)}
    peaks = [PEAKS[name] for name in data.platforms]
    return rates | {
        "flops_f64": np.log([p.flops_f64 for p in peaks]),
        "flops_f32": np.log([p.flops_f32 for p in peaks]),
        "cache": np.log([p.cache_bytes for p in peaks]),
        "is_gpu": np.array([float(p.is_gpu) for p in peaks]),
    }


def evaluate_apps(data: MiniApps) -> tuple[AppResult, ...]:
    """Return the errors of each method on each mini-app; see ``SPLIT``."""
    return tuple(_one(app, data) for app in data.seconds)


def _one(app: str, data: MiniApps) -> AppResult:
    here = np.flatnonzero(np.isfinite(data.seconds[app]))
    log_time = np.log(data.seconds[app][here])
    table = {name: values[here] for name, values in columns(data).items()}
    errors: dict[str, list[float]] = {name: [] for name in METHODS}
    best: Counter[str] = Counter()
    for source, target in combinations(range(len(here)), 2):
        rest = [i for i in range(len(here)) if i not in {source, target}]
        ask = [source, target]
        found = {
            "triad": predict(TRIAD, table, log_time, rest, ask),
            "dot": predict(DOT, table, log_time, rest, ask),
            **_together(table, log_time, rest, ask),
        }
        inner = [_together(table, log_time, [j for j in rest if j != i], [i]) for i in rest]
        off_by = {
            name: _pairs(log_time[rest] - np.array([guess[name][0] for guess in inner]))
            for name in TOGETHER
        }
        chosen = min(TOGETHER, key=lambda name: off_by[name])
        found["nested"] = found[chosen]
        best[chosen] += 1
        for name, guess in found.items():
            off = (guess[1] - guess[0]) - (log_time[target] - log_time[source])
            errors[name] += [abs(float(np.expm1(off))), abs(float(np.expm1(-off)))]
    return AppResult(
        app=app,
        platforms=tuple(data.platforms[i] for i in here),
        median_error={name: float(np.median(values)) for name, values in errors.items()},
        mean_error={name: float(np.mean(values)) for name, values in errors.items()},
        chosen=dict(best.most_common()),
    )


def predict(
    model: RateModel,
    table: dict[str, Floats],
    log_time: Floats,
    learn: Sequence[int],
    ask: Sequence[int],
) -> Floats:
    """Return log seconds on the platforms ``ask`` by a model fitted on the platforms ``learn``."""
    work = log_time[learn] + table[model.rate][learn]
    guess = work.mean() - table[model.rate][ask]
    if not model.features:
        return np.asarray(guess)
    features = np.column_stack([table[name] for name in model.features])
    mean, deviation = features[learn].mean(axis=0), features[learn].std(axis=0) + 1e-9
    scaled = (features - mean) / deviation
    inner = scaled[learn].T @ scaled[learn] + RIDGE * np.eye(len(model.features))
    weights = np.linalg.solve(inner, scaled[learn].T @ (work - work.mean()))
    return np.asarray(guess + scaled[ask] @ weights)


def _together(
    table: dict[str, Floats], log_time: Floats, learn: Sequence[int], ask: Sequence[int]
) -> dict[str, Floats]:
    misfits = np.array([_misfit(model, table, log_time, learn) + 1e-9 for model in RATE_MODELS])
    guesses = np.array([predict(model, table, log_time, learn, ask) for model in RATE_MODELS])
    counted = PRIOR * (misfits / misfits.min()) ** -len(learn)
    return {
        "best model": guesses[int(misfits.argmin())],
        "averaged": np.average(guesses, axis=0, weights=counted),
    }


def _misfit(
    model: RateModel, table: dict[str, Floats], log_time: Floats, among: Sequence[int]
) -> float:
    """Return the mean log error over pairs of ``among``; each platform is left out in turn."""
    return _pairs(
        np.array(
            [
                log_time[i] - predict(model, table, log_time, [j for j in among if j != i], [i])[0]
                for i in among
            ]
        )
    )


def _pairs(residual: Floats) -> float:
    first, second = np.triu_indices(len(residual), 1)
    return float(np.abs(residual[first] - residual[second]).mean())


def evaluate(_: Options) -> Report:
    """Report the errors of each method over all ordered pairs of platforms."""
    found = evaluate_apps(mini_apps())
    rows = [
        (app.app, str(count), str(count * (count - 1)),
         *(f"{app.median_error[name]:.1%}" for name in METHODS))
        for app in found
        for count in [len(app.platforms)]
    ]  # fmt: skip
    return Report(
        "Mini-apps on platforms never trained on",
        (f"Split: {SPLIT}.",),
        (Section("Median error of the time on the target",
                 ("mini-app", "platforms", "pairs", *METHODS), rows),),
        {"split": SPLIT, "apps": found},
    )  # fmt: skip
