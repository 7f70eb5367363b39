"""Makes stub platform files for hardware without a benchmark, to be replaced by measured ones.

Their rates are rough estimates from the core count, so that the site file is complete and
predictions can be shown. The submit filter does not act on predictions for stubs.
"""

from __future__ import annotations

from berth.pilot.platform import (
    MemoryLevel,
    Platform,
    PlatformKind,
    Signature,
    SignatureSource,
)
from berth.pilot.profile import Target
from berth.predictor.hardware.by_sheet import platform_of
from berth.predictor.hardware.device import DataSheet
from berth.predictor.hardware.unit import published

STUB_MARK = "STUB written by berth site init"
_FLOPS_F64_PER_CORE = 20e9
"""Estimated sustained double-precision FLOP/s per core: 16 per cycle at 1.25 GHz, the sustained
rate of a 2.5 GHz core with 256-bit units.
"""
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
    """Return a stub platform for a CPU node of which only cores, memory and architecture
    are known.
    """
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
            source=SignatureSource.RULE_OF_THUMB,
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


def gpu_stub(
    name: str,
    *,
    architecture: str,
    device: DataSheet | None = None,
    memory_bytes: float = _GPU_MEMORY_BYTES,
) -> Platform:
    """Return a stub platform for a GPU or slice, from its data sheet or else with rules of thumb.

    ``memory_bytes`` is used only without a data sheet.
    """
    if device is not None and published(device):
        platform = platform_of(device, name, architecture=architecture)
        marked = f"{STUB_MARK}: {platform.signature.measured_on}"
        return platform.model_copy(
            update={
                "description": f"{STUB_MARK}: {platform.description}",
                "signature": platform.signature.model_copy(update={"measured_on": marked}),
            }
        )
    return Platform(
        schema="berth.platform/1",
        name=name,
        kind=PlatformKind.GPU,
        description=f"{STUB_MARK}: an unknown GPU; put its memory and rates",
        architecture=architecture,
        targets=(Target.CUDA,),
        cores=1,
        memory_bytes=memory_bytes,
        signature=Signature(
            source=SignatureSource.RULE_OF_THUMB,
            measured_on=f"{STUB_MARK}: rules of thumb, nothing measured",
            flops_f64_per_s=_GPU_FLOPS_F64,
            flops_f32_per_s=2 * _GPU_FLOPS_F64,
            memory=(
                MemoryLevel(
                    level="dram",
                    capacity_bytes=memory_bytes,
                    total_bytes_per_s=_GPU_BYTES_PER_S,
                ),
            ),
            launch_overhead_s=5e-6,
        ),
    )
