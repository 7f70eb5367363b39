"""A bundle of transfer from a tiny table: seconds to make, once."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("scipy")
pytest.importorskip("pandas")
pytest.importorskip("onnx")

import tiny_latency

from berth.predictor.families.graph.transfer.posterior import TransferWidth
from lab.transfer.transfer_bundle import train
from lab.transfer.transfer_cases import Measured, measured_cases

DEVICES = ("3090", "5090", "i7_12700h")
WIDTHS = tuple(
    TransferWidth(samples=samples, gpu=gpu, log_width=width)
    for samples, gpu, width in ((0, True, 0.5), (8, True, 0.3), (0, False, 0.6), (8, False, 0.4))
)


@pytest.fixture(scope="session")
def tiny_table() -> Measured:
    """14 graphs on two GPUs and a CPU at three batches."""
    return measured_cases(tiny_latency.runs(DEVICES, (1, 8, 64)), tiny_latency.graphs())


@pytest.fixture(scope="session")
def tiny_bundle(tiny_table: Measured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on all of it."""
    out = tmp_path_factory.mktemp("transfer") / "bundle"
    train(tiny_table, WIDTHS, "none", out, seed=0, command="a test")
    return out
