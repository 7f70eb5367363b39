"""A frobnicator in a folder with a short path, and a Flux of the tests' own where there is one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from flux_bench import FluxBench


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: those of sockets are limited."""
    made = Path(tempfile.mkdtemp(prefix="berth-flux-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def bench(folder: Path) -> FluxBench:
    """A frobnicator that looks for its daemon in ``folder``."""
    return FluxBench(folder)
