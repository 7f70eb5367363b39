"""Marks the laboratory's tests as slow: a site does not install it, so `.ci/run` tests it."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test below this folder as slow; the hook is given the tests of all folders."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.slow)
