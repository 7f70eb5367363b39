"""Whatever fails and wherever: the layout is the old or the new one, and what runs is left alone.

Each test goes through the NVML calls of an apply by their number: all that change something, each
with one kind of fault in turn, and a few of those that read. ``make mig-sweep`` (BERTH_MIG_SWEEP=
full) takes every kind of fault at every call.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_nvml import FakeFleet
from runs import Stage
from scenes import BESIDE_RUNNING, SCENES, Scene

from berth.plugin.mig.apply import ApplyReport
from berth.plugin.mig.errors import RolledBack, Unfinished
from berth.plugin.mig.journal import ApplyJournal

CHANGING = (
    "nvmlGpuInstanceDestroy",
    "nvmlComputeInstanceDestroy",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance",
)
CODES = (3, 4, 19, 23, 999)
"""Not supported, no permission, in use, no resources, unknown."""
FULL = os.environ.get("BERTH_MIG_SWEEP") == "full"
STRIDE = 1 if FULL else 41


def by_name(scene: Scene) -> str:
    return scene.name.replace(" ", "-")


@pytest.fixture(params=SCENES, ids=by_name)
def stage(request: pytest.FixtureRequest, fleet: FakeFleet, state_folder: Path) -> Stage:
    return Stage(request.param, fleet, state_folder)


def faults_everywhere(stage: Stage, actions: tuple[str, ...], offset: int = 0) -> Iterator[str]:
    """One fault a run: in every changing call, at every few calls of any kind, and at the last."""
    calls = stage.count_calls()
    for number, function in enumerate(CHANGING):
        for nth in range(1, stage.scene.changes(function) + 1):
            turn = (number + nth + offset) % len(actions)
            here = actions if FULL else actions[turn : turn + 1]
            yield from (f"{function}:{nth}:{action}" for action in here)
    for nth in (*range(1 + offset % STRIDE, calls, STRIDE), calls):
        yield f"*:{nth}:{actions[nth % len(actions)]}"


def test_undisturbed_it_reaches_the_new_layout(stage: Stage) -> None:
    stage.set_up()
    report = stage.apply()
    assert isinstance(report, ApplyReport)
    assert report.outcome == "new"
    assert stage.outcome == "new"


def test_a_call_that_fails_leaves_the_old_or_the_new_layout(stage: Stage) -> None:
    actions = tuple(f"fail:{code}" for code in CODES)
    failed = 0
    for fault in faults_everywhere(stage, actions):
        stage.set_up()
        result = stage.apply(fault)
        failed += not isinstance(result, ApplyReport)
        assert stage.outcome == ("new" if isinstance(result, ApplyReport) else "old"), fault
        assert not isinstance(result, Unfinished), fault
        assert not stage.unfinished(), fault
    assert failed >= stage.scene.all_changes


def test_a_call_that_did_its_work_and_yet_reports_failure(stage: Stage) -> None:
    for fault in faults_everywhere(stage, ("lost:999", "lost:10"), 5):
        stage.set_up()
        result = stage.apply(fault)
        assert stage.outcome == ("new" if isinstance(result, ApplyReport) else "old"), fault
        assert not stage.unfinished(), fault


def test_a_driver_that_says_yes_and_does_nothing(stage: Stage) -> None:
    for function in CHANGING:
        for nth in range(1, stage.scene.changes(function) + 1):
            fault = f"{function}:{nth}:ignore"
            stage.set_up()
            result = stage.apply(fault)
            assert stage.outcome == ("new" if isinstance(result, ApplyReport) else "old"), fault
            assert not stage.unfinished(), fault


def test_a_driver_that_stays_broken_is_brought_to_an_end_once_it_is_mended(stage: Stage) -> None:
    unfinished = 0
    for fault in faults_everywhere(stage, ("fail:999", "fail:23"), 7):
        stage.set_up()
        number, action = fault.split(":", 1)[0], fault.split(":", 1)[1]
        result = stage.apply(f"{number}:{action.replace(':', '+:', 1)}")
        unfinished += isinstance(result, Unfinished)
        stage.resume()
        assert stage.outcome in ("old", "new"), fault
        assert not stage.unfinished(), fault
    assert unfinished >= 3


@pytest.mark.parametrize("action", ["kill", "killafter"])
def test_a_killed_apply_is_resumed_to_the_old_or_the_new_layout(stage: Stage, action: str) -> None:
    outcomes = set()
    killed = 0
    for fault in faults_everywhere(stage, (action,), 3):
        stage.set_up()
        killed += stage.crash_apply(fault)
        stage.resume()
        outcomes.add(stage.outcome)
        assert not stage.unfinished(), fault
    assert killed >= stage.scene.all_changes
    assert outcomes == {"old", "new"}


def test_an_apply_killed_and_its_resume_killed_as_well(stage: Stage) -> None:
    calls = stage.count_calls()
    for step in range(24 if FULL else 10):
        stage.set_up()
        first = (step * 37) % calls + 1
        stage.crash_apply(f"*:{first}:kill")
        stage.crash_resume(f"*:{(step * 71) % calls + 1}:kill")
        stage.resume()
        assert stage.outcome in ("old", "new"), step


def test_after_power_loss_the_recorded_layout_is_made_again(stage: Stage) -> None:
    for fault in faults_everywhere(stage, ("kill",), 9):
        stage.set_up()
        stage.crash_apply(fault)
        begun = bool(ApplyJournal(stage.folder).unfinished())
        stage.fleet.power_loss()
        stage.running = frozenset()
        report = stage.resume()
        if begun:
            assert report.outcome in ("old", "new"), fault
            assert stage.outcome == report.outcome, fault


def test_the_next_apply_ends_a_crashed_one_first(fleet: FakeFleet, state_folder: Path) -> None:
    stage = Stage(BESIDE_RUNNING, fleet, state_folder)
    stage.set_up()
    assert stage.crash_apply("nvmlDeviceCreateGpuInstanceWithPlacement:2:kill")
    report = stage.apply()
    assert isinstance(report, ApplyReport)
    assert (report.resumed, report.outcome) == ("old", "new")
    assert stage.outcome == "new"


def test_a_failure_says_what_failed_and_that_all_is_as_before(
    fleet: FakeFleet, state_folder: Path
) -> None:
    stage = Stage(BESIDE_RUNNING, fleet, state_folder)
    stage.set_up()
    error = stage.apply("nvmlDeviceCreateGpuInstanceWithPlacement:2:fail:23")
    assert isinstance(error, RolledBack)
    assert "nvmlDeviceCreateGpuInstanceWithPlacement" in error.message
    assert "the layout is what it was before" in error.message
