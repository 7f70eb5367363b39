"""Times on any platform by the process after its cases, and by the nearest known device.

By the process a time is a weighted sum of its cases. By the nearest device, for platforms with few
runs of their own, a model takes, over its time under the roofs, what the most similar measured case
took on the known device with the most similar data sheet; times one factor, the median over the
platform's own runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.families.graph.latency.features import GraphWork
from berth.predictor.families.graph.transfer.cases import GRAPH, NOBODY, Cases, case_of
from berth.predictor.families.graph.transfer.kernel import Kernel, Own, Scale, squared
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof


@dataclass(frozen=True, slots=True)
class Width:
    """Half width of the 90 % interval, in log time, with so many samples of the platform."""

    samples: int
    gpu: bool
    log_width: float


@dataclass(frozen=True)
class TransferPosterior:
    """The process after its cases, and those that a site added. Raises nothing of its own."""

    kernel: Kernel
    offset: float
    """Mean of log time over roofline time, which the process is around."""
    cases: Cases
    weights: Floats
    """[cases] (K + noise)^-1 of what they measured."""
    devices: tuple[str, ...]
    """The names of ``Cases.device``."""
    stacks: tuple[str, ...]
    """The names of ``Cases.stack``."""
    own: Own
    """[devices]"""
    samples: dict[str, int]
    """Runs of each platform that a site added."""
    threads: dict[str, int]
    """Threads of the runs of each CPU platform that a site added: times are of so many."""
    own_widths: dict[str, float]
    """Half width of the 90 % interval, in log time, of each platform that a site added."""
    widths: tuple[Width, ...]
    id: str = ""
    """Id of the bundle that it is from."""
    residual: Floats | None = None
    """[cases] log of what they measured over roofline time; None: not at hand."""

    def log_seconds(self, asked: Cases) -> Floats:
        """Return [n] log seconds of one image."""
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
        """Return one case. ``stack`` as in ``stack_name``; default: the platform's own in these
        numbers where it has one, else no compiler on a GPU and one on a CPU."""
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
        """Return the seconds of one run at the whole batch; ``stack`` as in ``asked``."""
        case = self.asked(work, roof, numbers, batch, stack)
        middle = batch * float(np.exp(self.log_seconds(case)[0]))
        factor = float(np.exp(self.log_width(roof.platform, gpu=roof.is_gpu)))
        return Interval(middle / factor, middle, middle * factor)

    def batches(self, *, gpu: bool) -> tuple[float, float]:
        """Return the smallest and largest batch that was measured on platforms of this kind."""
        of = np.exp(self.cases.graph[self.cases.gpu == int(gpu), GRAPH.index("log_batch")])
        return (float(of.min()), float(of.max())) if len(of) else (1.0, 1.0)

    def nearest_log_seconds(self, asked: Cases, platform: str) -> Floats | None:
        """Return [n] log seconds of one image by the nearest GPU of the data set, times a factor
        from the platform's own runs where it has some. None on CPUs: two were measured, and neither
        is near."""
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
        """Return the half width in log time: of the platform's samples where it has some."""
        own = self.own_widths.get(platform)
        return self.log_width_of(0, gpu=gpu) if own is None else own

    def log_width_of(self, samples: int, *, gpu: bool) -> float:
        """Return the half width of a platform with so many samples, from devices that were held
        out."""
        known = [width for width in self.widths if width.gpu == gpu and width.samples <= samples]
        return max(known, key=lambda width: width.samples).log_width

    def models(self, platform: str) -> int:
        """Return how many models a site's own runs on the platform are of: runs of one are no new
        case."""
        if platform not in self.samples:
            return 0
        of = self.cases.model[self.cases.device == _place(platform, self.devices)]
        return len(np.unique(of))

    def basis(self, platform: str) -> Basis:
        """Return calibrated where the site added samples of the platform, else prior."""
        return Basis.CALIBRATED if self.samples.get(platform) else Basis.PRIOR


def _place(name: str | None, names: tuple[str, ...]) -> int:
    return names.index(name) if name in names else NOBODY


def stack_name(platform: str, numbers: Numbers, framework: str, threads: int | None = None) -> str:
    """Return the name of a platform with its software, as ``gpu/fp16/torch`` or
    ``cpu/fp32/onnxruntime/1``."""
    parts = (platform, numbers.value, framework, *(() if threads is None else (str(threads),)))
    return "/".join(parts)


def is_fused(stack: str) -> bool:
    """Return whether operators are joined: all software does it but eager torch."""
    return stack.split("/")[2] != "torch"


_OTHER_FUSING = 10.0
"""Squared distance of a compiled case from one that is not."""


def nearest_residual(known: Cases, residual: Floats, asked: Cases, scale: Scale) -> Floats:
    """Return [asked] log of time over roofline time, without the factor.

    ``known``: at least one case; only the device nearest to the first asked case is used.
    """
    apart = squared(asked.spec[:1], known.spec)[0]
    some = np.flatnonzero(apart <= apart.min() + 1e-9)
    cases = known[some]
    left, right = scale.scaled(asked), scale.scaled(cases)
    away = squared(left[0], right[0]) + squared(left[1], right[1])
    away += _OTHER_FUSING * (asked.fused[:, None] != cases.fused)
    return np.asarray(residual[some][away.argmin(axis=1)])
