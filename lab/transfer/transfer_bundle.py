"""The bundle of transfer: the covariance and the cases of timm's measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from berth.predictor.core.bundle import CARD
from berth.predictor.core.bundle_writing import made_by, versions, write_bundle
from berth.predictor.families.graph.transfer import bundle as bundles
from berth.predictor.families.graph.transfer.kernel import LEVELS, Own
from berth.predictor.families.graph.transfer.posterior import TransferPosterior, TransferWidth
from berth.predictor.learning.graphs.adapt import card, rounded
from lab.datasets import timm
from lab.latency.timm_devices import platform_of
from lab.transfer.platform_kernel import ARCHITECTURES, fit, learn
from lab.transfer.transfer_cases import Measured


def train(
    table: Measured,
    widths: Sequence[TransferWidth],
    split: str,
    out: Path,
    *,
    seed: int,
    command: str,
    most: int = ARCHITECTURES,
) -> bundles.TransferManifest:
    """Learn from all of ``table`` and write ``out``; ``split`` says what ``widths`` are of."""
    used = replace(table, cases=rounded(table.cases))
    kernel = learn(used, seed=seed, most=most)
    after = fit(used, kernel)
    devices = tuple(platform_of(str(name)) for name in np.unique(table.device))
    stacks = tuple(str(name) for name in np.unique(table.stack))
    posterior = TransferPosterior(
        kernel, after.offset, used.cases, after.weights, devices, stacks,
        Own.as_learnt(len(devices)), {}, {}, {}, tuple(widths),
    )  # fmt: skip
    arrays = bundles.arrays_of(posterior, used.residual, np.full(len(used), kernel.noise))
    manifest = bundles.TransferManifest(
        **made_by(command),
        amplitudes={
            level: tuple(row) for level, row in zip(LEVELS, kernel.amplitudes.tolist(), strict=True)
        },
        graph_length=kernel.graph_length, place_length=kernel.place_length, noise=kernel.noise,
        offset=after.offset,
        platforms=tuple(
            bundles.PlatformEntry(platform=name, novelty_scale=1.0) for name in devices
        ),
        stacks=stacks, columns=bundles.COLUMNS,
        widths=tuple(widths),
        split=split,
        training=bundles.TransferTraining(
            sources={one.path: one.sha256 for one in (timm.BENCHMARK, timm.GRAPHS)}, seed=seed,
            rows=len(table), libraries=versions(("numpy", "scipy")),
        ),
    )  # fmt: skip
    files = {bundles.CASES: arrays, CARD: card(manifest).encode()}
    return write_bundle(out, manifest, files, load=bundles.load)
