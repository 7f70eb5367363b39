"""A platform file for hardware that nobody has measured yet: marked, and to be replaced.

Its rates are rough rules of thumb from the core count, so that the site file is complete and
predictions can be shown. They are priors, which the submit filter does not act on.
"""

from __future__ import annotations

from berth.pilot.platform import MemoryLevel, Platform, PlatformKind, Signature, SignatureSource
from berth.pilot.profile import Target

STUB_MARK = "STUB written by berth init"
_FLOPS_F64_PER_CORE = 20e9
"""Sixteen operations a cycle at 1.25 GHz: what a 2.5 GHz core with 256-bit units sustains."""
_DRAM_BYTES_PER_S_PER_CORE = 4e9
_CORE_DRAM_BYTES_PER_S = 10e9
_GPU_FLOPS_F64 = 5e12
_GPU_BYTES_PER_S = 800e9
_GPU_MEMORY_BYTES = 16e9


def cpu_stub(
    name: str,
    *,
    cores: int,
    memory_bytes: int,
    architecture: str,
    instruction_sets: tuple[str, ...],
) -> Platform:
    """A CPU node of which only the size is known."""
    total = _DRAM_BYTES_PER_S_PER_CORE * cores
    return Platform(
        schema="berth.platform/1",
        name=name,
        kind=PlatformKind.CPU,
        description=f"{STUB_MARK}: {cores} cores; run `berth pilot bench` on such a node",
        architecture=architecture,
        targets=(Target.CPU,),
        instruction_sets=instruction_sets,
        cores=cores,
        memory_bytes=float(memory_bytes),
        signature=Signature(
            source=SignatureSource.SPEC,
            measured_on=f"{STUB_MARK}: rules of thumb from the core count, nothing measured",
            flops_f64_per_s=_FLOPS_F64_PER_CORE * cores,
            flops_f32_per_s=2 * _FLOPS_F64_PER_CORE * cores,
            flops_f64_core_per_s=_FLOPS_F64_PER_CORE,
            flops_f32_core_per_s=2 * _FLOPS_F64_PER_CORE,
            memory=(
                MemoryLevel(
                    level="dram",
                    capacity_bytes=float(memory_bytes),
                    core_bytes_per_s=min(total, _CORE_DRAM_BYTES_PER_S),
                    total_bytes_per_s=total,
                ),
            ),
        ),
    )


def gpu_stub(name: str, *, architecture: str) -> Platform:
    """A GPU or slice of which nothing is known but that it is one."""
    return Platform(
        schema="berth.platform/1",
        name=name,
        kind=PlatformKind.GPU,
        description=f"{STUB_MARK}: an unknown GPU; put its memory and rates",
        architecture=architecture,
        targets=(Target.CUDA,),
        cores=1,
        memory_bytes=_GPU_MEMORY_BYTES,
        signature=Signature(
            source=SignatureSource.SPEC,
            measured_on=f"{STUB_MARK}: rules of thumb, nothing measured",
            flops_f64_per_s=_GPU_FLOPS_F64,
            flops_f32_per_s=2 * _GPU_FLOPS_F64,
            memory=(
                MemoryLevel(
                    level="dram",
                    capacity_bytes=_GPU_MEMORY_BYTES,
                    total_bytes_per_s=_GPU_BYTES_PER_S,
                ),
            ),
            launch_overhead_s=5e-6,
        ),
    )
