"""Ways to predict a new platform from few samples: the shipped process and its baselines.

All predict log time over roofline. Each is fitted to the known platforms once, then to samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from berth.predictor.families.graph.transfer.cases import Cases, Codes
from berth.predictor.families.graph.transfer.kernel import TransferKernel
from berth.predictor.families.graph.transfer.posterior import nearest_residual
from berth.predictor.learning.graphs.posterior import LatencyPosterior
from lab.ground.table import Floats
from lab.transfer.platform_kernel import fit
from lab.transfer.transfer_cases import Measured

Guess: TypeAlias = Callable[[Codes, Floats], Floats]
"""(which cases were measured, their residuals) -> [cases] residuals."""


@dataclass(frozen=True)
class Method:
    """A way to predict."""

    name: str
    what: str
    fit: Callable[[Measured, Cases, TransferKernel], Guess]
    """(known platforms, cases of the new one, kernel learnt on the known ones)."""


def process(known: Measured, asked: Cases, kernel: TransferKernel) -> Guess:
    """Return the one that ships."""
    return guess_of(fit(known, kernel), asked)


def guess_of(after: LatencyPosterior, asked: Cases) -> Guess:
    """Return the process, already fitted."""
    joint = after.joint(asked)
    return lambda samples, residual: joint.moved(samples, residual).mean


def roofline(known: Measured, asked: Cases, kernel: TransferKernel) -> Guess:
    """Return the share of the roofline that known platforms of the kind reach; one factor."""
    del kernel
    alike = _alike(known, asked)
    return _with_factor(np.full(len(asked), float(np.median(known.residual[alike]))))


def nearest(known: Measured, asked: Cases, kernel: TransferKernel) -> Guess:
    """Return the most similar case on the platform with the most similar data sheet; one factor."""
    alike = _alike(known, asked)
    found = nearest_residual(known.cases[alike], known.residual[alike], asked, kernel.scale)
    return _with_factor(found)


METHODS = (
    Method("process", "covariance of platforms learnt on the others, own part from samples",
           process),
    Method("nearest", "most similar case on the most similar platform, one factor", nearest),
    Method("roofline", "roofline at the share known platforms reach, one factor", roofline),
)  # fmt: skip


def _alike(known: Measured, asked: Cases) -> Codes:
    """Return rows of the same kind of platform; all where there is none."""
    found = np.flatnonzero(known.cases.gpu == asked.gpu[0])
    return found if len(found) else np.arange(len(known))


def _with_factor(residual: Floats) -> Guess:
    def guess(samples: Codes, measured: Floats) -> Floats:
        away = measured - residual[samples]
        return residual + (float(np.median(away)) if len(samples) else 0.0)

    return guess
