"""Platforms made from data sheets, and the one rule by which users name a platform.

A data sheet has no rates of caches. They are estimated from the cores (multiprocessors) and the
clock, as the shipped platforms' rates are, and the Signature says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from berth.pilot.errors import UsageError
from berth.pilot.platform import (
    CoreScore,
    MemoryLevel,
    Platform,
    PlatformKind,
    Precision,
    Signature,
    SignatureSource,
)
from berth.pilot.profile import Profile, Target
from berth.predictor.core.program_memory import ran_on_gpu
from berth.predictor.hardware.catalogue import device_of, find, nearest, platform_named
from berth.predictor.hardware.device import SHEET, DataSheet
from berth.predictor.hardware.mig.slices import derived
from berth.predictor.hardware.processor import Processor, cores
from berth.predictor.hardware.processor_names import (
    find_processor,
    known_processor,
    nearest_processors,
)
from berth.predictor.hardware.unit import SUSTAINED_SHARE, whole

_L1_BYTES_PER_CLOCK = {"cuda": 128, "hip": 64}
"""Bytes per clock that a multiprocessor's first-level cache delivers, by software platform."""
_L1_BYTES = {"cuda": 131072, "hip": 32768}
_L2_BYTES_PER_CLOCK = 22
"""Bytes per clock and multiprocessor of the second-level cache: the median of shipped GPUs."""
_L2_OVER_DRAM = 1.9
"""Least rate of the second-level cache over that of main memory: that of an H100. Blackwell has a
cache on each of two dies, so that the rule by multiprocessors is too low for it."""
_FP64_SHARE = {
    "sm_30": 1 / 24, "sm_35": 1 / 3, "sm_37": 1 / 3, "sm_50": 1 / 32, "sm_52": 1 / 32,
    "sm_60": 1 / 2, "sm_61": 1 / 32, "sm_62": 1 / 32, "sm_70": 1 / 2, "sm_72": 1 / 32,
    "sm_75": 1 / 32, "sm_80": 1 / 2, "sm_86": 1 / 64, "sm_87": 1 / 64, "sm_89": 1 / 64,
    "sm_90": 1 / 2, "sm_100": 1 / 2, "sm_120": 1 / 64, "sm_121": 1 / 64,
}  # fmt: skip
"""Rate in double precision over single, by the compiler's target, for sheets without it: NVIDIA's
CUDA C++ Programming Guide, throughput of arithmetic instructions."""
_LEAST_FP64_SHARE = 1 / 64
"""The same where the target is not known: no GPU that computes in double precision has less."""
_LANES = 128
"""Lanes of a multiprocessor, for data sheets without a clock."""
LAUNCH_S = 5e-6
"""Default seconds to start a kernel."""
_SOCKET_MEMORY_BYTES = 256e9
"""Assumed main memory of a socket, which no data sheet of a CPU has."""
_CPU_SUSTAINED = 0.75
"""Share of a CPU's peak bandwidth that STREAM reaches."""
_MOST_CHANNELS_OF_A_SINGLE = 2
"""Memory channels of CPUs for laptops and desktops, of which a machine has one."""
_CORE_BYTES_PER_CYCLE = {"l1": 64, "l2": 32, "l3": 10}
"""Bytes per cycle of the highest clock that one core moves from and to a level of cache."""


def place_named(name: str, known: Mapping[str, Platform]) -> Platform:
    """Return the platform that a user means by a name; the same for every kind of workload.

    In this order: a platform of that name; a MIG slice of a platform
    (``h100-80gb-mig-1g.10gb``); the only GPU platform whose device has the name; the device or the
    CPU of the name by its data sheet, under its canonical name. Raises UsageError for unknown and
    ambiguous names, and for data sheets without peaks or memory.
    """
    if name in known:
        return known[name]
    if (slice_ := derived(name, known)) is not None:
        return slice_
    device = find(name)
    if device is None:
        try:
            return platform_named(name, known)
        except UsageError as error:
            if (processor := known_processor(name)) is not None:
                return platform_of_processor(processor)
            near = nearest(name) or nearest_processors(name)
            if not near or error.hint is None or not error.hint.startswith("`"):
                raise
            hint = f"did you mean {' or '.join(near)}? {error.hint}"
            raise UsageError(error.message, hint=hint) from None
    if any(
        platform.kind is PlatformKind.GPU and device_of(platform) == device
        for platform in known.values()
    ):
        return platform_named(name, known)
    return platform_of(device)


def pilots_platform(profile: Profile, known: Mapping[str, Platform]) -> Platform | None:
    """Return the platform that a profile was measured on: the known one of its name, else a node of
    the CPU that the profile names, by its data sheet; None: it ran on a GPU, or nothing tells."""
    cpu, runs_on = known_processor(profile.provenance.host_cpu), profile.runs_on
    if profile.platform in known or cpu is None or ran_on_gpu(profile):
        return known.get(profile.platform)
    cores = runs_on.threads * runs_on.ranks / (runs_on.nodes or 1)
    several = cpu.memory_channels > _MOST_CHANNELS_OF_A_SINGLE
    node = platform_of_processor(cpu, sockets=math.ceil(cores / cpu.cores) if several else 1)
    return node.model_copy(update={"name": profile.platform})


def platform_of(
    device: DataSheet, name: str | None = None, *, architecture: str = "x86_64"
) -> Platform:
    """Return the platform of a whole device by its data sheet; ``name`` defaults to the device's.

    ``architecture`` is that of the host. Raises UsageError without peaks or memory.
    """
    unit = whole(device)
    fp32 = unit.vector_flops
    rate = unit.bytes_per_s * SUSTAINED_SHARE
    multiprocessors = device.multiprocessors or 1
    clocks = multiprocessors * (device.clock_hz or fp32 / (2 * _LANES * multiprocessors))
    levels = [
        MemoryLevel(level="dram", capacity_bytes=float(unit.memory_bytes), total_bytes_per_s=rate)
    ]
    if device.software in _L1_BYTES and device.l2_bytes is not None:
        levels[:0] = [
            MemoryLevel(
                level="l1",
                capacity_bytes=float(_L1_BYTES[device.software] * multiprocessors),
                total_bytes_per_s=_L1_BYTES_PER_CLOCK[device.software] * clocks,
            ),
            MemoryLevel(
                level="l2",
                capacity_bytes=float(device.l2_bytes),
                total_bytes_per_s=max(_L2_BYTES_PER_CLOCK * clocks, _L2_OVER_DRAM * rate),
            ),
        ]
    return Platform(
        schema="berth.platform/1",
        name=name or device.name,
        kind=PlatformKind.GPU,
        description=f"{device.description} by its data sheet",
        architecture=architecture,
        targets=(Target.HIP if device.software == "hip" else Target.CUDA,),
        cores=multiprocessors,
        memory_bytes=float(unit.memory_bytes),
        power_w=device.power_w,
        accelerator=device.name,
        signature=Signature(
            source=SignatureSource.SPEC,
            measured_on=f"{device.sources[SHEET]}; nothing measured, rates of caches estimated",
            flops_f64_per_s=unit.peaks.vector.get(
                Precision.FP64, fp32 * _FP64_SHARE.get(device.isa or "", _LEAST_FP64_SHARE)
            ),
            flops_f32_per_s=fp32,
            memory=tuple(levels),
            launch_overhead_s=device.launch_overhead_s or LAUNCH_S,
        ),
    )


def platform_of_processor(
    processor: Processor,
    *,
    sockets: int = 1,
    score: CoreScore | None = None,
) -> Platform:
    """Return the platform of a node with ``sockets`` of a CPU by its data sheet.

    ``score``: the speed of its core where the catalogue's is not to count.
    """
    core, clock = cores()[processor.core], processor.boost_hz
    count = sockets * processor.cores
    is_listed = find_processor(processor.model) is not None
    sheet = "its data sheet" if is_listed else "the data sheet of a typical model with its core"
    flops = clock * (processor.vector_bits or core.vector_bits) / 64 * 2 * core.fma_units
    bandwidth = sockets * _CPU_SUSTAINED * processor.bytes_per_s
    capacities = {
        "l1": core.l1_bytes,
        "l2": processor.l2_bytes or core.l2_bytes,
        "l3": processor.l3_bytes and sockets * processor.l3_bytes,
        "dram": sockets * _SOCKET_MEMORY_BYTES,
    }
    rates = {level: clock * per_cycle for level, per_cycle in _CORE_BYTES_PER_CYCLE.items()}
    rates["dram"] = core.bytes_per_s
    rates["l3"] = max(rates["l3"], rates["dram"])
    return Platform(
        schema="berth.platform/1",
        name=processor.name,
        kind=PlatformKind.CPU,
        description=f"{sockets} x {processor.model} by {sheet}; its memory was assumed",
        architecture=core.architecture,
        instruction_sets=(processor.instruction_set,) if processor.instruction_set else (),
        processor=processor.model,
        cores=count,
        memory_bytes=capacities["dram"],
        signature=Signature(
            source=SignatureSource.SPEC,
            measured_on=f"{processor.source}; nothing measured, rates of caches estimated",
            flops_f64_per_s=flops * count,
            flops_f32_per_s=2 * flops * count,
            flops_f64_core_per_s=flops,
            flops_f32_core_per_s=2 * flops,
            memory=tuple(
                MemoryLevel(
                    level=level,
                    capacity_bytes=capacity,
                    instances=sockets * processor.l3_instances if level == "l3" else 1,
                    core_bytes_per_s=min(rates[level], bandwidth),
                    total_bytes_per_s=bandwidth if level == "dram" else rates[level] * count,
                )
                for level, capacity in capacities.items()
                if capacity is not None
            ),
            core_score=score,
        ),
    )


def like(
    name: str, model: str, known: Mapping[str, Platform], *, sockets: int | None = None
) -> Platform:
    """Return a platform called ``name``, otherwise as the platform, device or CPU ``model``.

    ``sockets``: CPUs of a node (default: 1), for a CPU by its data sheet. Prices are left out: they
    are a site's own. Raises UsageError for an unknown model, for a device that runs neither CUDA
    nor HIP, for sockets of anything but a data sheet of a CPU, and for a name that another device
    of the catalogue has.
    """
    if sockets is None:
        base = place_named(model, known)
    elif model not in known and (processor := known_processor(model)) is not None:
        base = platform_of_processor(processor, sockets=sockets)
    else:
        raise UsageError(
            f"{model!r} is not a CPU of the catalogue, so its sockets are not known",
            hint="`berth site platform list --processors` shows those that are",
        )
    own = device_of(base) if base.is_gpu else None
    if own is not None and own.software not in _L1_BYTES:
        raise UsageError(
            f"{own.name} runs {own.software}, and Berth places only programs for CUDA and HIP",
            hint=f"`berth predict --platform {own.name}` shows what language models reach there",
        )
    device = find(name)
    if device is not None and base.is_gpu and own != device:
        raise UsageError(
            f"{name!r} is a name of the {device.description}, which {base.name} is not",
            hint=f"--like {device.name} takes its own data sheet; or choose another name",
        )
    return Platform.model_validate(
        base.model_copy(
            update={
                "name": name,
                "description": f"as {base.name}: {base.description}",
                "accelerator": base.accelerator or (own and own.name),
                "price_per_hour": None,
            }
        ).model_dump(by_alias=True)
    )
