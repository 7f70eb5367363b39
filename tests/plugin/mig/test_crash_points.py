"""Crashes and failures outside NVML: at each record of the journal, at each word to the scheduler.

And races: a process that starts on a slice in the middle of an apply.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import FakeFleet
from file_keeper import FileKeeper, Trouble
from runs import Stage
from scenes import BESIDE_RUNNING, TWO_GPUS, Scene

from berth.pilot.errors import BerthError
from berth.plugin.mig.apply import ApplyReport
from berth.plugin.mig.errors import Busy, RolledBack, Unfinished
from berth.plugin.mig.journal import ApplyJournal
from berth.plugin.mig.nvml import Nvml
from berth.policies.mig import GpuInstance

METHODS = ("allocated", "prepare", "drain", "publish", "release")


def stage_with(
    scene: Scene, fleet: FakeFleet, folder: Path, trouble: Trouble | None = None
) -> Stage:
    stage = Stage(scene, fleet, folder)
    stage.set_up()
    stage.make_keeper = lambda: FileKeeper(folder / "state", trouble)
    return stage


def check_end(stage: Stage, outcome: str) -> None:
    """The layout, the scheduler's view of it and the drain go together."""
    assert stage.outcome == outcome
    keeper = FileKeeper(stage.folder)
    assert keeper.state["drained"] is None
    with Nvml() as nvml:
        standing = {gpu.uuid: str(gpu.layout) for gpu in nvml.read()}
    assert keeper.state["published"] in (standing, None)
    assert outcome == "old" or keeper.state["published"] == standing


@pytest.mark.parametrize("scene", [BESIDE_RUNNING, TWO_GPUS], ids=["one-gpu", "two-gpus"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("action", ["kill", "killafter"])
def test_killed_while_talking_to_the_scheduler(
    fleet: FakeFleet, state_folder: Path, scene: Scene, method: str, action: str
) -> None:
    stage = stage_with(scene, fleet, state_folder, Trouble(method, 1, action))
    assert stage.crash(lambda nvml: stage.applier(nvml).apply(scene.target))
    stage.make_keeper = lambda: FileKeeper(stage.folder)
    resumed = stage.resume().outcome
    check_end(stage, "old" if resumed == "unchanged" else resumed)
    assert not stage.unfinished()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("action", ["fail", "lost"])
def test_a_scheduler_that_fails_once(
    fleet: FakeFleet, state_folder: Path, method: str, action: str
) -> None:
    stage = stage_with(BESIDE_RUNNING, fleet, state_folder, Trouble(method, 1, action))
    result = stage.apply()
    assert isinstance(result, BerthError)
    if method == "release":
        assert isinstance(result, Unfinished)
        assert "the new layout stands" in result.message
    stage.make_keeper = lambda: FileKeeper(stage.folder)
    stage.resume()
    check_end(stage, "new" if method == "release" else "old")


def kill_at_record(nth: int, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill this process before, in the middle of or after writing the nth journal record."""
    append, write = ApplyJournal.append, os.write
    seen = 0

    def counted(self: ApplyJournal, kind: str, **fields: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == nth and how == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if seen == nth and how == "torn":
            monkeypatch.setattr(os, "write", torn)
        append(self, kind, **fields)
        if seen == nth and how == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    def torn(descriptor: int, data: bytes) -> int:
        write(descriptor, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    monkeypatch.setattr(ApplyJournal, "append", counted)


@pytest.mark.parametrize("how", ["before", "torn", "after"])
def test_killed_at_every_record_of_the_journal(
    fleet: FakeFleet, state_folder: Path, how: str
) -> None:
    outcomes = set()
    for nth in range(1, 12):
        stage = stage_with(TWO_GPUS, fleet, state_folder)

        def apply(nvml: Nvml, nth: int = nth, stage: Stage = stage) -> None:
            kill_at_record(nth, how, pytest.MonkeyPatch())
            stage.applier(nvml).apply(TWO_GPUS.target)

        assert stage.crash(apply), nth
        stage.resume()
        outcomes.add(stage.outcome)
        check_end(stage, stage.outcome)
        assert not stage.unfinished()
    assert outcomes == {"old", "new"}


@pytest.mark.parametrize("nth", range(60, 640, 20))
def test_a_process_that_starts_on_the_way_is_never_destroyed(
    fleet: FakeFleet, state_folder: Path, nth: int
) -> None:
    """On what is to be destroyed: the apply gives up, or the process came too late and failed."""
    stage = Stage(BESIDE_RUNNING, fleet, state_folder)
    stage.set_up()
    result = stage.apply(f"*:{nth}:arrive:0,2,9000")
    arrived = any(s.start == 2 and s.processes for s in fleet.seen())
    assert fleet.touched == 0 or isinstance(result, RolledBack | Busy)
    assert fleet.layout() in (stage.old, BESIDE_RUNNING.looks_new)
    assert stage.running <= fleet.running()
    if arrived and not isinstance(result, ApplyReport):
        assert fleet.layout() == stage.old
    if arrived and isinstance(result, ApplyReport):
        assert fleet.layout() == BESIDE_RUNNING.looks_new


def test_a_process_on_a_new_slice_bars_the_way_back_so_resume_goes_forth(
    fleet: FakeFleet, state_folder: Path
) -> None:
    stage = Stage(BESIDE_RUNNING, fleet, state_folder)
    stage.set_up()
    assert stage.crash_apply("nvmlDeviceCreateGpuInstanceWithPlacement:2:kill")
    fleet.start_process(0, 2, 9001)
    stage.running = fleet.running()
    assert stage.resume().outcome == "new"
    assert stage.outcome == "new"


def test_when_both_ways_are_barred_nothing_is_touched_until_one_is_free(
    fleet: FakeFleet, state_folder: Path
) -> None:
    scene = Scene("", ("a30", "a30"), ("2g.12gb@0",) * 2, ("1g.6gb@0 1g.6gb@1",) * 2)
    stage = Stage(scene, fleet, state_folder)
    stage.set_up()
    # The first GPU is new, the second still old.
    assert stage.crash_apply("nvmlComputeInstanceDestroy:2:kill")
    look = fleet.layout()
    for gpu in (0, 1):
        fleet.start_process(gpu, 0, 9100 + gpu)
    with pytest.raises(Unfinished, match="in use"):
        stage.resume()
    assert fleet.layout() == look
    fleet.end_process(9100)
    stage.running = fleet.running()
    assert stage.resume().outcome == "old"
    assert stage.outcome == "old"


def test_a_slice_that_belongs_to_a_job_is_waited_for_and_then_refused(
    fleet: FakeFleet, state_folder: Path
) -> None:
    stage = stage_with(BESIDE_RUNNING, fleet, state_folder)
    with Nvml() as nvml:
        (gpu,) = nvml.read()
        FileKeeper(stage.folder).give(gpu.uuid, GpuInstance(2, "2g.10gb"))
        with pytest.raises(Busy, match="allocated to a job"):
            stage.applier(nvml).apply(BESIDE_RUNNING.target, wait_s=0.2)
    check_end(stage, "old")


def test_instances_of_somebody_else_are_never_destroyed(
    fleet: FakeFleet, state_folder: Path
) -> None:
    stage = Stage(BESIDE_RUNNING, fleet, state_folder)
    stage.set_up()
    assert stage.crash_apply("nvmlDeviceCreateGpuInstanceWithPlacement:1:kill")
    fleet.create(0, "1g.10gb", 2)
    look = fleet.layout()
    with pytest.raises(Unfinished, match=r"somebody else made: 1g\.10gb@2"):
        stage.resume()
    assert fleet.layout() == look


@pytest.mark.parametrize("text", ["", "{", "[]\n", '{"kind": "end"}\n', "\0" * 50, "7\n"])
def test_a_journal_without_a_beginning_is_no_unfinished_apply(
    state_folder: Path, text: str
) -> None:
    (state_folder / "apply.journal").write_text(text)
    assert ApplyJournal(state_folder).unfinished() == []


@pytest.mark.parametrize("record", ['{"kind": "begin"}', '{"kind": "begin", "id": 1, "old": 7}'])
def test_a_beginning_that_cannot_be_read_is_told(
    fleet: FakeFleet, state_folder: Path, record: str
) -> None:
    (state_folder / "apply.journal").write_text(record + "\n")
    stage = Stage(BESIDE_RUNNING, fleet, state_folder)
    stage.folder = state_folder
    with pytest.raises(BerthError, match="journal's first record"):
        stage.resume()


def test_without_a_place_for_the_journal_nothing_is_touched(
    fleet: FakeFleet, state_folder: Path
) -> None:
    stage = Stage(BESIDE_RUNNING, fleet, state_folder)
    stage.set_up()
    stage.folder.mkdir()
    (stage.folder / "apply.journal").mkdir()
    result = stage.apply()
    assert isinstance(result, BerthError)
    assert fleet.layout() == stage.old
    blocked = Stage(BESIDE_RUNNING, fleet, state_folder)
    blocked.folder = Path("/proc/none")
    assert isinstance(blocked.apply(), BerthError)
    assert fleet.layout() == stage.old


def test_an_end_that_cannot_be_written_says_which_layout_stands(
    fleet: FakeFleet, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stage_with(BESIDE_RUNNING, fleet, state_folder)
    append = ApplyJournal.append

    def full_at_the_end(self: ApplyJournal, kind: str, **fields: Any) -> None:
        if kind == "end":
            raise BerthError("no space left")
        append(self, kind, **fields)

    monkeypatch.setattr(ApplyJournal, "append", full_at_the_end)
    result = stage.apply()
    assert isinstance(result, Unfinished)
    assert "the new layout stands" in result.message
    monkeypatch.undo()
    stage.resume()
    check_end(stage, "new")


def test_a_folder_that_cannot_be_synced_is_said_in_a_sentence(
    fleet: FakeFleet, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stage_with(BESIDE_RUNNING, fleet, state_folder)

    def broken(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    result = stage.apply()
    assert isinstance(result, BerthError)
    assert "Input/output error" in result.message
    assert fleet.layout() == stage.old
