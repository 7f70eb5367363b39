"""The wanted state of GPUs down to compute instances, and the changes that reach it.

A blueprint is a layout that also says how the compute slices of each instance are divided. The old
blueprint is recorded before an apply, for turning back; the new one is made from the target. Both
are plain data in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from berth.plugin.mig.inventory import ComputeInstance, GpuRecord, InstanceRecord
from berth.policies.mig import GpuInstance, Layout


@dataclass(frozen=True, slots=True)
class Piece:
    """A wanted GPU instance. ``compute`` None: one compute instance takes all its compute
    slices."""

    instance: GpuInstance
    compute: tuple[ComputeInstance, ...] | None = None

    @classmethod
    def of(cls, record: InstanceRecord) -> Piece:
        """Return the wanted instance that equals this existing one, with the same compute
        instances."""
        return cls(record.instance, None if record.whole else record.compute)

    def is_met_by(self, record: InstanceRecord) -> bool:
        """Return whether the existing instance has the wanted profile, position and compute
        instances."""
        if record.instance != self.instance:
            return False
        return record.whole if self.compute is None else record.compute == self.compute


Blueprint = Mapping[str, tuple[Piece, ...]]
"""Wanted GPU instances by GPU UUID."""


def recorded(fleet: Iterable[GpuRecord], uuids: Iterable[str]) -> dict[str, tuple[Piece, ...]]:
    """Return the present instances of the GPUs with these UUIDs as a blueprint."""
    wanted = set(uuids)
    return {g.uuid: tuple(map(Piece.of, g.instances)) for g in fleet if g.uuid in wanted}


def wanted(gpu: GpuRecord, target: Layout) -> tuple[Piece, ...]:
    """Return the wanted instances for a target layout.

    An existing instance keeps its compute instances; a new one gets one compute instance over all
    its compute slices. An instance without any compute instance is useless to jobs, so it is made
    anew.
    """
    there = {r.instance: r for r in gpu.instances if r.compute}
    return tuple(Piece.of(there[i]) if i in there else Piece(i) for i in target.instances)


@dataclass(frozen=True, slots=True)
class InstanceChanges:
    """The instances to destroy, create and keep so that one GPU matches its blueprint."""

    uuid: str
    index: int
    destroy: tuple[InstanceRecord, ...]
    create: tuple[Piece, ...]
    keep: tuple[InstanceRecord, ...]

    def __bool__(self) -> bool:
        return bool(self.destroy or self.create)


def changes(gpu: GpuRecord, pieces: Iterable[Piece]) -> InstanceChanges:
    """Return the changes that take the GPU from its present instances to the wanted ones in
    ``pieces``."""
    pieces = tuple(pieces)
    keep = tuple(r for r in gpu.instances if any(p.is_met_by(r) for p in pieces))
    return InstanceChanges(
        gpu.uuid,
        gpu.index,
        destroy=tuple(r for r in gpu.instances if r not in keep),
        create=tuple(p for p in pieces if not any(p.is_met_by(r) for r in keep)),
        keep=keep,
    )
