"""A scheduler in a file: what it was told last, and whether the node is drained."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from berth.pilot.errors import SchedulerError
from berth.plugin.mig.inventory import Fleet
from berth.plugin.mig.node import Notice
from berth.policies.mig import GpuInstance, Layout


@dataclass
class Trouble:
    """``kill`` before or after, or ``fail``, at the ``nth`` call of ``method``."""

    method: str = ""
    nth: int = 1
    action: str = ""
    seen: int = field(default=0, init=False)


class FileKeeper:
    """Publishes only what really stands; every call may meet trouble."""

    def __init__(self, folder: Path, trouble: Trouble | None = None) -> None:
        self._path = folder / "scheduler.json"
        self._trouble = trouble or Trouble()

    @property
    def state(self) -> dict[str, Any]:
        if not self._path.exists():
            return {"drained": None, "published": None, "given": []}
        state: dict[str, Any] = json.loads(self._path.read_text())
        return state

    def give(self, uuid: str, instance: GpuInstance) -> None:
        """The slice now belongs to a job."""
        self._set(given=[*self.state["given"], [uuid, instance.profile, instance.start]])

    def allocated(self, fleet: Fleet) -> frozenset[tuple[str, GpuInstance]]:
        with self._met("allocated"):
            return frozenset((u, GpuInstance(start, p)) for u, p, start in self.state["given"])

    def prepare(self, fleet: Fleet, target: Mapping[str, Layout]) -> Notice:
        with self._met("prepare"):
            old = {gpu.uuid: str(gpu.layout) for gpu in fleet}
            return {"old": old, "new": {**old, **{u: str(x) for u, x in target.items()}}}

    def drain(self, reason: str) -> None:
        with self._met("drain"):
            if self.state["drained"] is None:
                self._set(drained=reason)

    def publish(self, part: Any, fleet: Fleet) -> None:
        with self._met("publish"):
            assert part == {gpu.uuid: str(gpu.layout) for gpu in fleet}, "not what stands"
            self._set(published=part)

    def release(self, reason: str) -> None:
        with self._met("release"):
            if self.state["drained"] == reason:
                self._set(drained=None)

    def _set(self, **fields: Any) -> None:
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(json.dumps({**self.state, **fields}))

    def _met(self, method: str) -> _Met:
        return _Met(self._trouble, method)


class _Met:
    def __init__(self, trouble: Trouble, method: str) -> None:
        hit = trouble.method == method
        trouble.seen += hit
        self._action = trouble.action if hit and trouble.seen == trouble.nth else ""
        self._method = method

    def __enter__(self) -> None:
        if self._action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._action == "fail":
            raise SchedulerError(f"the scheduler fails to {self._method}")

    def __exit__(self, *_: object) -> None:
        if self._action == "killafter":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._action == "lost":
            raise SchedulerError(f"the scheduler's answer to {self._method} is lost")
