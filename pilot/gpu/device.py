"""One GPU of this machine: memory on it, and the kernels of ``kernels.cu`` launched on it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from berth.pilot.errors import PilotError, UsageError
from berth.pilot.gpu.compiled import compiled
from berth.pilot.gpu.libraries import Vendor, load_driver

BLOCK = 256
"""Threads of a block: the constant of ``kernels.cu`` by the same name."""
_MAJOR, _MINOR = 75, 76
"""CUDA's numbers of the attributes that make the compute capability."""


@dataclass(frozen=True, slots=True)
class Array:
    """Memory on the GPU."""

    address: int
    count: int
    """Number of elements of 8 bytes."""


Argument = int | float | Array
"""What a kernel takes: a whole number of 64 bits, a double, or memory on the GPU."""


class Gpu:
    """A GPU by its vendor's driver library; ``name`` is the driver's name of it."""

    def __init__(self, vendor: Vendor, library: Any, number: int) -> None:
        self._vendor, self._library = vendor, library
        self._arrays: list[Array] = []
        device = ctypes.c_int(number)
        name = ctypes.create_string_buffer(256)
        memory = ctypes.c_size_t()
        self._call("name", name, len(name), device)
        self._call("memory", ctypes.byref(memory), device)
        self.name, self.memory_bytes = name.value.decode(errors="replace"), memory.value
        context = ctypes.c_void_p()
        self._call("context", ctypes.byref(context), device)
        self._call("use", context)
        module = ctypes.c_void_p()
        code = compiled(vendor, self._architecture(device))
        self._call("load", ctypes.byref(module), code)
        self._module = module
        self._kernels: dict[str, ctypes.c_void_p] = {}

    def array(self, count: int) -> Array:
        """Return new memory for ``count`` elements of 8 bytes, all of them zero."""
        address = ctypes.c_uint64()
        self._call("allocate", ctypes.byref(address), ctypes.c_size_t(8 * count))
        array = Array(address.value, count)
        self._arrays.append(array)
        self._call("fill", address, ctypes.c_uint(0), ctypes.c_size_t(2 * count))
        return array

    def launch(self, kernel: str, threads: int, *arguments: Argument) -> None:
        """Start a kernel on ``threads`` threads; return without waiting for it."""
        values = [_as_c(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in values)
        )
        blocks = -(-threads // BLOCK)
        self._call(
            "launch", self._kernel(kernel), blocks, 1, 1, min(threads, BLOCK), 1, 1, 0, None,
            pointers, None,
        )  # fmt: skip

    def wait(self) -> None:
        """Wait until all kernels have ended."""
        self._call("wait")

    def first(self, array: Array) -> float:
        """Wait, and return the first element of ``array`` as a double."""
        value = ctypes.c_double()
        self._call("fetch", ctypes.byref(value), ctypes.c_uint64(array.address), ctypes.c_size_t(8))
        return value.value

    def free_all(self) -> None:
        """Free all memory that ``array`` returned."""
        for array in self._arrays:
            self._call("free", ctypes.c_uint64(array.address))
        self._arrays.clear()

    def _kernel(self, name: str) -> ctypes.c_void_p:
        if name not in self._kernels:
            kernel = ctypes.c_void_p()
            self._call("kernel", ctypes.byref(kernel), self._module, name.encode())
            self._kernels[name] = kernel
        return self._kernels[name]

    def _architecture(self, device: ctypes.c_int) -> str | None:
        """Return the compiler's target for this GPU; None: HIPRTC knows it."""
        if "attribute" not in self._vendor.functions:
            return None
        numbers = []
        for attribute in (_MAJOR, _MINOR):
            value = ctypes.c_int()
            self._call("attribute", ctypes.byref(value), attribute, device)
            numbers.append(value.value)
        return "sm_{}{}".format(*numbers)

    def _call(self, action: str, *arguments: object) -> None:
        name = self._vendor.functions[action]
        status = getattr(self._library, name)(*arguments)
        if status:
            raise PilotError(
                f"the GPU's driver failed: {name} returned {status}",
                hint="is another job using the GPU, or its memory?",
            )


def _as_c(argument: Argument) -> Any:
    if isinstance(argument, Array):
        return ctypes.c_uint64(argument.address)
    return ctypes.c_double(argument) if isinstance(argument, float) else ctypes.c_int64(argument)


@contextmanager
def opened(number: int = 0) -> Iterator[Gpu]:
    """Yield one of this machine's GPUs, as the job sees them; its memory is freed at the end.

    Raises ToolMissing without a driver or a run-time compiler, UsageError for a number that is not
    there, PilotError where the driver fails.
    """
    vendor, library = load_driver()
    functions: Sequence[str] = tuple(vendor.functions.values())
    absent = [name for name in functions if not hasattr(library, name)]
    if absent:
        raise PilotError(f"the GPU's driver is too old: it lacks {absent[0]}")
    count = ctypes.c_int()
    status = getattr(library, vendor.functions["init"])(0)
    if not status:
        status = getattr(library, vendor.functions["count"])(ctypes.byref(count))
    if status or not count.value:
        raise PilotError(
            f"there is a GPU driver, but no GPU that can be used (status {status})",
            hint="ask for a GPU in the job (--gres=gpu:1, --gpus=1)",
        )
    if not 0 <= number < count.value:
        raise UsageError(f"there is no GPU {number}: this job has {count.value}, from 0")
    gpu = Gpu(vendor, library, number)
    try:
        yield gpu
    finally:
        gpu.free_all()
