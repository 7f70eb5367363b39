"""Blueprints: wanted MIG layouts down to compute instances, and the changes that a GPU needs to
match its blueprint.

A blueprint is a layout whose instances also say how their compute slices are cut: recorded before
an apply for the way back, made from the target for the way forth. Plain data in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from berth.plugin.mig.inventory import ComputeInstance, GpuRecord, InstanceRecord
from berth.policies.mig import Instance, Layout


@dataclass(frozen=True, slots=True)
class Piece:
    """A wanted GPU instance. ``compute`` None: one compute instance uses all its compute slices."""

    instance: Instance
    compute: tuple[ComputeInstance, ...] | None = None

    @classmethod
    def of(cls, record: InstanceRecord) -> Piece:
        """Return the piece that describes this existing GPU instance."""
        return cls(record.instance, None if record.whole else record.compute)

    def is_met_by(self, record: InstanceRecord) -> bool:
        """Tell whether the existing instance has the wanted profile, place and compute
        instances."""
        if record.instance != self.instance:
            return False
        return record.whole if self.compute is None else record.compute == self.compute


Blueprint = Mapping[str, tuple[Piece, ...]]
"""Wanted pieces by GPU UUID."""


def recorded(fleet: Iterable[GpuRecord], uuids: Iterable[str]) -> dict[str, tuple[Piece, ...]]:
    """Return the present blueprint of the GPUs with these UUIDs."""
    wanted = set(uuids)
    return {g.uuid: tuple(map(Piece.of, g.instances)) for g in fleet if g.uuid in wanted}


def wanted(gpu: GpuRecord, target: Layout) -> tuple[Piece, ...]:
    """Return the pieces for a target layout: existing instances keep their compute instances, new
    instances get one compute instance each.

    An instance without any compute instance is of no use to a job, so it is made anew.
    """
    there = {r.instance: r for r in gpu.instances if r.compute}
    return tuple(Piece.of(there[i]) if i in there else Piece(i) for i in target.instances)


@dataclass(frozen=True, slots=True)
class Changes:
    """The instances that one GPU must destroy, create and keep to match its blueprint."""

    uuid: str
    destroy: tuple[InstanceRecord, ...]
    create: tuple[Piece, ...]
    keep: tuple[InstanceRecord, ...]

    def __bool__(self) -> bool:
        return bool(self.destroy or self.create)


def changes(gpu: GpuRecord, pieces: Iterable[Piece]) -> Changes:
    """Return the changes that take the GPU from its present instances to ``pieces``; instances
    that already match are kept."""
    pieces = tuple(pieces)
    keep = tuple(r for r in gpu.instances if any(p.is_met_by(r) for p in pieces))
    return Changes(
        gpu.uuid,
        destroy=tuple(r for r in gpu.instances if r not in keep),
        create=tuple(p for p in pieces if not any(p.is_met_by(r) for r in keep)),
        keep=keep,
    )
