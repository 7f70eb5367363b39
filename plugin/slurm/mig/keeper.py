"""Slurm's part in changing MIG slices: drains the node, publishes its gres, restarts Slurm,
resumes.

In the mode ``explicit`` Berth writes one gres.conf line per slice and pads to a constant total, so
that jobs on the node's other slices keep running. In the mode ``autodetect`` slurmd finds the
slices by NVML (``AutoDetect=nvml``); the total changes with the layout, so no job may use a GPU of
the node.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from berth.pilot.documents import write_text
from berth.pilot.errors import BerthError, SchedulerError
from berth.plugin.mig.errors import PlanRefused
from berth.plugin.mig.inventory import DeviceFiles, Fleet, GpuRecord
from berth.plugin.mig.node import Notice
from berth.plugin.slurm.commands import run
from berth.plugin.slurm.mig.publishing import (
    CommandRestarter,
    ControllerPublisher,
    LocalPublisher,
    read_config_file,
)
from berth.plugin.slurm.mig.queue import STRANDED, waiting
from berth.plugin.slurm.mig.slots import (
    HEADER,
    SLOTS,
    GresSlot,
    arrange,
    foreign_line,
    gres_conf,
    gres_of,
    node_gres,
    numbers,
    read_slots,
    type_name,
    with_node_gres,
)
from berth.plugin.slurm.records import gres, records
from berth.policies.mig import GpuInstance, Layout

POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """One node, and the files in which Slurm finds that node's GPUs."""

    node: str
    slurm_conf: Path
    """The file with the node's ``NodeName=`` line."""
    gres_conf: Path
    """The file with this node's gres lines only, which gres.conf includes."""
    padding: str = "/dev/berth-off{number}"
    device_map: Path | None = None
    """A file for the task prolog with one line ``NUMBER MIG-UUID`` per slice; None: not written."""
    type_pattern: str = "{profile}"
    explicit: bool = True
    ready_timeout_s: float = 120.0
    devices: DeviceFiles = field(default_factory=DeviceFiles)


class SlurmKeeper:
    """Keeps jobs off one Slurm node while its GPUs are repartitioned, and publishes the new
    slices."""

    def __init__(
        self,
        files: NodeFiles,
        restarter: CommandRestarter,
        *,
        command: Callable[[list[str]], str] = run,
        publisher: ControllerPublisher | None = None,
    ) -> None:
        self._files = files
        self._publisher = publisher or LocalPublisher(
            files.node,
            files.slurm_conf,
            files.gres_conf,
            restarter.controller,
            timeout_s=2 * files.ready_timeout_s,
        )
        self._restarter = restarter
        self._command = command

    def allocated(self, fleet: Fleet) -> frozenset[tuple[str, GpuInstance]]:
        """Return the MIG instances that jobs hold, with their GPU's UUID, from the gres numbers in
        use.

        Where Berth did not assign the numbers and any is in use, all instances are returned.
        """
        used = self._used()
        if not used:
            return frozenset()
        slots = self._slots()
        if slots is None:
            return frozenset((gpu.uuid, r.instance) for gpu in fleet for r in gpu.instances)
        held = (slots[n] for n in used if n < len(slots))
        return frozenset((s.gpu, s.instance) for s in held if s.gpu and s.instance)

    def prepare(self, fleet: Fleet, target: Mapping[str, Layout]) -> Notice:
        """Return the old and the new gres arrangement, for ``publish``. Raises PlanRefused where
        running or pending jobs do not allow the new one."""
        used, slots = self._used(), self._slots()
        conf = self._files.slurm_conf
        with_node_gres(read_config_file(conf), self._files.node, "", source=str(conf))
        other = None if slots else foreign_line(self._lines(), self._files.node)
        if other:
            raise PlanRefused(
                f"{self._files.gres_conf} would lose its line {other!r}",
                hint=f"give the GPUs of {self._files.node} a file of their own, which gres.conf "
                "includes, and name it in mig.toml: gres_conf (docs/mig-apply.md)",
            )
        old: dict[str, Any] = {"gres": self._gres(), "lines": self._lines()}
        if slots is not None:
            old = {"slots": _data(slots)}
        if used and (slots is None or not self._files.explicit):
            raise PlanRefused(
                f"jobs hold GPUs of {self._files.node}, and which ones only Slurm knows",
                hint="the first cut, and each with AutoDetect=nvml, needs the node free of GPU "
                "jobs: drain it and wait",
            )
        wanted = [slot for gpu in fleet for slot in self._devices(gpu, target.get(gpu.uuid))]
        self._refuse_to_strand({slot.type for slot in wanted})
        if not self._files.explicit:
            return {"old": old, "new": {"slots": _data(wanted)}}
        total = len(slots) if used and slots else sum(map(_most, fleet))
        held = {n: slots[n] for n in used if n < len(slots)} if slots else {}
        numbered = arrange(wanted, total, held)
        self._refuse_without_padding(numbered)
        return {"old": old, "new": {"slots": _data(numbered)}}

    def drain(self, reason: str) -> None:
        """Drain the node, unless somebody has drained it already: then only they resume it."""
        if "DRAIN" not in self._node()["State"]:
            self._command(
                ["scontrol", "update", f"NodeName={self._files.node}", "State=DRAIN",
                 f"Reason={reason}"]
            )  # fmt: skip

    def publish(self, part: Any, fleet: Fleet) -> None:
        """Write the node's gres, restart slurmctld and slurmd, and wait until the node is
        registered with it."""
        slots = SLOTS.validate_python(part["slots"]) if "slots" in part else None
        value, lines = part.get("gres"), part.get("lines")
        if slots is not None:
            value, lines = gres_of(slots), self._rendered(slots, fleet)
        self._refuse_to_move(str(value), slots)
        if slots is not None:
            self._write_map(slots, fleet)
        with self._publisher.published(str(value), str(lines)):
            ping = ["scontrol", "ping"]
            self._wait("slurmctld answers", lambda: " is UP" in self._command(ping))
            self._restarter.node()
            registered = f"{self._files.node} is registered with its new slices"
            self._wait(registered, self._registered)
        self._release_stranded()

    def release(self, reason: str) -> None:
        """Resume the node where Berth drained it, or where Slurm did because of the gres change."""
        self._wait(f"{self._files.node} is resumed", lambda: self._resumed(reason))

    def _resumed(self, reason: str) -> bool:
        node = self._node()
        ours = node.get("Reason", "").startswith((reason, "gres/gpu"))
        if "DRAIN" not in node["State"] or not ours:
            return True
        # A slurmctld that has just started refuses to resume a node until the node has registered.
        self._command(["scontrol", "update", f"NodeName={self._files.node}", "State=RESUME"])
        return "DRAIN" not in self._node()["State"]

    def _refuse_without_padding(self, slots: Iterable[GresSlot]) -> None:
        """Raise PlanRefused where a device file of the padding is missing: slurmd would not
        start."""
        for number, slot in enumerate(slots):
            path = Path(self._files.padding.format(number=number))
            if slot.is_padding and not path.exists():
                raise PlanRefused(
                    f"{path} is missing, without which slurmd refuses the node's gres.conf",
                    hint="deploy/berth-mig-tmpfiles.conf and systemd-tmpfiles --create make these "
                    "files: one for each slice that the node's GPUs can have",
                )

    def _refuse_to_strand(self, types: set[str]) -> None:
        """Raise PlanRefused where pending jobs need a slice type that no node would have any more.

        Slurm would hold such jobs without end.
        """
        offered: set[str] = set(types)
        going: set[str] = set()
        for node in records(self._command(["scontrol", "-o", "show", "node"]), "NodeName"):
            names = {name.removeprefix("gpu:") for name in gres(node.get("Gres"))}
            (going if node["NodeName"] == self._files.node else offered).update(names)
        for job in waiting(self._command):
            lost = sorted({name for name, _ in job.types} & (going - offered))
            if lost:
                raise PlanRefused(
                    f"job {job.job} waits for a {lost[0]}, and no node would have one any more",
                    hint="Slurm would hold it for good; let it run first, or keep one such slice",
                )

    def _refuse_to_move(self, gres: str, slots: tuple[GresSlot, ...] | None) -> None:
        """Raise PlanRefused where a job has started since ``prepare`` and its gres number would
        change."""
        used, before = self._used(), self._slots()
        if not used or (before is None and gres == self._gres()):
            return
        unmoved = (
            before is not None
            and slots is not None
            and len(before) == len(slots)
            and all(before[n].device == slots[n].device for n in used if n < len(slots))
        )
        if not unmoved:
            raise PlanRefused(
                f"a job has started on {self._files.node} meanwhile; its GPU would change number",
                hint="try again: the next plan leaves it where it is",
            )

    def _release_stranded(self) -> None:
        """Release jobs that Slurm held because their slice type was missing, where it exists
        again."""
        present_types = {name.removeprefix("gpu:") for name in gres(self._gres())}
        for job in waiting(self._command):
            if job.reason == STRANDED and {name for name, _ in job.types} <= present_types:
                self._command(["scontrol", "release", job.job])

    def _devices(self, gpu: GpuRecord, target: Layout | None) -> list[GresSlot]:
        if not gpu.enabled:
            return [GresSlot(gpu.name.lower().replace(" ", "_"), gpu.uuid)]
        layout = gpu.layout if target is None else target
        pattern = self._files.type_pattern
        return [GresSlot(type_name(i.profile, pattern), gpu.uuid, i) for i in layout.instances]

    def _rendered(self, slots: tuple[GresSlot, ...], fleet: Fleet) -> str:
        files = self._files
        if not files.explicit:
            return f"{HEADER}\nNodeName={files.node} AutoDetect=nvml\n"
        gpus = {gpu.uuid: gpu for gpu in fleet}

        def paths(slot: GresSlot) -> tuple[str, ...]:
            gpu = gpus[slot.gpu or ""]
            if slot.instance is None:
                return files.devices.of_gpu(gpu)
            record = gpu.find(slot.instance)
            if record is None:
                raise BerthError(f"{slot.instance} on {gpu.uuid} is not there to be published")
            return files.devices.of_instance(gpu, record)

        return gres_conf(
            files.node, slots, paths, lambda number: files.padding.format(number=number)
        )

    def _write_map(self, slots: tuple[GresSlot, ...], fleet: Fleet) -> None:
        if self._files.device_map is None:
            return
        gpus = {gpu.uuid: gpu for gpu in fleet}
        lines = []
        for number, slot in enumerate(slots):
            record = gpus[slot.gpu].find(slot.instance) if slot.gpu and slot.instance else None
            uuid = record.uuids[0] if record and record.uuids else slot.gpu
            lines.append(f"{number} {uuid or '-'}\n")
        write_text(self._files.device_map, "".join(lines))

    def _slots(self) -> tuple[GresSlot, ...] | None:
        return read_slots(self._lines(), self._files.node)

    def _lines(self) -> str:
        return read_config_file(self._files.gres_conf)

    def _gres(self) -> str:
        return node_gres(read_config_file(self._files.slurm_conf), self._files.node)

    def _node(self) -> dict[str, str]:
        text = self._command(["scontrol", "-d", "-o", "show", "node", self._files.node])
        node_records = list(records(text, "NodeName"))
        if len(node_records) != 1 or "State" not in node_records[0]:
            raise SchedulerError(f"Slurm knows no node {self._files.node}")
        return dict(node_records[0])

    def _used(self) -> tuple[int, ...]:
        return numbers(self._node().get("GresUsed", ""))

    def _registered(self) -> bool:
        node = self._node()
        state = node["State"]
        if "INVALID" in state:
            raise SchedulerError(
                f"Slurm refuses the new gres of {self._files.node}: {node.get('Reason', '')}"
            )
        return node.get("Gres", "") == self._gres() and not any(
            word in state for word in ("NOT_RESPONDING", "DOWN", "UNKNOWN", "*")
        )

    def _wait(self, condition: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._files.ready_timeout_s
        last = ""
        while time.monotonic() < deadline:
            try:
                if reached():
                    return
            except BerthError as error:
                last = f": {error.message}"
            time.sleep(POLL_S)
        raise SchedulerError(f"not within {self._files.ready_timeout_s:.0f} s: {condition}{last}")


def _data(slots: Iterable[GresSlot]) -> Any:
    return SLOTS.dump_python(tuple(slots), mode="json")


def _most(gpu: GpuRecord) -> int:
    """Return the most slices that the GPU can be partitioned into; 1 where it cannot be
    partitioned."""
    return 1 if gpu.geometry is None else gpu.geometry.compute_slices
