"""The reference suite, built once for all tests that run kernels."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from once import made_once

from berth.pilot.suite import Suite, build_suite


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder that ``suite`` is built in, for all workers."""
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        pytest.skip("no C compiler")
    return made_once(tmp_path_factory, "kernels", lambda folder: build_suite(cache=folder))


@pytest.fixture(scope="session")
def suite(kernel_cache: Path) -> Suite:
    """The suite as users build it."""
    return build_suite(cache=kernel_cache)
