"""Collector of GPU counters from NVML (package ``nvidia-ml-py``) for the GPUs the program uses."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from berth.pilot.collectors.base import Collector, Readings, measured
from berth.pilot.launch import Order, ProcessResult
from berth.pilot.profile import Measurement
from berth.pilot.shepherd.proc import descendants_of

SOURCE = "nvml"
KIB = 1024
MAIN_GPU_NOTE = "mean of samples, whole GPUs"


class NvmlCollector(Collector):
    """Samples the GPUs on which the program's processes run."""

    name = "nvml"
    why_missing = "needs a GPU: {detail}"
    not_seen = "the program used none"

    def __init__(
        self,
        folder: Path | None = None,
        *,
        library: Any | None = None,
        family_of: Callable[[int], list[int]] = descendants_of,
    ) -> None:
        self._nvml = library
        self._family_of = family_of
        self._handles: list[Any] = []
        self._energy_at_start: dict[int, float] = {}
        self.gpus_used: set[int] = set()
        self._memory_peak = 0
        self._samples: dict[str, list[float]] = {"util": [], "rx": [], "tx": []}

    def probe(self) -> str | None:
        if self._nvml is None:
            try:
                # pynvml loads this library: without it, its import is in vain.
                ctypes.CDLL("libnvidia-ml.so.1")
                self._nvml = importlib.import_module("pynvml")
            except OSError:
                return "NVIDIA's driver (libnvidia-ml.so.1) is not installed"
            except ImportError:
                return "the Python module pynvml (nvidia-ml-py) is not installed"
        try:
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            self._handles = [self._nvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
        except self._nvml.NVMLError as error:
            return f"NVML: {error}"
        return None if self._handles else "NVML sees no GPU"

    def names(self) -> tuple[str, ...]:
        """Return the product name of each GPU that ``probe`` found."""
        driver_names = (self._ask("nvmlDeviceGetName", handle) for handle in self._handles)
        return tuple(n.decode() if isinstance(n, bytes) else str(n) for n in driver_names if n)

    def prepare(self, order: Order) -> Order:
        for index, handle in enumerate(self._handles):
            energy = self._ask("nvmlDeviceGetTotalEnergyConsumption", handle)
            if energy is not None:
                self._energy_at_start[index] = float(energy)
        return order

    def watch(self, shepherd_pid: int) -> None:
        ours = set(self._family_of(shepherd_pid))
        memory = 0
        for index, handle in enumerate(self._handles):
            running = self._ask("nvmlDeviceGetComputeRunningProcesses", handle) or []
            own_processes = [process for process in running if process.pid in ours]
            if not own_processes:
                continue
            self.gpus_used.add(index)
            memory += sum(int(process.usedGpuMemory or 0) for process in own_processes)
            rates = self._ask("nvmlDeviceGetUtilizationRates", handle)
            if rates is not None:
                self._samples["util"].append(rates.gpu / 100)
            for key, which in (("rx", 1), ("tx", 0)):
                rate = self._ask("nvmlDeviceGetPcieThroughput", handle, which)
                if rate is not None:
                    self._samples[key].append(float(rate) * KIB)
        self._memory_peak = max(self._memory_peak, memory)

    def finish(self, outcome: ProcessResult) -> Readings:
        counters: dict[str, Measurement] = {}
        if self.gpus_used:
            if self._memory_peak:  # 0: the driver (or MIG) gives no memory per process
                counters["gpu_memory_bytes"] = measured(SOURCE, self._memory_peak, "sampled")
            names = {
                "util": "gpu_utilisation",
                "rx": "host_to_device_bytes_per_s",
                "tx": "device_to_host_bytes_per_s",
            }
            for key, name in names.items():
                values = self._samples[key]
                if values:
                    counters[name] = measured(SOURCE, sum(values) / len(values), MAIN_GPU_NOTE)
            energy = self._energy_used_j()
            if energy is not None:
                counters["gpu_energy_j"] = measured(SOURCE, energy)
        detail = f"{len(self.gpus_used)} of {len(self._handles)} GPUs used"
        return Readings(counters, detail, gpus_used=len(self.gpus_used))

    def _energy_used_j(self) -> float | None:
        total = 0.0
        for index in self.gpus_used:
            now = self._ask("nvmlDeviceGetTotalEnergyConsumption", self._handles[index])
            if now is None or index not in self._energy_at_start:
                return None
            total += max(0.0, float(now) - self._energy_at_start[index]) / 1000
        return total

    def _ask(self, function: str, *arguments: Any) -> Any:
        """Return the result of an NVML function; None: this GPU (or MIG) does not support it."""
        if self._nvml is None:
            return None
        try:
            return getattr(self._nvml, function)(*arguments)
        except self._nvml.NVMLError:
            return None
