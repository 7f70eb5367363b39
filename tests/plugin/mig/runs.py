"""Applies with faults, in this process or in one that is killed on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from crash_server import forked
from fake_nvml import SONAME, FakeFleet
from scenes import Look, Scene

from berth.pilot.errors import BerthError
from berth.plugin.mig.apply import Applier, ApplyReport
from berth.plugin.mig.errors import Unfinished
from berth.plugin.mig.node import Keeper, NoKeeper
from berth.plugin.mig.nvml import Nvml

MakeKeeper = Callable[[], Keeper]
COUNTS = {"failed": 0, "killed": 0}
"""Applies with a fault in them, over the whole test run."""


class _Server:
    """The process that forks for crashes; it ends with this one, at the end of its input."""

    def __init__(self, library: Path, state: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("crash_server.py"), library, state],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def status(self, order: Mapping[str, object]) -> int:
        """The exit status of a fork that did it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


_SERVERS: dict[Path, _Server] = {}


def _server(fleet: FakeFleet) -> _Server:
    if fleet.state not in _SERVERS:
        _SERVERS[fleet.state] = _Server(fleet.library_folder / SONAME, fleet.state)
    return _SERVERS[fleet.state]


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

    def crash(self, step: Callable[[Nvml], object]) -> bool:
        """``step`` in a copy of this process; True where it was killed on the way."""

        def taken() -> None:
            self.fleet.faults("")
            with Nvml() as nvml:
                step(nvml)

        return self._killed(forked(taken))

    def crash_apply(self, faults: str) -> bool:
        """An apply without a scheduler, in another process; True where it was killed."""
        return self._crash(self.scene.new, faults)

    def crash_resume(self, faults: str) -> bool:
        """The same for a resume."""
        return self._crash(None, faults)

    def _crash(self, target: Sequence[str] | None, faults: str) -> bool:
        assert self.make_keeper is NoKeeper, "only applies without a scheduler crash over there"
        order = {"target": target, "folder": str(self.folder), "faults": faults}
        return self._killed(_server(self.fleet).status(order))

    def _killed(self, status: int) -> bool:
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        COUNTS["killed"] += killed
        return killed

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
