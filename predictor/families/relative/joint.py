"""A workload's times on many platforms together: what is known of one tells of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.core.value_of_run import RUN_NOISE

_JITTER = 1e-9


@dataclass(frozen=True, slots=True)
class Joint:
    """Jointly Gaussian log times of one workload."""

    platforms: tuple[str, ...]
    mean: Floats
    """Log seconds, one a platform."""
    covariance: Floats
    """Platforms x platforms; rows of zeros: that time is known."""
    regret_share: float = 1.0
    """What held-out applications regretted (log) as a share of what their Gaussians expected."""

    def __post_init__(self) -> None:
        n = len(self.platforms)
        if self.mean.shape != (n,) or self.covariance.shape != (n, n):
            raise ValueError(f"{n} platforms, {self.mean.shape} means, {self.covariance.shape}")

    def columns(self, platforms: Sequence[str]) -> list[int]:
        """Indices of ``platforms``. Raises UsageError for one that is not predicted."""
        if unknown := [name for name in platforms if name not in self.platforms]:
            raise UsageError(
                f"{unknown[0]!r} is not among the platforms that are predicted",
                hint=f"they are: {', '.join(self.platforms)}",
            )
        return [self.platforms.index(name) for name in platforms]

    def among(self, platforms: Sequence[str]) -> Joint:
        """Of these platforms only. Raises UsageError for one that is not predicted."""
        chosen = self.columns(platforms)
        covariance = self.covariance[np.ix_(chosen, chosen)]
        return Joint(tuple(platforms), self.mean[chosen], covariance, self.regret_share)

    def gain(self, columns: Sequence[int], noise: float = RUN_NOISE) -> Floats:
        """Platforms x probes: how far each mean moves with each probe's surprise.

        The regression of a Gaussian on some of its coordinates, seen with ``noise`` (standard
        deviation in log time).
        """
        probed = list(columns)
        noises = (noise**2 + _JITTER) * np.eye(len(probed))
        seen = self.covariance[np.ix_(probed, probed)] + noises
        return np.asarray(np.linalg.solve(seen, self.covariance[probed]).T)

    def knowing(self, log_seconds: Mapping[str, float], noise: float = RUN_NOISE) -> Joint:
        """The same workload after runs on some platforms; their times are then known.

        Raises UsageError for a platform that is not predicted or a time that is not finite.
        """
        if not log_seconds:
            return self
        columns = self.columns(list(log_seconds))
        times = np.array(list(log_seconds.values()), dtype=np.float64)
        if not np.isfinite(times).all():
            name = list(log_seconds)[int(np.flatnonzero(~np.isfinite(times))[0])]
            raise UsageError(f"the time on {name} is not a positive number")
        gain = self.gain(columns, noise)
        mean = self.mean + gain @ (times - self.mean[columns])
        covariance = self.covariance - gain @ self.covariance[columns]
        covariance = (covariance + covariance.T) / 2
        mean[columns] = times
        covariance[columns, :] = covariance[:, columns] = 0.0
        return Joint(self.platforms, mean, covariance, self.regret_share)

    @property
    def deviation(self) -> Floats:
        """Standard deviation of each log time."""
        return np.asarray(np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    def draws(self, count: int, seed: int) -> Floats:
        """``count`` (even) antithetic draws x platforms of the deviation from the mean."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        half = np.random.default_rng(seed).standard_normal((count // 2, len(self.platforms)))
        return np.asarray(np.vstack([half, -half]) @ root.T)
