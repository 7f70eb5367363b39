"""Applies with faults, in this process or in one that is killed on the way."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from fake_nvml import FakeFleet
from scenes import Look, Scene

from berth.pilot.errors import BerthError
from berth.plugin.mig.apply import Applier, ApplyReport
from berth.plugin.mig.errors import Unfinished
from berth.plugin.mig.node import Keeper, NoKeeper
from berth.plugin.mig.nvml import Nvml

MakeKeeper = Callable[[], Keeper]
COUNTS = {"failed": 0, "killed": 0}
"""Applies with a fault in them, over the whole test run."""


def forked(step: Callable[[], object]) -> int:
    """The status as ``os.waitpid`` gives it; an error of Berth's is an orderly end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            step()
            status = 0
        except BerthError:
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


class Stage:
    """A scene set up anew for each run, and the property that every run must keep."""

    def __init__(self, scene: Scene, fleet: FakeFleet, folder: Path) -> None:
        self.scene = scene
        self.fleet = fleet
        self.folder = folder / "state"
        self.make_keeper: MakeKeeper = NoKeeper
        self.old: Look = frozenset()
        self.running: frozenset[tuple[int, int]] = frozenset()

    def set_up(self) -> None:
        self.old = self.scene.set_up(self.fleet)
        self.running = self.fleet.running()
        shutil.rmtree(self.folder, ignore_errors=True)

    def apply(self, faults: str = "") -> ApplyReport | BerthError:
        """One apply in this process; its report, or the error it ended with."""
        COUNTS["failed"] += bool(faults)
        self.fleet.faults(faults)
        try:
            with Nvml() as nvml:
                return self.applier(nvml).apply(self.scene.target)
        except BerthError as error:
            return error
        finally:
            self.fleet.faults("")

    def applier(self, nvml: Nvml) -> Applier:
        return Applier(nvml, self.make_keeper(), self.folder)

    def crash(self, step: Callable[[Nvml], object], faults: str = "") -> bool:
        """``step`` in a copy of this process; True where it was killed on the way."""

        def taken() -> None:
            self.fleet.faults(faults)
            with Nvml() as nvml:
                step(nvml)

        status = forked(taken)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        COUNTS["killed"] += killed
        return killed

    def crash_apply(self, faults: str) -> bool:
        """An apply in such a copy."""
        return self.crash(lambda nvml: self.applier(nvml).apply(self.scene.target), faults)

    def crash_resume(self, faults: str) -> bool:
        """The same for a resume."""
        return self.crash(lambda nvml: self.applier(nvml).resume(), faults)

    def resume(self) -> ApplyReport:
        with Nvml() as nvml:
            return self.applier(nvml).resume()

    def unfinished(self) -> bool:
        with Nvml() as nvml:
            try:
                return self.applier(nvml).resume().outcome != "unchanged"
            except Unfinished:
                return True

    @property
    def outcome(self) -> str:
        """``old`` or ``new``; anything in between fails. No running instance was touched."""
        look = self.fleet.layout()
        assert look in (self.old, self.scene.looks_new), sorted(look)
        assert self.fleet.running() == self.running
        assert self.fleet.touched == 0
        return "new" if look == self.scene.looks_new else "old"

    def count_calls(self) -> int:
        """NVML calls of an apply that nothing disturbs."""
        self.set_up()
        self.fleet.faults("")
        with Nvml() as nvml:
            self.applier(nvml).apply(self.scene.target)
        calls = self.fleet.calls
        assert self.outcome == "new"
        return calls
