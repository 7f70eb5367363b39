"""Fixtures: one small bundle of programs, trained once on made-up ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from once import made_once
from toy_profiles import QUICK, examples

from berth.predictor.families.program.predictor import Predictor
from berth.predictor.hardware import platforms
from lab.kernels.program_bundle import train


@pytest.fixture(scope="session")
def toy_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole bundle folder; copy it before changing it."""

    def make(folder: Path) -> None:
        train(
            examples(), platforms.load(), folder / "toy", seed=0, command="test", figures={},
            rounds=QUICK,
        )  # fmt: skip

    return made_once(tmp_path_factory, "bundles", make) / "toy"


@pytest.fixture(scope="session")
def predictor(toy_bundle: Path) -> Predictor:
    return Predictor.load(toy_bundle)
