"""Applies a target MIG layout to this machine's GPUs: preview, apply, or resume after a crash."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from berth.pilot.errors import UsageError
from berth.plugin.host import HOST, Host
from berth.plugin.mig.blueprint import changes, recorded, wanted
from berth.plugin.mig.errors import NvmlFailure, PlanRefused
from berth.plugin.mig.inventory import Fleet
from berth.plugin.mig.journal import ApplyJournal, applier_lock, refuse_while_locked
from berth.plugin.mig.node import Keeper
from berth.plugin.mig.nvml import Nvml
from berth.plugin.mig.target import ApplyTarget, checked, find
from berth.plugin.mig.transaction import ApplyTerms, Transaction
from berth.policies.mig import GpuInstance, Layout, lookup


@dataclass(frozen=True, slots=True)
class GpuPreview:
    """The instances of one GPU that an apply destroys, creates and keeps."""

    uuid: str
    index: int
    name: str
    destroy: tuple[GpuInstance, ...]
    create: tuple[GpuInstance, ...]
    keep: tuple[GpuInstance, ...]
    busy: tuple[GpuInstance, ...]
    """Instances in ``destroy`` that processes are using now."""

    def as_json(self) -> dict[str, Any]:
        """Return the preview as data for ``--json``."""
        lists = ("destroy", "create", "keep", "busy")
        own = {"gpu": self.uuid, "index": self.index, "name": self.name}
        return own | {name: [str(i) for i in getattr(self, name)] for name in lists}


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """The result of an apply or a resume."""

    outcome: str
    """The layout in place at the end: ``new``, ``old`` or ``unchanged``."""
    id: str | None
    gpus: tuple[GpuPreview, ...] = ()
    resumed: str | None = None
    """The result of an earlier, unfinished apply that was completed first: ``new`` or ``old``;
    None: no such apply."""

    def as_json(self) -> dict[str, Any]:
        """Return the report as data for ``--json``."""
        own = {"outcome": self.outcome, "id": self.id, "resumed": self.resumed}
        return own | {"gpus": [preview.as_json() for preview in self.gpus]}


class Applier:
    """Applies target layouts to this machine's GPUs, with one state folder and one keeper."""

    def __init__(
        self,
        nvml: Nvml,
        keeper: Keeper,
        folder: Path,
        *,
        tell: Callable[[str], None] = lambda _: None,
        host: Host = HOST,
    ) -> None:
        self._host = host
        self._nvml = nvml
        self._keeper = keeper
        self._folder = folder
        self._journal = ApplyJournal(folder, host=host)
        self._tell = tell

    def preview(self, target: ApplyTarget) -> tuple[GpuPreview, ...]:
        """Return what an apply would change on each GPU; reads only. Raises PlanRefused, and the
        errors of ``read_fleet``."""
        if interruption := self._journal.interruption():
            self._tell(interruption)
        fleet = read_fleet(self._nvml, self._folder, host=self._host)
        return previews(fleet, checked(target, fleet))

    def apply(
        self, target: ApplyTarget, *, wait_s: float = 0.0, enable_mig: bool = False
    ) -> ApplyReport:
        """Change the GPUs to the target layouts, or restore the old layouts.

        An unfinished earlier apply is completed first. Raises Locked, PlanRefused or Busy (nothing
        was changed), RolledBack (the old layouts are restored) or Unfinished (``resume``
        continues).
        """
        with applier_lock(self._folder, host=self._host):
            resumed = self._resume()
            if enable_mig:
                self._enable(target)
            fleet = self._nvml.read()
            layouts = checked(target, fleet)
            shown = previews(fleet, layouts)
            touched = {p.uuid for p in shown if p.destroy or p.create}
            if not touched:
                return ApplyReport("unchanged", None, shown, resumed)
            terms = self._terms(fleet, {u: layouts[u] for u in layouts if u in touched})
            self._transaction(terms, wait_s).run()
            return ApplyReport("new", terms.id, shown, resumed)

    def resume(self) -> ApplyReport:
        """Complete an unfinished apply; the outcome is ``unchanged`` where there is none."""
        with applier_lock(self._folder, host=self._host):
            outcome = self._resume()
        return ApplyReport(outcome or "unchanged", None, resumed=outcome)

    def _resume(self) -> str | None:
        records = self._journal.unfinished()
        if not records:
            return None
        terms = ApplyTerms.from_record(records[0])
        self._tell(f"going on with the unfinished apply {terms.id}")
        return self._transaction(terms).resume(records)

    def _transaction(self, terms: ApplyTerms, wait_s: float = 0.0) -> Transaction:
        return Transaction(
            terms, self._nvml, self._keeper, self._journal, wait_s=wait_s, tell=self._tell,
            clock=self._host.clock,
        )  # fmt: skip

    def _terms(self, fleet: Fleet, layouts: dict[str, Layout]) -> ApplyTerms:
        by_uuid = {gpu.uuid: gpu for gpu in fleet}
        return ApplyTerms(
            id=secrets.token_hex(4),
            old=recorded(fleet, layouts),
            new={u: wanted(by_uuid[u], layout) for u, layout in layouts.items()},
            notice=self._keeper.prepare(fleet, layouts),
        )

    def _enable(self, target: ApplyTarget) -> None:
        """Switch MIG on where the target needs it, once the scheduler's part is known to allow the
        new layouts: a job may hold a GPU that no process uses yet."""
        fleet = self._nvml.read()
        layouts = {find(fleet, name).uuid: layout for name, layout in target.layouts.items()}
        off = [gpu for gpu in fleet if gpu.uuid in layouts and gpu.capable and not gpu.enabled]
        cut = {g.uuid: replace(g, enabled=True, geometry=lookup(g.name)) for g in off}
        if cut:
            self._keeper.prepare(tuple(cut.get(gpu.uuid, gpu) for gpu in fleet), layouts)
        for gpu in off:
            if not gpu.pending and self._nvml.set_mig_mode(gpu.uuid, on=True):
                continue
            raise PlanRefused(
                f"MIG is switched on for GPU {gpu.index} only by a reset of the GPU",
                hint=f"when it is empty: nvidia-smi --gpu-reset -i {gpu.index}; then apply again",
            )


def undoing(folder: Path) -> ApplyTarget:
    """Return the layouts from before the last apply of this state folder, which the GPUs may leave
    only as that apply left them. Raises UsageError where there was none."""
    journal = ApplyJournal(folder)
    record = journal.last_new()
    if record is None:
        raise UsageError(
            "no apply has changed this machine's layouts, so there is nothing to undo",
            hint=journal.interruption() or f"they would be in {folder}",
        )
    terms = ApplyTerms.from_record(record)
    old, new = (
        {uuid: Layout.of(*(piece.instance for piece in pieces)) for uuid, pieces in layouts.items()}
        for layouts in (terms.old, terms.new)
    )
    return ApplyTarget(old, new, "the last apply")


def read_fleet(nvml: Nvml, folder: Path, *, host: Host = HOST) -> Fleet:
    """Return the GPUs as they are, without taking the lock of the state folder.

    Raises Locked where NVML fails while another process holds the lock, otherwise NvmlFailure.
    """
    try:
        return nvml.read()
    except NvmlFailure:
        refuse_while_locked(folder, host=host)
    return nvml.read()  # the other process may just have ended


def previews(fleet: Fleet, layouts: dict[str, Layout]) -> tuple[GpuPreview, ...]:
    """Return a preview for each GPU in ``layouts`` (layout by UUID)."""
    shown = []
    for gpu in fleet:
        if gpu.uuid not in layouts:
            continue
        needed = changes(gpu, wanted(gpu, layouts[gpu.uuid]))
        shown.append(
            GpuPreview(
                gpu.uuid, gpu.index, gpu.name,
                destroy=tuple(r.instance for r in needed.destroy),
                create=tuple(p.instance for p in needed.create),
                keep=tuple(r.instance for r in needed.keep),
                busy=tuple(r.instance for r in needed.destroy if r.pids),
            )
        )  # fmt: skip
    return tuple(shown)
