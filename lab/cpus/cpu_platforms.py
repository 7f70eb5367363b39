"""Platform files of CPUs by their data sheets, with the score that an experiment grants them."""

from __future__ import annotations

from collections.abc import Collection

from berth.pilot.platform import (
    CoreScore,
    MemoryLevel,
    Platform,
    PlatformKind,
    Signature,
    SignatureSource,
)
from berth.predictor.hardware.core_speed import estimated_score
from berth.predictor.hardware.processor import Processor, cores, processors

SUSTAINED = 0.75
"""Share of the peak bandwidth that STREAM reaches."""
CORE_BYTES_PER_CYCLE = 4.0
"""What one core moves to and from main memory."""


def by_data_sheet(processor: Processor, score: CoreScore | None) -> Platform:
    """Return a node with one socket of ``processor``; None: the score of the catalogue."""
    core, clock = cores()[processor.core], processor.boost_hz
    flops = clock * (processor.vector_bits or core.vector_bits) / 64 * 2 * core.fma_units
    total = SUSTAINED * processor.bytes_per_s
    count = processor.cores
    caches = [
        MemoryLevel(
            level="l1", capacity_bytes=core.l1_bytes, core_bytes_per_s=64 * clock,
            total_bytes_per_s=64 * clock * count,
        ),
        MemoryLevel(
            level="l2", capacity_bytes=processor.l2_bytes or core.l2_bytes,
            core_bytes_per_s=32 * clock, total_bytes_per_s=32 * clock * count,
        ),
    ]  # fmt: skip
    if processor.l3_bytes is not None:
        caches.append(
            MemoryLevel(
                level="l3", capacity_bytes=processor.l3_bytes, instances=processor.l3_instances,
                core_bytes_per_s=10 * clock, total_bytes_per_s=10 * clock * count,
            )
        )  # fmt: skip
    memory = MemoryLevel(
        level="dram", capacity_bytes=64e9, total_bytes_per_s=total,
        core_bytes_per_s=min(total, CORE_BYTES_PER_CYCLE * clock),
    )  # fmt: skip
    return Platform(
        schema="berth.platform/1",
        name=processor.name,
        kind=PlatformKind.CPU,
        architecture=core.architecture,
        processor=processor.model,
        cores=count,
        memory_bytes=64e9,
        signature=Signature(
            source=SignatureSource.SPEC,
            measured_on=processor.source,
            flops_f64_per_s=flops * count,
            flops_f32_per_s=2 * flops * count,
            flops_f64_core_per_s=flops,
            flops_f32_core_per_s=2 * flops,
            memory=(*caches, memory),
            core_score=score,
        ),
    )


def unscored(processor: Processor, without: Collection[str]) -> CoreScore:
    """Return the score that Berth would estimate if the CPUs ``without`` had none."""
    others = [p for p in processors().values() if p.name not in without]
    return estimated_score(cores()[processor.core], processor.boost_hz, others)
