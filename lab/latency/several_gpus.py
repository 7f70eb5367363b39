"""Predict the rate of a model on several accelerators of a node from the rate on fewer of them.

A *pair* is one accelerator, model, software and scenario, measured at two numbers of accelerators.
Each accelerator in turn is left out: the loss per doubling and the interval width are fitted on the
others, each of which weighs the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np

from berth.pilot.documents import to_json, write_text
from berth.plugin.cli.train.training_input import command_line
from berth.predictor.core.bundle_writing import now
from berth.predictor.core.intervals import LEVEL
from berth.predictor.families.graph.graph_family import SeveralGpus
from lab.datasets.mlperf import MLPERF, Rate, rates
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section

OFFLINE = "offline"
SPLIT = "each accelerator in turn new; the rate on fewer of it is known"
LEAST_LOG_WIDTH = 0.01


@dataclass(frozen=True, slots=True)
class Pair:
    """Measured rates of the same model and software on fewer and on more accelerators."""

    accelerator: str
    fewer: int
    more: int
    log_rate: float
    """Log of the rate per accelerator among ``more`` / the rate per accelerator among ``fewer``."""

    @property
    def doublings(self) -> float:
        """Return how often ``fewer`` doubles to reach ``more``."""
        return math.log2(self.more / self.fewer)


@dataclass(frozen=True, slots=True)
class Scaling:
    """The fitted loss of rate per doubling of the accelerators, and the width of its interval."""

    log_loss: float
    """Loss of log rate per accelerator with each doubling."""
    log_width: float
    """Half width of the 90 % interval of the log rate."""

    def off(self, pair: Pair) -> float:
        """Return the log of measured rate / predicted rate."""
        return pair.log_rate + self.log_loss * pair.doublings


@dataclass(frozen=True, slots=True)
class Found:
    """Held-out figures of some pairs; each accelerator weighs the same."""

    pairs: int
    accelerators: int
    mean_error: float
    linear_error: float
    """Mean error of the baseline: n accelerators are n times as fast as one."""
    coverage: float


def pairs(rates: Sequence[Rate]) -> list[Pair]:
    """Return the pairs of the offline scenario: all combinations of two numbers of accelerators.

    Where there are several submissions for one number, their median is used.
    """
    found: dict[tuple[str, str, str], dict[int, list[float]]] = defaultdict(dict)
    for one in rates:
        if one.scenario == OFFLINE:
            key = (one.accelerator, one.model, one.software)
            each = found[key].setdefault(one.accelerators, [])
            each.append(math.log(one.samples_per_s / one.accelerators))
    return [
        Pair(
            accelerator, fewer, more,
            median(by_number[more]) - median(by_number[fewer]),
        )
        for (accelerator, _, _), by_number in sorted(found.items())
        for fewer, more in combinations(sorted(by_number), 2)
    ]  # fmt: skip


def fit(learn: Sequence[Pair]) -> Scaling:
    """Fit the loss (mean over accelerators of their median loss) and the interval width.

    The width is that of the worst accelerator, because six are too few for a quantile over them.
    """
    groups = _groups(learn)
    loss = -float(np.mean([median(p.log_rate / p.doublings for p in g) for g in groups.values()]))
    own = Scaling(loss, LEAST_LOG_WIDTH)
    worst = max(
        float(np.quantile([abs(own.off(p)) for p in group], LEVEL, method="higher"))
        for group in groups.values()
    )
    return Scaling(loss, max(worst, LEAST_LOG_WIDTH))


def held_out_errors(every: Sequence[Pair]) -> Found:
    """Return figures of ``every``; each accelerator is predicted from the others."""
    groups = _groups(every)
    errors, linear, inside = [], [], []
    for name, group in groups.items():
        learnt = fit([pair for pair in every if pair.accelerator != name])
        off = np.array([learnt.off(pair) for pair in group])
        errors.append(np.abs(np.expm1(-off)).mean())
        linear.append(np.abs(np.expm1([-pair.log_rate for pair in group])).mean())
        inside.append((np.abs(off) <= learnt.log_width).mean())
    return Found(
        len(every), len(groups), float(np.mean(errors)), float(np.mean(linear)),
        float(np.mean(inside)),
    )  # fmt: skip


def _groups(every: Sequence[Pair]) -> Mapping[str, list[Pair]]:
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in every:
        found[pair.accelerator].append(pair)
    return found


HEADER = ("pairs", "accelerators", "mean error", "n times one (baseline)", "in 90 % interval")


def evaluate(_: Options) -> Report:
    """Report the errors of the offline scenario."""
    mine = pairs(rates())
    learnt, found = fit(mine), held_out_errors(mine)
    row = (
        str(found.pairs), str(found.accelerators), f"{found.mean_error:.1%}",
        f"{found.linear_error:.1%}", f"{found.coverage:.0%}",
    )  # fmt: skip
    return Report(
        "Rates of a model on several accelerators of a node, MLPerf Inference v4.1",
        (
            f"Split: {SPLIT}. Errors are |predicted / measured - 1| of samples a second, "
            "accelerators weighing the same.",
            f"Offline, from all: {learnt.log_loss:.2%} of an accelerator's rate is lost with each "
            f"doubling; 90 % interval: a factor of {1 + learnt.log_width:.2f}.",
        ),
        (Section("Held out", HEADER, [row]),),
        {"split": SPLIT, "found": found},
    )


def train(options: Options) -> str:
    """Write ``several_gpus.json``, fitted on the offline scenario, into ``options.bundle``."""
    mine = pairs(rates())
    learnt, held = fit(mine), held_out_errors(mine)
    made = SeveralGpus(
        command=command_line(), created=now(), sources={MLPERF.path: MLPERF.sha256}, split=SPLIT,
        log_loss=learnt.log_loss, log_width=learnt.log_width, most=max(p.more for p in mine),
        groups=held.accelerators, rows=held.pairs, coverage=round(held.coverage, 4),
    )  # fmt: skip
    write_text(options.bundle / "several_gpus.json", to_json(made))
    return f"{made.rows} pairs of {made.groups} accelerators"
