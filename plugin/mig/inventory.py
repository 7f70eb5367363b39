"""This machine's GPUs as NVML describes them, and the device files that a job's cgroup must allow.

Access to a MIG device goes through ``/dev/nvidia-caps``; the driver reports the minor numbers under
``/proc/driver/nvidia/capabilities`` (NVIDIA MIG user guide, "Device Nodes and Capabilities"). The
records hold no driver handles.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import BerthError
from berth.policies.mig import Geometry, GpuInstance, GpuState, Layout, Running


@dataclass(frozen=True, slots=True, order=True)
class ComputeInstance:
    """A compute instance: the part of a GPU instance's compute slices on which programs run."""

    start: int
    size: int
    profile_id: int


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """A GPU instance that exists now, with its compute instances and processes."""

    instance: GpuInstance
    gi_id: int
    profile_id: int
    compute: tuple[ComputeInstance, ...]
    whole: bool
    """True where one compute instance has all compute slices, as a plain profile name implies."""
    uuids: tuple[str, ...] = ()
    """MIG device UUIDs, as CUDA_VISIBLE_DEVICES takes them."""
    compute_ids: tuple[int, ...] = ()
    pids: tuple[int, ...] = ()
    """Ids of the processes that use the instance now."""


@dataclass(frozen=True, slots=True)
class GpuRecord:
    """One GPU with its MIG mode, the profiles it supports and its present instances."""

    uuid: str
    index: int
    minor: int
    """Number in ``/dev/nvidia<minor>``."""
    name: str
    capable: bool
    enabled: bool
    pending: bool
    """The MIG mode after the next reset of the GPU."""
    geometry: Geometry | None
    """The MIG geometry; None where MIG is off or unsupported."""
    instances: tuple[InstanceRecord, ...] = ()
    pci_id: str = ""
    """Device and vendor as mig-parted's ``device-filter`` writes them, e.g. ``0x20B010DE``."""

    @property
    def layout(self) -> Layout:
        """Return the GPU's present instances as a layout."""
        return Layout.of(*(record.instance for record in self.instances))

    def find(self, instance: GpuInstance) -> InstanceRecord | None:
        """Return the record of that instance; None where the instance does not exist."""
        return next((r for r in self.instances if r.instance == instance), None)

    def state(
        self, name: str | None = None, *, held: Collection[tuple[str, GpuInstance]] = ()
    ) -> GpuState | None:
        """Return the GPU's state for the planner; None where MIG is off or unsupported.

        ``held``: instances, by GPU UUID, that belong to jobs even if no process uses them.
        """
        if self.geometry is None:
            return None
        running = tuple(
            Running(r.instance, uuid=r.uuids[0] if r.uuids else None)
            for r in self.instances
            if r.pids or (self.uuid, r.instance) in held
        )
        return GpuState(name or self.uuid, self.geometry, self.layout, running, self.enabled)


Fleet = tuple[GpuRecord, ...]


@dataclass(frozen=True, slots=True)
class DeviceFiles:
    """The folders of the driver's device files and capabilities; tests use other folders."""

    dev: Path = Path("/dev")
    capabilities: Path = Path("/proc/driver/nvidia/capabilities")

    def of_gpu(self, gpu: GpuRecord) -> tuple[str, ...]:
        """Return the device file of a whole GPU."""
        return (str(self.dev / f"nvidia{gpu.minor}"),)

    def of_instance(self, gpu: GpuRecord, record: InstanceRecord) -> tuple[str, ...]:
        """Return the device files of a MIG instance: the GPU's, the instance's capability and those
        of its compute instances."""
        below = self.capabilities / f"gpu{gpu.minor}" / "mig" / f"gi{record.gi_id}"
        grants = [below / "access"]
        grants += [below / f"ci{number}" / "access" for number in record.compute_ids]
        return (*self.of_gpu(gpu), *(self._file(grant) for grant in grants))

    def _file(self, grant: Path) -> str:
        try:
            text = grant.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise BerthError(f"{grant}: cannot be read: {error}") from None
        match = re.search(r"DeviceFileMinor:\s*(\d+)", text)
        if match is None:
            raise BerthError(f"{grant}: names no DeviceFileMinor")
        return str(self.dev / "nvidia-caps" / f"nvidia-cap{match.group(1)}")
