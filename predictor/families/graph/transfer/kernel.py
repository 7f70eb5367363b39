"""The covariance of the times of two cases: how much they have to do with each other.

The log of time over roofline time is a sum of functions, one for each *level* of resemblance: one
for all platforms, one for all GPUs (and one for all CPUs), one for those among them with fusing
(and without), one that fades with the distance of data sheets, one of each device, one of each
stack. Each function is a constant, plus a linear function of where the time goes under the roofs
(an efficiency of each group of operators), plus a smooth function of graph and place, plus an
effect of the model itself. So what is learnt on other platforms is the prior of a new one, and its
own levels are what few samples must tell.

    cov(a, b) = sum_l [a, b share level l] (s_l0^2 + s_l1^2 u_a . u_b + s_l2^2 exp(-|x_a - x_b|^2
                / 2 l_x^2 - |v_a - v_b|^2 / 2 l_v^2) + s_l3^2 [same model])

(Coregionalisation by a tree of groups: Bonilla, Chai, Williams, NIPS 2007, with a fixed tree;
additive kernels: Rasmussen, Williams, "Gaussian Processes for Machine Learning", section 4.2.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.graph.transfer.cases import GRAPH, NOBODY, PLACE, Cases, Codes

LEVELS = ("all", "kind", "fusing", "specs", "device", "stack")
OWN = ("device", "stack")
"""Levels that a new platform shares with none."""
TERMS = ("constant", "shares", "smooth", "model")
_BLOCK = 1024
_CLIP = 4.0
_ALSO_LINEAR = tuple(GRAPH.index(name) for name in (
    "log_batch", "mean_channels", "mean_positions", "mean_inner", "macs_intensity_below_64",
    "macs_few_channels", "macs_strided", "share_elements_gelu", "share_elements_sigmoid",
    "share_elements_layer_norm",
))  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """Means and spreads of columns, from the cases that were learnt from."""

    graph_mean: Floats
    graph_spread: Floats
    place_mean: Floats
    place_spread: Floats

    @classmethod
    def of(cls, cases: Cases) -> Scale:
        """Measure the scale of these cases."""
        return cls(
            cases.graph.mean(axis=0), cases.graph.std(axis=0) + 1e-6,
            cases.place.mean(axis=0), cases.place.std(axis=0) + 1e-6,
        )  # fmt: skip

    def scaled(self, cases: Cases) -> tuple[Floats, Floats, Floats]:
        """Return (graph, place, linear): each row of about unit length, nothing beyond 4
        spreads."""
        graph = ((cases.graph - self.graph_mean) / self.graph_spread).clip(-_CLIP, _CLIP)
        place = ((cases.place - self.place_mean) / self.place_spread).clip(-_CLIP, _CLIP)
        linear = np.column_stack((place, graph[:, _ALSO_LINEAR]))
        return (
            graph / np.sqrt(len(GRAPH)), place / np.sqrt(len(PLACE)),
            linear / np.sqrt(linear.shape[1]),
        )  # fmt: skip


@dataclass(frozen=True)
class Own:
    """How unlike others the device of each case is, beyond what was learnt."""

    novelty_scale: Floats
    """[n] factor on the amplitudes of ``OWN`` levels."""
    shift: Floats
    """[n] standard deviation of one more constant of the device: another framework, threads."""

    def __getitem__(self, rows: Codes | slice) -> Own:
        return Own(self.novelty_scale[rows], self.shift[rows])

    @classmethod
    def as_learnt(cls, count: int) -> Own:
        """Return the novelty of devices that the kernel was learnt on."""
        return cls(np.ones(count), np.zeros(count))

    def joined(self, novelty_scale: float, shift: float) -> Own:
        """Return this with one more device."""
        return Own(np.append(self.novelty_scale, novelty_scale), np.append(self.shift, shift))


@dataclass(frozen=True)
class Kernel:
    """A covariance of cases; the module says how it is made."""

    scale: Scale
    amplitudes: Floats
    """[levels, terms] standard deviations, in log time."""
    graph_length: float
    place_length: float
    noise: float
    """Standard deviation of a measurement."""

    def covariance(
        self, a: Cases, b: Cases, own: Own | None = None, right: tuple[Floats, ...] | None = None
    ) -> Floats:
        """Return [len(a), len(b)] covariances, without the noise. ``own``: of the cases ``a``;
        default: as learnt.

        ``right``: ``scale.scaled(b)``, where it is known already.
        """
        covariances = np.empty((len(a), len(b)))
        right = right or self.scale.scaled(b)
        for start in range(0, len(a), _BLOCK):
            rows = slice(start, start + _BLOCK)
            part = a[rows]
            terms = self.terms(part, b, self.scale.scaled(part), right)
            covariances[rows] = self._summed(part, b, terms, None if own is None else own[rows])
        return covariances

    def terms(
        self, a: Cases, b: Cases, left: tuple[Floats, ...], right: tuple[Floats, ...]
    ) -> tuple[Floats, Floats, Floats]:
        """Return linear, smooth and model terms at amplitude 1, each [len(a), len(b)]."""
        apart = squared(left[0], right[0]) / self.graph_length**2
        apart += squared(left[1], right[1]) / self.place_length**2
        same = (a.model[:, None] == b.model) & (a.model != NOBODY)[:, None]
        return left[2] @ right[2].T, np.exp(-0.5 * apart), same.astype(np.float64)

    def _summed(self, a: Cases, b: Cases, terms: tuple[Floats, ...], own: Own | None) -> Floats:
        total = np.zeros((len(a), len(b)))
        for place, (level, shared) in enumerate(resemblances(a, b)):
            constant, *others = (self.amplitudes[place] ** 2).tolist()
            summed = others[0] * terms[0]
            summed += constant
            for weight, term in zip(others[1:], terms[1:], strict=True):
                summed += weight * term
            summed *= shared
            if own is not None and level in OWN:
                summed *= own.novelty_scale[:, None] ** 2
            if own is not None and level == "device":
                summed += shared * own.shift[:, None] ** 2
            total += summed
        return total


def resemblances(a: Cases, b: Cases) -> Iterator[tuple[str, Floats]]:
    """Yield each level with how far cases share it, [len(a), len(b)] in 0 to 1."""
    kind = _same(a.gpu, b.gpu)
    yield "all", np.ones((len(a), len(b)))
    yield "kind", kind
    yield "fusing", kind * _same(a.fused, b.fused)
    yield "specs", np.exp(-0.5 * squared(a.spec, b.spec))
    yield "device", _same(a.device, b.device)
    yield "stack", _same(a.stack, b.stack)


def squared(a: Floats, b: Floats) -> Floats:
    """Return [len(a), len(b)] squared distances of rows."""
    distances = np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b) - 2 * a @ b.T
    return np.asarray(np.maximum(distances, 0.0))


def _same(a: Codes, b: Codes) -> Floats:
    return np.asarray((a[:, None] == b) & (a != NOBODY)[:, None], np.float64)
