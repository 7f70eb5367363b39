"""Compute the covariance of the log times of two cases (a model on a platform with a software
stack).

log(time / roofline time) is a sum of functions, one for each *level* of similarity: all platforms;
all GPUs (or all CPUs); those with operator fusion (or without); platforms with similar data sheets;
one device; one software stack. Each function is the sum of a constant, a linear function of the
shares of roofline time by group of operators (an efficiency of each group), a smooth function of
the case's features, and a constant of each model. The levels shared with measured platforms give
the prior for a new platform; a few samples fit the platform's own levels (device and stack).

    cov(a, b) = sum_l r_l(a, b) (s_l0^2 + s_l1^2 u_a . u_b + s_l2^2 exp(-|x_a - x_b|^2 / 2 l_x^2
                - |v_a - v_b|^2 / 2 l_v^2) + s_l3^2 m(a, b))

``r_l``: 1 if both cases share level l, else 0; for data sheets a similarity from 0 to 1.
``s_l0`` to ``s_l3``: fitted standard deviations in log time (``TransferKernel.amplitudes``).
``u``: features of the linear function, standardised (``FeatureScale.scaled``).
``x``, ``v``: standardised features of the graph and of the graph on the platform (``Cases``).
``l_x``, ``l_v``: fitted length scales (``graph_length``, ``place_length``).
``m``: 1 if both cases are of the same model, else 0.

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
"""Levels that a new platform shares with no measured platform."""
TERMS = ("constant", "shares", "smooth", "model")
_BLOCK = 1024
_CLIP = 4.0
_ALSO_LINEAR = tuple(GRAPH.index(name) for name in (
    "log_batch", "mean_channels", "mean_positions", "mean_inner", "macs_intensity_below_64",
    "macs_few_channels", "macs_strided", "share_elements_gelu", "share_elements_sigmoid",
    "share_elements_layer_norm",
))  # fmt: skip


@dataclass(frozen=True)
class FeatureScale:
    """Means and standard deviations of the feature columns over the training cases."""

    graph_mean: Floats
    graph_spread: Floats
    place_mean: Floats
    place_spread: Floats

    @classmethod
    def of(cls, cases: Cases) -> FeatureScale:
        """Return the means and standard deviations of the feature columns of ``cases``."""
        return cls(
            cases.graph.mean(axis=0), cases.graph.std(axis=0) + 1e-6,
            cases.place.mean(axis=0), cases.place.std(axis=0) + 1e-6,
        )  # fmt: skip

    def scaled(self, cases: Cases) -> tuple[Floats, Floats, Floats]:
        """Return the standardised features (graph, place, linear) of the cases: rows of about unit
        length, values clipped at 4 standard deviations."""
        graph = ((cases.graph - self.graph_mean) / self.graph_spread).clip(-_CLIP, _CLIP)
        place = ((cases.place - self.place_mean) / self.place_spread).clip(-_CLIP, _CLIP)
        linear = np.column_stack((place, graph[:, _ALSO_LINEAR]))
        return (
            graph / np.sqrt(len(GRAPH)), place / np.sqrt(len(PLACE)),
            linear / np.sqrt(linear.shape[1]),
        )  # fmt: skip


@dataclass(frozen=True)
class Own:
    """Factors that make the device of each case less similar to others than the trained covariance
    says."""

    novelty_scale: Floats
    """[n] factor on the standard deviations of the levels in ``OWN``."""
    shift: Floats
    """[n] standard deviation, in log time, of an additional constant of the device, for another
    framework or number of threads."""

    def __getitem__(self, rows: Codes | slice) -> Own:
        return Own(self.novelty_scale[rows], self.shift[rows])

    @classmethod
    def as_learnt(cls, count: int) -> Own:
        """Return the neutral factors (novelty scale 1, shift 0) of ``count`` devices of the
        training data."""
        return cls(np.ones(count), np.zeros(count))

    def joined(self, novelty_scale: float, shift: float) -> Own:
        """Return a copy with the factors of one more device appended."""
        return Own(np.append(self.novelty_scale, novelty_scale), np.append(self.shift, shift))


@dataclass(frozen=True)
class TransferKernel:
    """The covariance of the log times of cases, with the formula in the module's docstring."""

    scale: FeatureScale
    amplitudes: Floats
    """[levels, terms] standard deviations, in log time."""
    graph_length: float
    place_length: float
    noise: float
    """Standard deviation of a measurement in log time."""

    def covariance(
        self, a: Cases, b: Cases, own: Own | None = None, right: tuple[Floats, ...] | None = None
    ) -> Floats:
        """Return the covariances of the log times of two sets of cases, [len(a), len(b)], without
        noise.

        ``own``: factors of the devices of the cases ``a`` (default: as trained). ``right``:
        ``scale.scaled(b)`` if already computed.
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
        """Return the covariance's linear, smooth and same-model terms before multiplication by the
        amplitudes, each [len(a), len(b)]."""
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
    """Yield each level of similarity with the degree to which cases share the level, [len(a),
    len(b)], from 0 to 1."""
    kind = _same(a.gpu, b.gpu)
    yield "all", np.ones((len(a), len(b)))
    yield "kind", kind
    yield "fusing", kind * _same(a.fused, b.fused)
    yield "specs", np.exp(-0.5 * squared(a.spec, b.spec))
    yield "device", _same(a.device, b.device)
    yield "stack", _same(a.stack, b.stack)


def squared(a: Floats, b: Floats) -> Floats:
    """Return the squared Euclidean distances between rows of ``a`` and rows of ``b``, [len(a),
    len(b)]."""
    distances = np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b) - 2 * a @ b.T
    return np.asarray(np.maximum(distances, 0.0))


def _same(a: Codes, b: Codes) -> Floats:
    return np.asarray((a[:, None] == b) & (a != NOBODY)[:, None], np.float64)
