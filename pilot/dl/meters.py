"""Meters of a measuring process: energy (from NVML or RAPL) and host memory."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from berth.pilot.profile import Measurement, Quality
from berth.pilot.shepherd.proc import numbers_of, read_file

POWERCAP = Path("/sys/class/powercap")
SAMPLE_S = 0.02


@dataclass(frozen=True, slots=True)
class EnergyReading:
    """The energy of a time window in joules; None where it is unknown, and ``note`` says why."""

    joules: float | None
    seconds: float
    source: str
    note: str | None = None


class Meter(Protocol):
    """An energy meter: measures the energy between ``start`` and ``stop``."""

    def start(self) -> None:
        """Start the window over which energy and utilisation are measured."""

    def stop(self) -> EnergyReading:
        """End the measuring window and return its energy."""


class NoMeter:
    """A meter without values for devices whose energy cannot be read; readings say why."""

    def __init__(self, source: str, why: str) -> None:
        self._source, self._why = source, why
        self._began = 0.0

    def start(self) -> None:
        self._began = time.monotonic()

    def stop(self) -> EnergyReading:
        return EnergyReading(None, time.monotonic() - self._began, self._source, self._why)


class RaplMeter:
    """Reads the energy of whole processor packages from RAPL, other processes' share included."""

    def __init__(self, counters: Sequence[Path]) -> None:
        self._counters = counters
        self._before: list[int] = []
        self._began = 0.0

    def start(self) -> None:
        self._before = [_number(path / "energy_uj") for path in self._counters]
        self._began = time.monotonic()

    def stop(self) -> EnergyReading:
        seconds = time.monotonic() - self._began
        used = 0
        for path, before in zip(self._counters, self._before, strict=True):
            now = _number(path / "energy_uj")
            used += now - before if now >= before else now - before + _wrap(path)
        return EnergyReading(used / 1e6, seconds, "rapl", "whole processor packages")


def rapl(root: Path = POWERCAP) -> Meter:
    """Return a meter of the processor packages' RAPL counters.

    Where they are missing or unreadable, a ``NoMeter`` with the reason is returned.
    """
    counters = sorted(p for p in root.glob("intel-rapl:*") if p.name.count(":") == 1)
    if not counters:
        return NoMeter("rapl", "this machine shows no RAPL counters")
    try:
        for path in counters:
            _number(path / "energy_uj")
    except (OSError, ValueError):
        return NoMeter("rapl", "RAPL counters are readable by root only")
    return RaplMeter(counters)


def _number(path: Path) -> int:
    return int(path.read_text())


def _wrap(path: Path) -> int:
    return _number(path / "max_energy_range_uj")


class NvmlMeter:
    """Reads the energy of one whole GPU from NVML.

    GPUs without an energy counter are sampled for power every 20 ms.
    """

    def __init__(
        self, library: Any, handle: Any, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._nvml, self._handle, self._clock = library, handle, clock
        self._before: float | None = None
        self._samples: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._sampler: threading.Thread | None = None
        self._began = 0.0

    def start(self) -> None:
        self._before = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        self._began = self._clock()
        self._samples.clear()
        if self._before is None:
            self._ended.clear()
            self._sampler = threading.Thread(target=self._sample, daemon=True)
            self._sampler.start()

    def stop(self) -> EnergyReading:
        seconds = self._clock() - self._began
        if self._sampler is not None:
            self._ended.set()
            self._sampler.join()
            self._sampler = None
            joules = integrate(self._samples, self._began, self._began + seconds)
            note = "integrated power samples" if joules is not None else "NVML tells no power"
            return EnergyReading(joules, seconds, "nvml", note)
        after = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        if after is None or self._before is None:
            return EnergyReading(None, seconds, "nvml", "NVML's energy counter went away")
        return EnergyReading(max(0.0, after - self._before) / 1000, seconds, "nvml", None)

    def _sample(self) -> None:
        while True:
            power = self._ask("nvmlDeviceGetPowerUsage")
            if power is not None:
                self._samples.append((self._clock(), power / 1000))
            if self._ended.wait(SAMPLE_S):
                return

    def _ask(self, question: str) -> float | None:
        try:
            return float(getattr(self._nvml, question)(self._handle))
        except self._nvml.NVMLError:
            return None


def mig_profile(name: str) -> str | None:
    """Return the MIG profile in a device name such as ``NVIDIA A100-SXM4-40GB MIG 1g.5gb``.

    ``unknown`` for a slice whose name lacks the profile; None for a whole GPU.
    """
    _, mark, profile = name.partition(" MIG ")
    if mark:
        return profile
    return "unknown" if os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-") else None


def integrate(samples: Sequence[tuple[float, float]], start: float, end: float) -> float | None:
    """Return the energy in joules between two times from samples (time in s, power in W).

    Trapezoidal rule; the first and last power extend to the ends. None without samples.
    """
    if not samples:
        return None
    points = [(start, samples[0][1]), *samples, (end, samples[-1][1])]
    joules = 0.0
    for (t0, p0), (t1, p1) in itertools.pairwise(points):
        joules += max(0.0, min(t1, end) - max(t0, start)) * (p0 + p1) / 2
    return joules


_CLEAR = Path("/proc/self/clear_refs")
SOURCE = "proc"


def resident_bytes(which: str) -> int:
    """Return this process's resident memory (``VmRSS``), or its high-water mark (``VmHWM``)."""
    return 1024 * numbers_of(read_file("/proc/self/status"))[which]


def memory_bytes(which: str = "MemTotal") -> int:
    """Return a line of ``/proc/meminfo`` in bytes, by default the machine's total memory."""
    return 1024 * numbers_of(read_file("/proc/meminfo"))[which]


def forget_peak() -> bool:
    """Reset this process's memory high-water mark; return False where the kernel refuses."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


class HostMemory:
    """Measures the peak host memory of this process, for loading and running a model."""

    def __init__(self) -> None:
        self._empty = resident_bytes("VmRSS")
        self._loaded = 0
        self._apart = False

    def loaded(self) -> None:
        """Record the peak memory of loading the model, before the model runs."""
        self._loaded = resident_bytes("VmHWM")
        self._apart = forget_peak()

    def measurements(self) -> dict[str, Measurement]:
        """Return host memory in bytes: before loading, the overall peak, and the run's peak."""
        peak = resident_bytes("VmHWM")
        run = Measurement(
            value=peak if self._apart else None,
            quality=Quality.MEASURED if self._apart else Quality.MISSING,
            source=SOURCE,
            note=None if self._apart else "the kernel does not reset the high-water mark",
        )
        return {
            "host_before_bytes": _bytes(self._empty, "interpreter and framework, no model yet"),
            "host_peak_bytes": _bytes(max(peak, self._loaded), "high-water mark with loading"),
            "host_run_peak_bytes": run,
        }


def _bytes(count: int, note: str) -> Measurement:
    return Measurement(value=count, quality=Quality.MEASURED, source=SOURCE, note=note)
