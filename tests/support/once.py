"""What is made once in a test run, whichever of its workers needs it first."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that ``make`` filled, for all workers of pytest-xdist; do not change it.

    The others wait meanwhile. Where ``make`` fails, the next who asks tries again.
    """
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = base / name
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            half = base / f"{name}.{os.getpid()}"
            half.mkdir()
            make(half)
            half.rename(folder)
    return folder
