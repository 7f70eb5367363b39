"""VAE + DNN (Nichols, Yeom and Bhatele) as a family of relative performance, and its evaluation.

The evaluation has the measures of its abstract beside a random forest: R2, whole orders of
platforms right, and the area under the curve of whether the order is the usual one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.datasets.aiwc import CPUS
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.ground.resume import Resume
from lab.ground.splits import folds
from lab.published import networks as export
from lab.published.vae.network import Network, VaeDnn, train_network
from lab.relative.data import aiwc_rows, rajaperf_rows
from lab.relative.evaluation import RANDOM_ROWS, Result, steps
from lab.relative.evaluation import evaluate as evaluate_entries
from lab.relative.experiment import train_on_aiwc
from lab.relative.families import FOREST, log_features
from lab.relative.family import (
    LEAVE_ONE_APPLICATION_OUT,
    Fold,
    Split,
    TimesLearner,
)
from lab.relative.measurements import site_input
from lab.relative.orders import order_figures
from lab.relative.train import train_bundle


@dataclass(frozen=True, slots=True)
class FittedVae:
    """A trained network and the platforms that it answers for."""

    network: Network
    platforms: tuple[str, ...]

    def log_seconds(self, rows: Rows) -> Floats:
        """Return rows x platforms; a time that is known is given back."""
        guess = rows.log_reference[:, None] - export.apply(self.network, log_features(rows))
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)

    def onnx(self, rows: Rows) -> bytes:
        """Return log features -> log speedups, as ``relative.bundle`` serves them.

        Raises BerthError where it differs from the network by more than 1e-4 on ``rows``.
        """
        features = log_features(rows)
        made = export.to_onnx(self.network, features.shape[1], "log_speedup")
        export.check_agreement(made, self.network, features)
        return made


@dataclass(frozen=True, slots=True)
class VaeFamily:
    """Log counters and the reference's time -> latent code -> log speedup of every platform.

    Counters that do not depend on the device (AIWC) have no rows of CPUs only: there the decoder
    is calibrated first on the rows that ran fastest on one of ``cpus`` among the training rows.
    """

    cpus: tuple[str, ...] = CPUS
    counted_on_cpu: bool = False
    """All counters were taken on a CPU (our own pilots): the decoder is calibrated on all rows."""
    settings: VaeDnn = field(default_factory=VaeDnn)
    name: str = "VAE + DNN"
    libraries: tuple[str, ...] = ("numpy", "onnxruntime", "torch")

    @property
    def what(self) -> str:
        """Return what it is in one line."""
        rows = "CPU profiles" if self.counted_on_cpu else "rows fastest on a CPU"
        return (
            f"sigma-VAE (latent {self.settings.latent}, calibrated first on the {rows}), "
            f"DNN {' x '.join(map(str, self.settings.dnn))}; Nichols et al."
        )

    def fit(self, rows: Rows, seed: int) -> FittedVae:
        """Learn from all rows; missing labels allowed."""
        network, _ = train_network(
            log_features(rows), rows.log_speedup, self.on_cpu(rows), self.settings, seed
        )
        return FittedVae(network, rows.platforms)

    def on_cpu(self, rows: Rows) -> Floats:
        """Mask of the rows that the decoder is calibrated on first."""
        if self.counted_on_cpu:
            return np.ones(len(rows))
        times = np.where(np.isfinite(rows.log_seconds), rows.log_seconds, np.inf)
        fastest = np.array(rows.platforms)[times.argmin(axis=1)]
        return np.asarray(np.isin(fastest, self.cpus), dtype=np.float64)


_SHOWN = (
    ("R2 (log)", "r2_log_speedup", "{:.2f}"),
    ("median error", "median_error", "{:.0%}"),
    ("order of 4", "order_of_four", "{:.0%}"),
    ("ROC", "order_of_four_roc_area", "{:.2f}"),
)


def _ten(rows: Rows, seed: int) -> Iterator[Fold]:
    for held in folds(rows.applications, 10, seed):
        yield sorted(set(range(len(rows))) - set(held)), held


TEN_FOLDS = Split("unseen kernel", "ten folds of kernels, none in two of them", _ten)


def train(options: Options) -> str:
    """Return a bundle of the network from a site's own profiles, or from the AIWC data set."""
    site = site_input(options.profiles, options.reference, options.platforms)
    if site is None:
        return train_on_aiwc(options, VaeFamily())
    cpus = tuple(name for name, kind in site.kinds.items() if kind == "cpu")
    family = VaeFamily(cpus=cpus, counted_on_cpu=site.rows.reference in cpus)
    return train_bundle(site, options.bundle, options.seed, family)


def evaluate(options: Options) -> Report:
    """Report on AIWC and RAJAPerf, seen and unseen applications."""
    seeds = options.every_seed
    total = sum(steps(rows, both, seeds, splits) for _, rows, both, splits in _plan())
    with step_bar("evaluating", total) as advance:
        found = evaluate_both(seeds, Resume(options.unfinished), advance)
    lines = [
        (data, one.split, one.family, *(_spread(one, key, form) for _, key, form in _SHOWN))
        for data, results in found.items()
        for one in results
    ]
    header = ("data", "split", "family", *(title for title, _, _ in _SHOWN))
    seeds_named = ", ".join(map(str, options.every_seed))
    return Report(
        "VAE + DNN beside a random forest",
        (f"Mean over seeds {seeds_named} [least, greatest].",),
        (Section("By data set and split", header, lines),),
        {"results": found},
    )


def evaluate_both(
    seeds: Sequence[int], resume: Resume, advance: Callable[[], None] = lambda: None
) -> dict[str, Sequence[Result]]:
    """Return the network and the forest on both data sets."""
    return {
        data: evaluate_entries(
            rows, both, data=data, seeds=seeds, splits=splits, more_figures=_more,
            resume=resume, advance=advance,
        ).results
        for data, rows, both, splits in _plan()
    }  # fmt: skip


def _plan() -> Iterator[tuple[str, Rows, tuple[TimesLearner, ...], tuple[Split, ...]]]:
    kernels = rajaperf_rows().with_platforms(("quartz", "lassen-v100"))
    for data, rows, splits, ours in (
        ("AIWC", aiwc_rows(), (RANDOM_ROWS, LEAVE_ONE_APPLICATION_OUT), VaeFamily()),
        ("RAJAPerf", kernels, (RANDOM_ROWS, TEN_FOLDS), VaeFamily(counted_on_cpu=True)),
    ):
        yield data, without_missing(rows), (FOREST, ours), splits


def without_missing(rows: Rows) -> Rows:
    """Only counters that every row has."""
    whole = np.asarray(np.isfinite(rows.values).all(axis=0))
    names = tuple(n for n, keep in zip(rows.counters, whole.tolist(), strict=True) if keep)
    return replace(rows, counters=names, values=rows.values[:, whole])


def _more(rows: Rows, log_predicted: Floats) -> dict[str, float]:
    """Orders, and the median error over all rows and targets."""
    targets = [i for i, name in enumerate(rows.platforms) if name != rows.reference]
    off = (log_predicted - rows.log_seconds)[:, targets]
    return {
        "median_error": float(np.median(np.abs(np.expm1(off)))),
        **order_figures(rows, log_predicted),
    }


def _spread(of: Result, key: str, form: str) -> str:
    if key not in of.figures:
        return "-"
    mean, low, high = (form.format(each[key]) for each in (of.figures, of.low, of.high))
    return f"{mean} [{low}, {high}]"
