"""Access to the NVIDIA driver by NVML's Python binding (``pynvml`` of nvidia-ml-py).

``with Nvml() as nvml:`` reads the GPUs and creates or destroys single MIG instances. This module
takes no decisions; it checks only that it destroys exactly the requested instance. Every
failure is an error with a sentence.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType, TracebackType
from typing import Any, Self

from berth.pilot.errors import BerthError, ToolMissing, UsageError
from berth.plugin.mig.errors import NoPermission, NvmlFailure
from berth.plugin.mig.inventory import ComputeInstance, Fleet, GpuRecord, InstanceRecord
from berth.policies.mig import Geometry, GpuInstance, Media, SliceProfile, lookup

MIB = 2**20
_ABSENT = frozenset({2, 3, 6})
"""NVML return codes for a profile or MIG device that does not exist."""
_NO_FUNCTION = 13
_DRIVERLESS = frozenset({9, 15, 18})
_UNPLACED = 0xFFFFFFFF
_PROCESS_LISTS = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
)


class Nvml:
    """An open NVML session; use as a context manager."""

    def __init__(self) -> None:
        self._module: ModuleType | None = None
        self._profiles: dict[str, tuple[SliceProfile, ...]] = {}

    def __enter__(self) -> Self:
        try:
            import pynvml  # noqa: PLC0415 (optional; and slow to import)
        except ImportError:
            raise ToolMissing(
                "the Python package nvidia-ml-py",
                needed_for="MIG",
                hint="pip install 'berth[mig]'",
            ) from None
        self._module = pynvml
        self._call("nvmlInit")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(NvmlFailure):
            self._call("nvmlShutdown")

    def read(self) -> Fleet:
        """Return every GPU with its MIG instances and their processes. Raises BerthError."""
        count = self._call("nvmlDeviceGetCount")
        if count == 0:
            raise BerthError("NVML sees no GPU on this machine")
        return tuple(
            self._gpu(i, self._call("nvmlDeviceGetHandleByIndex", i)) for i in range(count)
        )

    def pids(self, uuid: str, record: InstanceRecord) -> tuple[int, ...]:
        """Return the ids of the processes that use this MIG instance now."""
        device = self._device(uuid)
        pids_by_instance = self._pids(device)
        mine = pids_by_instance.get(record.gi_id, set()) | pids_by_instance.get(_UNPLACED, set())
        for mig, gi_id, _ in self._mig_devices(device):
            if gi_id == record.gi_id:
                mine |= {pid for pids in self._pids(mig).values() for pid in pids}
        return tuple(sorted(mine))

    def destroy(self, uuid: str, record: InstanceRecord) -> None:
        """Destroy this GPU instance and its compute instances.

        Raises NvmlFailure, also where a process uses the instance (the driver refuses) or where the
        id now belongs to another instance.
        """
        gi = self._call("nvmlDeviceGetGpuInstanceById", self._device(uuid), record.gi_id)
        info = self._call("nvmlGpuInstanceGetInfo", gi)
        if (info.profileId, info.placement.start) != (record.profile_id, record.instance.start):
            raise NvmlFailure(f"instance {record.gi_id} of {uuid} is another one by now", 0)
        for handle, _, _ in self._compute_instances(gi):
            self._call("nvmlComputeInstanceDestroy", handle)
        self._call("nvmlGpuInstanceDestroy", gi)

    def create(
        self, uuid: str, instance: GpuInstance, compute: tuple[ComputeInstance, ...] | None = None
    ) -> None:
        """Create a GPU instance at its position, with these compute instances; None: one over the
        whole instance."""
        device = self._device(uuid)
        profile = next((p for p in self._all_profiles(device) if p.name == instance.profile), None)
        if profile is None:
            raise NvmlFailure(f"{uuid} offers no MIG profile {instance.profile}", 3)
        placement = self._nvml.c_nvmlGpuInstancePlacement_t(instance.start, profile.memory_slices)
        gi = self._call(
            "nvmlDeviceCreateGpuInstanceWithPlacement",
            device,
            profile.profile_id,
            ctypes.byref(placement),
        )
        if compute is None:
            whole = self._whole_profile(gi, profile.compute_slices)
            self._call("nvmlGpuInstanceCreateComputeInstance", gi, whole)
        for part in sorted(compute or ()):
            at = self._nvml.c_nvmlComputeInstancePlacement_t(part.start, part.size)
            self._call(
                "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
                gi,
                part.profile_id,
                ctypes.byref(at),
            )

    def set_mig_mode(self, uuid: str, *, on: bool) -> bool:
        """Set the MIG mode; return False where the GPU must be reset before the mode takes
        effect."""
        return bool(self._call("nvmlDeviceSetMigMode", self._device(uuid), int(on)) == 0)

    @property
    def _nvml(self) -> Any:
        if self._module is None:
            raise BerthError("NVML is used outside its session")
        return self._module

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, name)(*arguments)
        except self._nvml.NVMLError as error:
            raise _failure(name, int(error.value), str(error)) from None

    def _device(self, uuid: str) -> Any:
        return self._call("nvmlDeviceGetHandleByUUID", uuid)

    def _gpu(self, index: int, handle: Any) -> GpuRecord:
        uuid = self._call("nvmlDeviceGetUUID", handle)
        name = self._call("nvmlDeviceGetName", handle)
        minor = self._call("nvmlDeviceGetMinorNumber", handle)
        pci_id = f"0x{self._call('nvmlDeviceGetPciInfo', handle).pciDeviceId:08X}"
        try:
            now, pending = self._call("nvmlDeviceGetMigMode", handle)
        except NvmlFailure as failure:
            if failure.code not in _ABSENT:
                raise
            return GpuRecord(uuid, index, minor, name, False, False, False, None, pci_id=pci_id)
        if not now:
            return GpuRecord(
                uuid, index, minor, name, True, False, bool(pending), None, pci_id=pci_id
            )
        profiles = self._all_profiles(handle)
        geometry = Geometry.from_profiles(name.removeprefix("NVIDIA "), profiles)
        return GpuRecord(
            uuid, index, minor, name, True, True, bool(pending), geometry,
            tuple(self._instances(handle, uuid, profiles)), pci_id,
        )  # fmt: skip

    def _all_profiles(self, handle: Any) -> tuple[SliceProfile, ...]:
        """Return the GPU's MIG profiles, read once per session: they do not change while the mode
        lasts."""
        uuid = self._call("nvmlDeviceGetUUID", handle)
        if uuid not in self._profiles:
            kinds = range(self._nvml.NVML_GPU_INSTANCE_PROFILE_COUNT)
            profiles = (self._profile(handle, kind) for kind in kinds)
            table = _table(self._call("nvmlDeviceGetName", handle))
            self._profiles[uuid] = tuple(
                replace(profile, other_name=_other_name(profile.name, table))
                for profile in profiles
                if profile is not None
            )
        return self._profiles[uuid]

    def _profile(self, handle: Any, kind: int) -> SliceProfile | None:
        try:
            info = self._call("nvmlDeviceGetGpuInstanceProfileInfo", handle, kind)
        except NvmlFailure as failure:
            if failure.code in _ABSENT:
                return None
            if failure.code != _NO_FUNCTION:
                raise
            raise NvmlFailure(
                "the NVIDIA driver is older than R525, which first names MIG profiles",
                failure.code,
                hint="update the driver",
            ) from None
        return self._described(handle, info, str(info.name).removeprefix("MIG "))

    def _described(self, handle: Any, info: Any, name: str) -> SliceProfile | None:
        count = ctypes.c_uint(0)
        query = "nvmlDeviceGetGpuInstancePossiblePlacements"
        self._call(query, handle, info.id, None, ctypes.byref(count))
        if count.value == 0:
            return None
        places = (self._nvml.c_nvmlGpuInstancePlacement_t * count.value)()
        self._call(query, handle, info.id, places, ctypes.byref(count))
        return SliceProfile(
            name=name,
            compute_slices=info.sliceCount,
            memory_slices=places[0].size,
            memory_bytes=info.memorySizeMB * MIB,
            placements=tuple(sorted(place.start for place in places[: count.value])),
            max_instances=info.instanceCount,
            profile_id=info.id,
            media=Media(info.decoderCount, info.encoderCount, info.jpegCount, info.ofaCount),
            multiprocessors=info.multiprocessorCount,
        )

    def _instances(
        self, handle: Any, uuid: str, profiles: tuple[SliceProfile, ...]
    ) -> Iterator[InstanceRecord]:
        migs = list(self._mig_devices(handle))
        pids = self._pids(handle)
        seen = set()
        for profile in profiles:
            for gi in self._gpu_instances(handle, profile):
                info = self._call("nvmlGpuInstanceGetInfo", gi)
                parts = sorted(self._compute_instances(gi), key=lambda part: part[1])
                own = [(mig, ci_id) for mig, gi_id, ci_id in migs if gi_id == info.id]
                on_it = pids.get(info.id, set()) | pids.get(_UNPLACED, set())
                for mig, _ in own:
                    on_it = on_it.union(*self._pids(mig).values())
                seen.add(info.id)
                yield InstanceRecord(
                    instance=GpuInstance(info.placement.start, profile.name),
                    gi_id=info.id,
                    profile_id=info.profileId,
                    compute=tuple(part for _, part, _ in parts),
                    whole=len(parts) == 1 and parts[0][1].size == profile.compute_slices,
                    uuids=tuple(self._call("nvmlDeviceGetUUID", mig) for mig, _ in own),
                    compute_ids=tuple(ci_id for _, _, ci_id in parts),
                    pids=tuple(sorted(on_it)),
                )
        if {gi_id for _, gi_id, _ in migs} - seen:
            raise NvmlFailure(f"{uuid} has MIG devices that belong to no instance NVML lists", 0)

    def _gpu_instances(self, handle: Any, profile: SliceProfile) -> list[Any]:
        count = ctypes.c_uint(0)
        handles = (self._nvml.c_nvmlGpuInstance_t * max(profile.max_instances, 1))()
        self._call(
            "nvmlDeviceGetGpuInstances", handle, profile.profile_id, handles, ctypes.byref(count)
        )
        return list(handles[: count.value])

    def _compute_profiles(self, gi: Any) -> Iterator[Any]:
        for kind in range(self._nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            try:
                yield self._call("nvmlGpuInstanceGetComputeInstanceProfileInfo", gi, kind, 0, 1)
            except NvmlFailure as failure:
                if failure.code not in _ABSENT:
                    raise

    def _whole_profile(self, gi: Any, slices: int) -> int:
        whole = [info for info in self._compute_profiles(gi) if info.sliceCount == slices]
        if not whole:
            raise NvmlFailure("NVML offers no compute instance for the whole GPU instance", 3)
        return int(max(whole, key=lambda info: info.multiprocessorCount).id)

    def _compute_instances(self, gi: Any) -> Iterator[tuple[Any, ComputeInstance, int]]:
        for profile in list(self._compute_profiles(gi)):
            count = ctypes.c_uint(0)
            handles = (self._nvml.c_nvmlComputeInstance_t * max(profile.instanceCount, 1))()
            self._call(
                "nvmlGpuInstanceGetComputeInstances", gi, profile.id, handles, ctypes.byref(count)
            )
            for handle in list(handles[: count.value]):
                info = self._call("nvmlComputeInstanceGetInfo", handle)
                part = ComputeInstance(info.placement.start, info.placement.size, profile.id)
                yield handle, part, info.id

    def _mig_devices(self, handle: Any) -> Iterator[tuple[Any, int, int]]:
        for index in range(self._call("nvmlDeviceGetMaxMigDeviceCount", handle)):
            try:
                mig = self._call("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            except NvmlFailure as failure:
                if failure.code not in _ABSENT:
                    raise
                continue
            gi_id = self._call("nvmlDeviceGetGpuInstanceId", mig)
            yield mig, gi_id, self._call("nvmlDeviceGetComputeInstanceId", mig)

    def _pids(self, handle: Any) -> dict[int, set[int]]:
        """Return process ids by GPU instance id, for all process types that the driver lists."""
        pids: dict[int, set[int]] = {}
        for name in _PROCESS_LISTS:
            try:
                rows = self._call(name, handle)
            except NvmlFailure as failure:
                # Compute processes must be listed; some drivers do not list the other types.
                if failure.code in (3, _NO_FUNCTION) and name != _PROCESS_LISTS[0]:
                    continue
                raise
            for row in rows:
                gi_id = _UNPLACED if row.gpuInstanceId is None else int(row.gpuInstanceId)
                pids.setdefault(gi_id, set()).add(int(row.pid))
        return pids


def _table(gpu: str) -> Geometry | None:
    """Return Berth's own table of this GPU model; None: it has none."""
    with contextlib.suppress(UsageError):
        return lookup(gpu)
    return None


def _other_name(profile: str, table: Geometry | None) -> str | None:
    """Return the name of a profile in other versions of the driver; None: it has no other."""
    known = None if table is None else table.named(profile)
    if known is None:
        return None
    return known.other_name if known.name == profile else known.name


def _failure(name: str, code: int, text: str) -> BerthError:
    if code == 12:
        return ToolMissing(
            "NVML (libnvidia-ml.so.1)",
            needed_for="MIG",
            hint="it comes with NVIDIA's driver; run this on a node with GPUs",
        )
    if code in _DRIVERLESS:
        return NvmlFailure(
            f"the NVIDIA driver does not answer: {text}",
            code,
            hint="`nvidia-smi` should work first",
        )
    if code == 4:
        return NoPermission(
            "the driver gives MIG instances only to a privileged user",
            code,
            hint="go through berth-mig-helper (docs/mig-apply.md), or run this as root",
        )
    return NvmlFailure(f"NVML refused {name}: {text} ({code})", code)
