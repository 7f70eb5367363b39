"""This process's memory as Linux counts it: resident now, and its high-water mark."""

from __future__ import annotations

from pathlib import Path

from berth.pilot.profile import Measurement, Quality

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
SOURCE = "proc"


def resident() -> dict[str, int]:
    """``VmRSS`` and ``VmHWM`` in bytes."""
    found = {}
    for line in _STATUS.read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "VmHWM"):
            found[name] = int(value.split()[0]) * 1024
    return found


def memory_bytes(which: str = "MemTotal") -> int:
    """Of the machine, or what is ``MemAvailable``."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == which:
            return int(value.split()[0]) * 1024
    raise OSError(f"/proc/meminfo has no {which}")


def forget_peak() -> bool:
    """Start the high-water mark again from here; False where the kernel does not allow it."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


class HostMemory:
    """Follows the peak through loading and running."""

    def __init__(self) -> None:
        self._empty = resident()["VmRSS"]
        self._loaded = 0
        self._apart = False

    def loaded(self) -> None:
        """Call between loading the model and running it."""
        self._loaded = resident()["VmHWM"]
        self._apart = forget_peak()

    def measurements(self) -> dict[str, Measurement]:
        """Call at the end: before the model, the whole peak, and the peak while it ran."""
        peak = resident()["VmHWM"]
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
