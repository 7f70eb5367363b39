"""For all tests: SIGINT reaches programs that they start, and tests of one server stay together."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no failure of a property.
settings.register_profile("berth", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("berth")

GROUPS = ("slurm", "flux")
"""Markers whose tests share one server: with pytest-xdist one worker runs all of them."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of one real scheduler on one worker."""
    for item in items:
        for name in GROUPS:
            if item.get_closest_marker(name) is not None:
                item.add_marker(pytest.mark.xdist_group(name))
