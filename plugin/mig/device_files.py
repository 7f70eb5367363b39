"""Which device files stand for an instance: what a job's cgroup must allow.

Access to a MIG device goes through ``/dev/nvidia-caps``; the driver tells the minor numbers below
``/proc/driver/nvidia/capabilities`` (NVIDIA MIG user guide, "Device Nodes and Capabilities").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import BerthError
from berth.plugin.mig.inventory import GpuRecord, InstanceRecord


@dataclass(frozen=True, slots=True)
class DeviceFiles:
    """Where the driver keeps them; other folders serve tests."""

    dev: Path = Path("/dev")
    capabilities: Path = Path("/proc/driver/nvidia/capabilities")

    def of_gpu(self, gpu: GpuRecord) -> tuple[str, ...]:
        """A whole GPU."""
        return (str(self.dev / f"nvidia{gpu.minor}"),)

    def of_instance(self, gpu: GpuRecord, record: InstanceRecord) -> tuple[str, ...]:
        """The GPU, the instance's capability and those of its compute instances."""
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
