"""Find and load the libraries of a GPU vendor: the run-time compiler and the driver.

Both vendors have the same functions under different names, so one table of names is all that
differs: ``nvrtcCompileProgram`` and ``hiprtcCompileProgram``, ``cuMemAlloc_v2`` and ``hipMalloc``.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berth.pilot.errors import ToolMissing

_WAY_OUT = (
    "pip install 'berth[gpu]' brings NVIDIA's; CUDA, ROCm and PyTorch for GPUs have it, too. "
    "Without it the GPU keeps the rates of its data sheet"
)


@dataclass(frozen=True, slots=True)
class Vendor:
    """The names of one vendor's libraries and functions."""

    name: str
    compiler: tuple[str, ...]
    """File names of the run-time compiler, newest first."""
    driver: tuple[str, ...]
    packages: tuple[str, ...]
    """Folders in site-packages that may hold the libraries."""
    compiler_prefix: str
    code: str
    """The compiler's name of what it makes: ``CUBIN`` or ``Code``."""
    functions: Mapping[str, str]
    """The driver's function by what it does."""
    options: tuple[str, ...] = ()


CUDA = Vendor(
    name="NVRTC",
    compiler=("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"),
    driver=("libcuda.so.1",),
    packages=("nvidia/cuda_nvrtc/lib", "nvidia/cu13/lib", "torch/lib"),
    compiler_prefix="nvrtc",
    code="CUBIN",
    functions={
        "init": "cuInit",
        "count": "cuDeviceGetCount",
        "name": "cuDeviceGetName",
        "memory": "cuDeviceTotalMem_v2",
        "context": "cuDevicePrimaryCtxRetain",
        "use": "cuCtxSetCurrent",
        "load": "cuModuleLoadData",
        "kernel": "cuModuleGetFunction",
        "allocate": "cuMemAlloc_v2",
        "free": "cuMemFree_v2",
        "fill": "cuMemsetD32_v2",
        "fetch": "cuMemcpyDtoH_v2",
        "launch": "cuLaunchKernel",
        "wait": "cuCtxSynchronize",
        "attribute": "cuDeviceGetAttribute",
    },
)
HIP = Vendor(
    name="HIPRTC",
    compiler=("libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"),
    driver=("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"),
    packages=("torch/lib", "_rocm_sdk_core/lib"),
    compiler_prefix="hiprtc",
    code="Code",
    functions={
        "init": "hipInit",
        "count": "hipGetDeviceCount",
        "name": "hipDeviceGetName",
        "memory": "hipDeviceTotalMem",
        "context": "hipDevicePrimaryCtxRetain",
        "use": "hipCtxSetCurrent",
        "load": "hipModuleLoadData",
        "kernel": "hipModuleGetFunction",
        "allocate": "hipMalloc",
        "free": "hipFree",
        "fill": "hipMemsetD32",
        "fetch": "hipMemcpyDtoH",
        "launch": "hipModuleLaunchKernel",
        "wait": "hipDeviceSynchronize",
    },
    options=("-munsafe-fp-atomics",),
)
VENDORS = (CUDA, HIP)


def load_compiler(vendor: Vendor) -> Any:
    """Return the vendor's run-time compiler. Raises ToolMissing that says how to get one."""
    library = _load(vendor, vendor.compiler)
    if library is None:
        raise ToolMissing(vendor.name, needed_for="benchmarks of GPUs", hint=_WAY_OUT)
    return library


def load_driver() -> tuple[Vendor, Any]:
    """Return the vendor whose driver this machine has, and the driver. Raises ToolMissing."""
    for vendor in VENDORS:
        library = _load(vendor, vendor.driver)
        if library is not None:
            return vendor, library
    raise ToolMissing(
        "a GPU driver (libcuda.so.1, libamdhip64.so)",
        needed_for="benchmarks of GPUs",
        hint="run it on a node with a GPU, in a job that asks for the GPU",
    )


def _load(vendor: Vendor, names: tuple[str, ...]) -> Any | None:
    for path in _paths(vendor, names):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def _paths(vendor: Vendor, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the names themselves, for the loader to find, then files of installed packages."""
    yield from names
    for package in vendor.packages:
        top, _, rest = package.partition("/")
        spec = importlib.util.find_spec(top)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield from (str(Path(folder) / rest / name) for name in names)
    for variable in ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH"):
        if root := os.environ.get(variable):
            for lib in ("lib64", "lib"):
                yield from (str(Path(root) / lib / name) for name in names)
