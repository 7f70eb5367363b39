"""Training on several GPUs of a node from a step on one: Gavel's measured throughputs.

PyTorch's DistributedDataParallel, the batch of each GPU unchanged, workers on one machine. Learnt
of K80s and P100s, whose links are known (PCIe 3.0); its V100s are of several kinds of machines, so
they are only tested on. Steps of ResNet-18 (CIFAR-10) wait for their input in part.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.optimize import minimize

from berth.pilot.documents import to_json, write_text
from berth.plugin.cli.train.training_input import command_line
from berth.predictor.core.bundle_writing import now
from berth.predictor.core.intervals import LEVEL
from berth.predictor.families.training_step.training_step_family import (
    FILE,
    GRADIENT_BYTES,
    DataParallel,
    difficulty,
    log_ratio,
    ring,
)
from lab.datasets import locate
from lab.datasets.gavel import THROUGHPUTS, Scaled, scaled
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section
from lab.ground.splits import group_mean

SPLIT = "each model in turn new, on every device; each device in turn new, with every model"
PARAMETERS = {"ResNet-18": 11.17e6, "ResNet-50": 25.56e6, "Transformer": 47e6, "LM": 13.99e6}
"""By Gavel's scripts: ResNet-18 of CIFAR-10; a Transformer of 6 layers of 512 and the vocabulary of
Multi30k; two LSTM layers of 200 and Wikitext-2's 33,278 words. CycleGAN, A3C and the recommender
were trained on one GPU."""
LINKS = {"k80": 8e9, "p100": 16e9, "v100": 150e9}
"""Bytes a second, one direction: PCIe 3.0 x16, which the two GPUs of a K80 share, and NVLink."""
LEARNT = ("k80", "p100")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """A step on several GPUs beside the same on one."""

    device: str
    model: str
    gpus: int
    one_s: float
    log_ratio: float
    """Of its seconds to the seconds on one."""

    @property
    def ring_s(self) -> float:
        """Return a ring's all-reduce of the gradients at the link's rate."""
        size = PARAMETERS[self.model] * GRADIENT_BYTES
        return ring(self.gpus, size, LINKS[self.device])

    @property
    def group(self) -> str:
        """Return rows of a model on a device resemble each other."""
        return f"{self.model} on {self.device}"


@dataclass(frozen=True, slots=True)
class Learnt:
    """The rule of ``DataParallel``."""

    overhead: float
    seen: float

    def log_ratio(self, step: Step) -> float:
        """Predicted."""
        return log_ratio(self.overhead, self.seen, step.ring_s / step.one_s)

    def off(self, step: Step) -> float:
        """Return log of predicted over measured."""
        return self.log_ratio(step) - step.log_ratio


def steps(measured: Iterable[Scaled]) -> list[Step]:
    """Return every job on 2, 4 or 8 GPUs that was measured on one, too."""
    every = [one for one in measured if one.model in PARAMETERS and one.device in LINKS]
    alone = {(one.device, one.job_type): 1 / one.steps_per_s for one in every if one.gpus == 1}
    return [
        Step(
            one.device, one.model, one.gpus, first,
            math.log(one.gpus / one.steps_per_s / first),
        )
        for one in every
        if one.gpus > 1 and (first := alone.get((one.device, one.job_type))) is not None
    ]  # fmt: skip


def measured_steps() -> tuple[list[Step], list[Step]]:
    """Return what is learnt of, and what is kept aside. Raises ToolMissing, DocumentError."""
    every = steps(scaled(locate(THROUGHPUTS)))
    learnt = [one for one in every if one.device in LEARNT]
    return learnt, [one for one in every if one.device not in LEARNT]


def fit(rows: Sequence[Step]) -> Learnt:
    """Return least absolute errors of the logarithm; models on a device weigh the same."""
    weight = 1 / np.array([sum(two.group == one.group for two in rows) for one in rows])
    ratio = np.array([one.ring_s / one.one_s for one in rows])
    measured = np.array([one.log_ratio for one in rows])

    def loss(logs: np.ndarray) -> float:
        overhead, seen = np.exp(logs)
        return float((weight * np.abs(np.log1p(overhead + seen * ratio) - measured)).sum())

    starts = [(a, b) for a in (-3.0, -1.0) for b in (0.0, 2.0)]
    best = min((minimize(loss, s, method="Nelder-Mead") for s in starts), key=lambda one: one.fun)
    return Learnt(*(float(one) for one in np.exp(best.x)))


def width(rows: Sequence[Step]) -> float:
    """Half of the 90 % interval, for each unit of difficulty: of the worst model on a device.

    Each model is left out in turn. Eight groups are too few for a quantile over them.
    """
    scores: dict[str, list[float]] = defaultdict(list)
    for one, learnt in held_out(rows, lambda one: one.model, fit):
        scores[one.group].append(abs(learnt.off(one)) / difficulty(learnt.log_ratio(one)))
    return max(float(np.quantile(own, LEVEL, method="higher")) for own in scores.values())


def other_link_width(rows: Sequence[Step], learnt: Learnt) -> float:
    """Return half of the interval that holds 90 % of a model's rows, on the mean over models."""
    off: dict[str, list[float]] = defaultdict(list)
    for one in rows:
        off[one.group].append(abs(learnt.off(one)))
    weights = np.concatenate([np.full(len(own), 1 / len(own)) for own in off.values()])
    sizes = np.concatenate([np.array(own) for own in off.values()])
    order = np.argsort(sizes)
    reached = np.cumsum(weights[order]) >= LEVEL * len(off)
    return float(sizes[order][reached][0])


def held_out(
    rows: Sequence[Step], by: Callable[[Step], str], learn: Callable[[Sequence[Step]], T]
) -> Iterator[tuple[Step, T]]:
    """Yield each row with what is learnt of the rows that are not of its group."""
    for name in sorted({by(one) for one in rows}):
        learnt = learn([one for one in rows if by(one) != name])
        yield from ((one, learnt) for one in rows if by(one) == name)


def coverage(rows: Sequence[Step], by: Callable[[Step], str]) -> float:
    """Share inside the 90 % interval, all of it from other groups; models on devices weigh the
    same."""
    found = list(held_out(rows, by, lambda some: (fit(some), width(some))))
    inside = [
        abs(learnt.off(one)) <= wide * difficulty(learnt.log_ratio(one))
        for one, (learnt, wide) in found
    ]
    return group_mean(np.array(inside, dtype=np.float64), [one.group for one, _ in found])


def mean_error(rows: Sequence[Step], by: Callable[[Step], str]) -> float:
    """Return the mean of ``|predicted / measured - 1|`` of a step, held out; models on devices
    weigh the same."""
    found = list(held_out(rows, by, fit))
    off = np.array([learnt.off(one) for one, learnt in found])
    return group_mean(np.abs(np.expm1(off)), [one.group for one, _ in found])


def evaluate(_: Options) -> Report:
    """Report a new model and a new device."""
    rows, _aside = measured_steps()
    learnt = fit(rows)
    table = [
        (title, str(len(rows)), f"{mean_error(rows, by):.1%}", f"{coverage(rows, by):.0%}")
        for title, by in (("a new model", _model), ("a new device", _device))
    ]
    return Report(
        "Training on 2, 4 and 8 GPUs of a node from a step on one, Gavel's measurements",
        (
            f"Split: {SPLIT}. Errors are |predicted / measured - 1| of a step, "
            "models on a device weighing the same.",
            f"Learnt of all: {learnt.overhead:.1%} of a step, and {learnt.seen:.2f} of the ring's "
            "time at the link's rate by the data sheet.",
        ),
        (Section("Left out", ("left out", "rows", "mean error", "in the 90 % interval"), table),),
        {"split": SPLIT, "learnt": learnt, "rows": rows},
    )


def train(options: Options) -> str:
    """``data_parallel.json`` in the folder that is given."""
    rows, aside = measured_steps()
    learnt = fit(rows)
    made = DataParallel(
        command=command_line(), created=now(), sources={THROUGHPUTS.path: THROUGHPUTS.sha256},
        split=SPLIT, overhead=round(learnt.overhead, 4), seen=round(learnt.seen, 3),
        log_width=round(width(rows), 4),
        other_link_log_width=round(other_link_width(aside, learnt), 4),
        most=max(one.gpus for one in rows), groups=len({one.group for one in rows}),
        rows=len(rows), coverage=round(min(coverage(rows, by) for by in (_model, _device)), 4),
    )  # fmt: skip
    write_text(options.bundle / FILE.name, to_json(made))
    return f"{made.rows} steps of {made.groups} models on devices"


def _model(step: Step) -> str:
    return step.model


def _device(step: Step) -> str:
    return step.device
