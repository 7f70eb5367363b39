"""For all tests: the longest first, and an environment that does not depend on who starts them."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections.abc import Generator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, settings
from thorough import examples

# A busy machine is no failure of a property.
settings.register_profile(
    "berth",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("berth")

LONG = (
    "tests/slurm/",
    "tests/plugin/mig/",
    "tests/plugin/daemon/",
    "tests/plugin/users/",
    "tests/flux/",
    "tests/pilot/",
    "tests/packaging/",
    "tests/lab/",
    "tests/docs/",
    "tests/predictor/",
)
"""Folders whose files take longest, longest first: what is short fills the end of a run."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of `berth` processes are started: without this each would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


_invoke = CliRunner.invoke


def _invoke_and_check(runner: CliRunner, cli: Any, args: Any = None, **more: Any) -> Result:
    """Whatever test runs a command with ``--json``: what it prints is what is documented."""
    result = _invoke(runner, cli, args, **more)
    if args is not None and "--json" in args and result.exit_code in {0, 1}:
        from written_schemas import wrong_answer

        assert wrong_answer(args, result.stdout) == [], "not as in docs/schemas"
    return result


CliRunner.invoke = _invoke_and_check  # type: ignore[method-assign, assignment]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported is never garbage, and no later collection looks at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """`make optional`: a test that is skipped failed, unless kernel or hardware are in its way."""
    report = yield
    if report.skipped and "BERTH_NO_SKIPS" in os.environ and not hasattr(report, "wasxfail"):
        from tests.nightly import OF_THE_MACHINE

        if not re.search("|".join(OF_THE_MACHINE), report.longreprtext):
            report.outcome = "failed"
    return report


def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: tests on a live scheduler mostly wait."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(trylast=True)  # after they were shuffled
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest folders first; files stay whole, and their order within a folder is as it was."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    places = [number for number, folder in enumerate(LONG) if item.nodeid.startswith(folder)]
    return places[0] if places else len(LONG)
