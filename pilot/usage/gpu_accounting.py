"""Reads NVML's accounting mode: what each process on a GPU used, also after it has ended.

Root switches the mode on once (``nvidia-smi -am 1``). The driver then keeps the last processes of
each GPU (4,000 on current drivers) with their utilisation, largest memory and time. The library
is called by ctypes, since nvidia-ml-py takes longer to import than all calls together.
"""

import ctypes

LIBRARY = "libnvidia-ml.so.1"
CLOCK_MARGIN_S = 5.0
"""A process that began at most so long before its job counts as the job's: two clocks differ."""
MOST_PROCESSES = 4_000
_OFF, _NOT_AVAILABLE_64, _NOT_AVAILABLE_32 = 0, 2**64 - 1, 2**32 - 1
_NO_PERMISSION, _NOT_FOUND, _NOT_SUPPORTED = 4, 6, 3


class Stats(ctypes.Structure):
    """``nvmlAccountingStats_t`` of nvml.h."""

    _fields_ = (
        ("gpu_utilisation", ctypes.c_uint),
        ("memory_utilisation", ctypes.c_uint),
        ("max_memory_bytes", ctypes.c_ulonglong),
        ("time_ms", ctypes.c_ulonglong),
        ("start_usec", ctypes.c_ulonglong),
        ("is_running", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 5),
    )


def processes(indices: list[int], since_s: float | None) -> tuple[list[dict[str, object]], str]:
    """Return what the job's processes used of each GPU (``summary``), and what went wrong.

    ``indices``: the GPUs by Slurm's numbers, which are NVML's; empty, or with one that is not
    here (a process in the job sees only the job's GPUs): all that are seen.
    ``since_s``: the job's start; processes that began earlier are another job's.
    """
    try:
        nvml = ctypes.CDLL(LIBRARY)
    except OSError:
        return [], "the library is not on this node"
    if nvml.nvmlInit_v2():
        return [], "the driver does not answer"
    try:
        count = ctypes.c_uint(0)
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        devices = [_device(nvml, index) for index in range(count.value)]
        if any(_is_cut(nvml, device) for device in devices):
            return [], "a GPU here is cut into slices (MIG)"  # Slurm's numbers are of slices then
        are_here = indices and max(indices) < count.value
        summaries, problem = [], ""
        for index in indices if are_here else range(count.value):
            of_gpu, why = _of_gpu(nvml, devices[index], since_s)
            problem = problem or why
            if of_gpu:
                summaries.append({"gpu": index, **summary(of_gpu)})
        return summaries, problem
    finally:
        nvml.nvmlShutdown()


def _device(nvml: ctypes.CDLL, index: int) -> ctypes.c_void_p:
    device = ctypes.c_void_p()
    nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
    return device


def _is_cut(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> bool:
    now, after_reset = ctypes.c_uint(0), ctypes.c_uint(0)
    status = nvml.nvmlDeviceGetMigMode(device, ctypes.byref(now), ctypes.byref(after_reset))
    return status == 0 and now.value == 1


def _of_gpu(
    nvml: ctypes.CDLL, device: ctypes.c_void_p, since_s: float | None
) -> tuple[list[Stats], str]:
    mode = ctypes.c_uint(0)
    if nvml.nvmlDeviceGetAccountingMode(device, ctypes.byref(mode)):
        return [], "accounting is not supported here"
    if mode.value == _OFF:
        return [], "accounting is off (nvidia-smi -am 1)"
    room = ctypes.c_uint(MOST_PROCESSES)
    pids = (ctypes.c_uint * MOST_PROCESSES)()
    status = nvml.nvmlDeviceGetAccountingPids(device, ctypes.byref(room), pids)
    if status:
        return [], "no permission" if status == _NO_PERMISSION else f"error {status}"
    rows = []
    for pid in pids[: min(room.value, MOST_PROCESSES)]:
        stats = Stats()
        if nvml.nvmlDeviceGetAccountingStats(device, pid, ctypes.byref(stats)):
            continue  # the driver dropped it meanwhile
        if since_s is None or stats.start_usec / 1e6 >= since_s - CLOCK_MARGIN_S:
            rows.append(stats)
    return rows, ""


def summary(rows: list[Stats]) -> dict[str, object]:
    """Return one GPU's figures: utilisation as means over the processes' times (0 to 1), and the
    largest memory of processes that ran at the same time, added up."""
    time_ms = sum(row.time_ms for row in rows if _is_known(row.time_ms))
    figures: dict[str, object] = {"processes": len(rows), "time_ms": time_ms}
    for name in ("gpu_utilisation", "memory_utilisation"):
        known = [row for row in rows if getattr(row, name) <= 100 and _is_known(row.time_ms)]
        weight = sum(row.time_ms for row in known)
        if weight:
            total = sum(getattr(row, name) * row.time_ms for row in known)
            figures[name] = round(total / weight / 100.0, 4)
    memory = [row for row in rows if _is_known(row.max_memory_bytes)]
    if memory:
        figures["memory_peak_bytes"] = max(
            sum(other.max_memory_bytes for other in memory if _runs_at(other, row.start_usec))
            for row in memory
        )
    return figures


def _runs_at(row: Stats, usec: int) -> bool:
    ended = row.start_usec + 1000 * row.time_ms
    return bool(row.start_usec <= usec and (usec < ended or usec == row.start_usec))


def _is_known(value: int) -> bool:
    return 0 <= value < 2**62
