"""Predict run times on any platform by a Gaussian process and by the nearest measured device.

A case is one model at a batch and precision on one device. The process predicts a log time as a
weighted sum over measured cases. The nearest-device prediction, for platforms with few runs, is the
product of three numbers: the model's roofline time; the ratio of measured to roofline time of the
most similar case on the measured device with the most similar data sheet; and, if the platform has
runs, the median ratio of their times to this estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.core.arrays import Floats
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.families.graph.latency.features import GraphWork
from berth.predictor.families.graph.transfer.cases import GRAPH, NOBODY, Cases, case_of
from berth.predictor.families.graph.transfer.kernel import (
    FeatureScale,
    Own,
    TransferKernel,
    squared,
)
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof


class TransferWidth(Document):
    """Half width of the 90 % interval in log time for a GPU or CPU platform with ``samples`` runs,
    calibrated on held-out devices."""

    samples: int = Field(ge=0)
    gpu: bool
    log_width: float = Field(gt=0)


@dataclass(frozen=True)
class TransferPosterior:
    """The Gaussian process conditioned on the training cases and the cases that a site added."""

    kernel: TransferKernel
    offset: float
    """Mean over the training cases of log(time / roofline time)."""
    cases: Cases
    weights: Floats
    """[cases] (K + noise)^-1 times the measured values (``K``: covariance of the cases; measured
    value: log(time / roofline time) less ``offset``)."""
    devices: tuple[str, ...]
    """Names of the devices; ``Cases.device`` holds indices into them."""
    stacks: tuple[str, ...]
    """Names of the software stacks; ``Cases.stack`` holds indices into them."""
    own: Own
    """[devices] novelty scale and shift of each device."""
    samples: dict[str, int]
    """Number of runs of each platform that a site added."""
    threads: dict[str, int]
    """Number of threads of the runs of each CPU platform that a site added."""
    own_widths: dict[str, float]
    """Half width of the 90 % interval, in log time, for each platform that a site added."""
    widths: tuple[TransferWidth, ...]
    id: str = ""
    """Id of the bundle that the process was loaded from."""
    residual: Floats | None = None
    """[cases] log of measured time over roofline time; None: not available."""

    def log_seconds(self, asked: Cases) -> Floats:
        """Return the log seconds of one image for each requested case, [n], by the Gaussian
        process."""
        across = self.kernel.covariance(
            asked, self.cases, self.own[asked.device], self._scaled
        )  # fmt: skip
        return np.asarray(asked.log_roof + self.offset + across @ self.weights)

    @cached_property
    def _scaled(self) -> tuple[Floats, Floats, Floats]:
        return self.kernel.scale.scaled(self.cases)

    def asked(
        self, work: GraphWork, roof: Roof, numbers: Numbers, batch: int, stack: str | None = None
    ) -> Cases:
        """Return the features of one case (graph, batch, platform and software stack) to predict.

        ``stack`` as in ``stack_name``. Default: the platform's own stack in this precision if
        measured, else a stack without a compiler on a GPU and with one on a CPU.
        """
        own = f"{roof.platform}/{numbers.value}/"
        named = stack or next((name for name in self.stacks if name.startswith(own)), None)
        joined = is_fused(named) if named else not roof.is_gpu
        case = case_of(work, roof, numbers, batch, fused=joined)
        return replace(
            case,
            device=np.array([_place(roof.platform, self.devices)]),
            stack=np.array([_place(named, self.stacks)]),
        )

    def seconds(
        self, work: GraphWork, roof: Roof, numbers: Numbers, batch: int, stack: str | None = None
    ) -> Interval:
        """Return the seconds of one run of the whole batch with a 90 % interval; ``stack`` as in
        ``asked``."""
        case = self.asked(work, roof, numbers, batch, stack)
        middle = batch * float(np.exp(self.log_seconds(case)[0]))
        factor = float(np.exp(self.log_width(roof.platform, gpu=roof.is_gpu)))
        return Interval(middle / factor, middle, middle * factor)

    def batches(self, *, gpu: bool) -> tuple[float, float]:
        """Return the smallest and largest batch measured on GPUs (``gpu``) or on CPUs."""
        of = np.exp(self.cases.graph[self.cases.gpu == int(gpu), GRAPH.index("log_batch")])
        return (float(of.min()), float(of.max())) if len(of) else (1.0, 1.0)

    def nearest_log_seconds(self, asked: Cases, platform: str) -> Floats | None:
        """Return the log seconds of one image for each case, [n], from the nearest measured GPU.

        If the site ran models on the platform, their median error corrects the result. None for
        CPUs: only two CPUs were measured, and neither is similar enough to others.
        """
        if self.residual is None or not asked.gpu[0]:
            return None
        added = np.isin(self.cases.device, [_place(name, self.devices) for name in self.samples])
        known = np.flatnonzero(~added & (self.cases.gpu == 1))
        if not len(known):
            return None
        cases, residual, scale = self.cases[known], self.residual[known], self.kernel.scale
        near = asked.log_roof + nearest_residual(cases, residual, asked, scale)
        if not self.samples.get(platform):
            return near
        own = np.flatnonzero(self.cases.device == _place(platform, self.devices))
        own_nearest = nearest_residual(cases, residual, self.cases[own], scale)
        return near + float(np.median(self.residual[own] - own_nearest))

    def log_width(self, platform: str, *, gpu: bool) -> float:
        """Return the half width of a platform's 90 % interval in log time: the width stored for a
        platform that the site added, else the width for platforms without samples."""
        own = self.own_widths.get(platform)
        return self.log_width_of(0, gpu=gpu) if own is None else own

    def log_width_of(self, samples: int, *, gpu: bool) -> float:
        """Return the half width of the 90 % interval in log time for a platform with ``samples``
        runs, calibrated on held-out devices."""
        known = [width for width in self.widths if width.gpu == gpu and width.samples <= samples]
        return max(known, key=lambda width: width.samples).log_width

    def models(self, platform: str) -> int:
        """Return the number of different models among the site's own runs on the platform."""
        if platform not in self.samples:
            return 0
        of = self.cases.model[self.cases.device == _place(platform, self.devices)]
        return len(np.unique(of))

    def basis(self, platform: str) -> Basis:
        """Return the basis of predictions on a platform: CALIBRATED if the site added runs there,
        else PRIOR."""
        return Basis.CALIBRATED if self.samples.get(platform) else Basis.PRIOR


def _place(name: str | None, names: tuple[str, ...]) -> int:
    return names.index(name) if name in names else NOBODY


def stack_name(platform: str, numbers: Numbers, framework: str, threads: int | None = None) -> str:
    """Return the name of a platform with its software, such as ``gpu/fp16/torch`` or
    ``cpu/fp32/onnxruntime/1``."""
    parts = (platform, numbers.value, framework, *(() if threads is None else (str(threads),)))
    return "/".join(parts)


def is_fused(stack: str) -> bool:
    """Return whether the stack fuses operators: every framework except eager torch does."""
    return stack.split("/")[2] != "torch"


_OTHER_FUSING = 10.0
"""Added to the squared distance between a compiled case and one that is not compiled."""


def nearest_residual(known: Cases, residual: Floats, asked: Cases, scale: FeatureScale) -> Floats:
    """Return log(time / roofline time) of the most similar known case for each requested case,
    [asked].

    ``known``: at least one case; only the device nearest to the first requested case is used.
    """
    apart = squared(asked.spec[:1], known.spec)[0]
    some = np.flatnonzero(apart <= apart.min() + 1e-9)
    cases = known[some]
    left, right = scale.scaled(asked), scale.scaled(cases)
    away = squared(left[0], right[0]) + squared(left[1], right[1])
    away += _OTHER_FUSING * (asked.fused[:, None] != cases.fused)
    return np.asarray(residual[some][away.argmin(axis=1)])
