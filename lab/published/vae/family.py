"""VAE + DNN as a family of relative performance."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.datasets.aiwc import CPUS
from lab.published.relative_networks import export
from lab.published.vae.network import Network, train
from lab.published.vae.settings import VaeDnn
from lab.relative.families import log_features


@dataclass(frozen=True, slots=True)
class FittedVae:
    """A trained network and the platforms that it answers for."""

    network: Network
    platforms: tuple[str, ...]

    def log_seconds(self, rows: Rows) -> Floats:
        """Rows x platforms; a time that is known is given back."""
        guess = rows.log_reference[:, None] - export.apply(self.network, log_features(rows))
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)

    def onnx(self, rows: Rows) -> bytes:
        """Log features -> log speedups, as ``relative.bundle`` serves them.

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
        """In one line."""
        rows = "CPU profiles" if self.counted_on_cpu else "rows fastest on a CPU"
        return (
            f"sigma-VAE (latent {self.settings.latent}, calibrated first on the {rows}), "
            f"DNN {' x '.join(map(str, self.settings.dnn))}; Nichols et al."
        )

    def fit(self, rows: Rows, seed: int) -> FittedVae:
        """Learn from all rows; missing labels allowed."""
        network, _ = train(
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
