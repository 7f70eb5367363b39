"""The private cluster's node ``mig1`` with a GPU of the fake fleet behind its gres."""

from __future__ import annotations

import os
import re
import signal
import stat
from pathlib import Path

from fake_nvml import FakeFleet
from slurm_cluster import Cluster, wait_until

from berth.plugin.mig.apply import Applier
from berth.plugin.mig.inventory import DeviceFiles
from berth.plugin.mig.nvml import Nvml
from berth.plugin.mig.target import ApplyTarget
from berth.plugin.slurm.mig.keeper import NodeFiles, SlurmKeeper
from berth.plugin.slurm.mig.publishing import CommandRestarter
from berth.plugin.slurm.mig.slots import GresSlot, read_slots
from berth.policies.mig import Layout

FIRST = "1g.5gb@0 1g.5gb@1 2g.10gb@2 3g.20gb@4"
SLEEPER = "#!/bin/sh\nexec sleep 600\n"
MAX_GIS, CAPS_PER_GI = 16, 10


class ClusterRestarter(CommandRestarter):
    """Restarts daemons of the private cluster; slurmctld keeps its state."""

    def __init__(self, slurm: Cluster) -> None:
        self._slurm = slurm

    def controller(self) -> None:
        conf = str(self._slurm.etc / "slurm.conf")
        self._restart("slurmctld", "slurmctld", "-D", "-f", conf)

    def node(self) -> None:
        self._restart(
            "mig1", "slurmd", "-D", "-N", "mig1", "-f", str(self._slurm.etc / "slurm.conf")
        )

    def _restart(self, name: str, *argv: str) -> None:
        pid = self._slurm.pids[name]
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), f"{name} has ended")
        self._slurm.launch(name, *argv)


def prepare(slurm: Cluster) -> NodeFiles:
    """Device files and the driver's capability files, and gres.conf lines of the node's own."""
    dev, proc = slurm.root / "dev", slurm.root / "proc"
    (dev / "nvidia-caps").mkdir(exist_ok=True)
    for number in range(14):
        _device(dev / f"off{number}", 120, number)
    _device(dev / "nvidia0", 195, 0)
    for gi in range(MAX_GIS):
        base = proc / "gpu0" / "mig" / f"gi{gi}"
        for cap, place in enumerate([base, *(base / f"ci{ci}" for ci in range(8))]):
            minor = gi * CAPS_PER_GI + cap
            place.mkdir(parents=True, exist_ok=True)
            (place / "access").write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\n")
            _device(dev / "nvidia-caps" / f"nvidia-cap{minor}", 121, minor)
    own = slurm.etc / "gres-mig1.conf"
    text = (slurm.etc / "gres.conf").read_text()
    if "Include" not in text:
        lines = text.splitlines(keepends=True)
        own.write_text("".join(line for line in lines if "NodeName=mig1" in line))
        rest = "".join(line for line in lines if "NodeName=mig1" not in line)
        (slurm.etc / "gres.conf").write_text(f"{rest}Include {own}\n")
    return NodeFiles(
        node="mig1",
        slurm_conf=slurm.etc / "slurm.conf",
        gres_conf=own,
        padding=f"{dev}/off{{number}}",
        device_map=slurm.work / "mig-devices",
        ready_timeout_s=90,
        devices=DeviceFiles(dev, proc),
    )


def keeper(slurm: Cluster, files: NodeFiles) -> SlurmKeeper:
    """Finds the cluster by SLURM_CONF, as on a real node."""
    return SlurmKeeper(files, ClusterRestarter(slurm))


class Node:
    """The node under test, its GPU and its applier."""

    def __init__(self, slurm: Cluster, fleet: FakeFleet, folder: Path) -> None:
        self.slurm = slurm
        self.fleet = fleet
        self.files: NodeFiles = prepare(slurm)
        self.folder = folder
        self._next_pid = 5000

    def apply(self, layout: str) -> str:
        with Nvml() as nvml:
            applier = Applier(nvml, keeper(self.slurm, self.files), self.folder)
            return applier.apply(ApplyTarget({"0": Layout.parse(layout)})).outcome

    def run_job(self, gres: str) -> int:
        """A job that runs, with a process on the slice that Slurm gave it."""
        job = self.slurm.sbatch("-pmig", f"--gres=gpu:{gres}:1", "--mem=10", script=SLEEPER).id
        self.slurm.wait_for_state(job, "RUNNING", timeout_s=120)
        slot = self.slot_of(job)
        assert slot.type == gres
        assert slot.instance is not None
        self._next_pid += 1
        self.fleet.start_process(0, slot.instance.start, self._next_pid)
        return job

    @property
    def slots(self) -> tuple[GresSlot, ...]:
        slots = read_slots(self.files.gres_conf.read_text(), "mig1")
        assert slots is not None
        return slots

    def slot_of(self, job: int) -> GresSlot:
        (number,) = numbers_of(self.slurm, job)
        return self.slots[number]


def show_node(slurm: Cluster) -> dict[str, str]:
    text = slurm.run("scontrol", "-d", "-o", "show", "node", "mig1").stdout
    return {k: v for k, _, v in (word.partition("=") for word in text.split()) if v}


def numbers_of(slurm: Cluster, job: int) -> set[int]:
    """The numbers of the slices that a job holds."""
    text = slurm.run("scontrol", "-d", "show", "job", str(job)).stdout
    found: set[int] = set()
    for inside in re.findall(r"IDX:([0-9,-]+)", text):
        for part in inside.split(","):
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    return found


def _device(path: Path, major: int, minor: int) -> None:
    if not path.exists():
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
