"""A Slurm that answers what a test tells it to."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_commands import FakeCommands
from fake_slurm import recorded_slurm


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCommands:
    """A fake Slurm of three partitions and three nodes."""
    return recorded_slurm(tmp_path / "slurm", monkeypatch)
