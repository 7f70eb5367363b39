"""A Slurm that answers what a test tells it to."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_slurm import FakeSlurm


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A fake Slurm of three partitions and three nodes."""
    return FakeSlurm(tmp_path / "slurm", monkeypatch)
